"""`ovor predict` prints rows as they are computed, and no bad image costs the others."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.text import Text

from command import WIDE, ovor
from drawings import draw
from ovor import Classifier
from ovor.classifier.prediction import Prediction, row
from ovor.cli.given_items import LOOKED_AHEAD, look_ahead
from ovor.cli.prediction_rows import aligned, tabbed
from ovor.data.image_files import each_image, find_images
from ovor.data.modality import IMAGES

KEYS = ["image", "label", "unknown", "likeliest", "confidence", "margin", "best"]


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, and images to ask about; it must not be changed."""
    root = tmp_path_factory.mktemp("garden")
    draw(root / "ask", ["owl", "sun"], 40, first=20)
    draw(root / "taught", ["owl", "sun"], 8)
    Classifier("embedded", device="cpu").learn(root / "taught").save(root / "m.ovor")
    (root / "bad.png").write_bytes(b"")
    return root


def begun(*arguments: str, **options: object) -> "subprocess.Popen[str]":
    """Begin `ovor predict` in a process whose standard streams can be used meanwhile."""
    command = [sys.executable, "-m", "ovor", "predict", *arguments]
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe, **options}
    return subprocess.Popen(command, text=True, env={**os.environ, **WIDE}, **streams)  # type: ignore[call-overload,no-any-return]


def test_a_row_comes_before_the_next_image_is_known(garden: Path) -> None:
    """Standard input stays open: whoever waited for its end would wait for ever."""
    first, second, third = sorted((garden / "ask/sun").iterdir())[:3]
    with begun(str(garden / "m.ovor"), "-", "--jsonl") as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        print(first, file=process.stdin, flush=True)
        said = json.loads(process.stdout.readline())
        assert list(said) == KEYS
        assert said["image"] == str(first)
        print(second, third, sep="\n", file=process.stdin, flush=True)
        assert json.loads(process.stdout.readline())["image"] == str(second)
        process.stdin.close()
        assert json.loads(process.stdout.readline())["image"] == str(third)
        assert (process.wait(), process.stderr.read()) == (0, "")


def test_who_reads_two_rows_and_leaves_hears_of_no_error(garden: Path, tmp_path: Path) -> None:
    """As `| head -2` does; rows enough to fill the pipe's buffer follow."""
    image = next((garden / "ask/owl").iterdir())
    for number in range(2000):
        os.link(image, tmp_path / f"{number:0200}.png")
    with begun(str(garden / "m.ovor"), str(tmp_path), "--jsonl") as process:
        assert process.stdout
        assert process.stderr
        rows = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, "")
    assert [Path(row["image"]).name for row in rows] == [f"{n:0200}.png" for n in (0, 1)]


def test_images_are_found_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2.png", "b/1.jpg", "a.png", "c/d/3.png", "c.txt", ".hidden/4.png", "b.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "c/loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    looked: list[str] = []
    scandir = os.scandir

    def noted(path: Path) -> object:
        looked.append(path.name)
        return scandir(path)

    monkeypatch.setattr("os.scandir", noted)
    found = each_image(tmp_path)
    assert next(found) == tmp_path / "a.png"
    assert looked == [tmp_path.name]
    rest = list(found)
    monkeypatch.undo()
    assert [tmp_path / "a.png", *rest] == find_images(tmp_path)[0]


def test_a_large_folder_is_not_listed_before_the_first_image(tmp_path: Path) -> None:
    for number in range(LOOKED_AHEAD + 3):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/a.png").touch()
    ahead, found = look_ahead([str(tmp_path)], IMAGES)
    assert len(ahead) == LOOKED_AHEAD
    assert len(list(found)) == 3


def test_a_bad_image_is_a_row_and_fails_at_the_end(garden: Path) -> None:
    paths = [garden / "bad.png", garden / "ask/owl", "gone.png", garden / "ask/sun"]
    for flag in ("--json", "--jsonl"):
        done = ovor("predict", garden / "m.ovor", *paths, flag)
        assert done.returncode == 1
        assert done.stderr == "ovor: 2 of 82 images could not be read: their rows say why.\n"
        lines = json.loads(done.stdout) if flag == "--json" else done.stdout.splitlines()
        rows = [json.loads(row) if isinstance(row, str) else row for row in lines]
        assert rows[0] == {
            "image": str(garden / "bad.png"),
            "error": f"The image {garden / 'bad.png'} cannot be read (it is empty, or no image): "
            "replace it by a whole copy, or remove it.",
        }
        assert list(rows[41]) == ["image", "error"]
        assert [list(row) for row in rows[1:41] + rows[42:]] == [KEYS] * 80
    done = ovor("predict", garden / "m.ovor", *paths)
    assert done.returncode == 1
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == 82
    assert lines[41][:2] == ["gone.png", ""]
    assert lines[41][2].startswith("The image gone.png cannot be read")


def test_an_empty_folder_among_others_is_a_row_too(garden: Path, tmp_path: Path) -> None:
    done = ovor("predict", garden / "m.ovor", tmp_path, garden / "ask/owl", "--jsonl")
    assert done.returncode == 1
    first, *others = map(json.loads, done.stdout.splitlines())
    assert first["error"] == f"There is no image in {tmp_path}: check the folder."
    assert len(others) == 40


def test_one_value_or_many_but_not_both(garden: Path) -> None:
    done = ovor("predict", garden / "m.ovor", garden / "ask/owl", "--json", "--jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "choose one" in done.stderr


def on_a_terminal(*arguments: object) -> str:
    """Return what `ovor predict` shows on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    with begun(*map(str, arguments), stdin=None, stdout=theirs, stderr=theirs):
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
    return shown.decode()


def read(descriptor: int) -> bytes:
    """Return some of what is there, nothing at the end."""
    try:
        return os.read(descriptor, 10_000)
    except OSError:  # how Linux says that a terminal has nobody at its other end
        return b""


def test_on_a_terminal_columns_are_aligned(garden: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "much-longer", "b\x1b[2J")):
        image = Image.open(sorted((garden / "ask/sun").iterdir())[number])
        image.save(tmp_path / f"{name}.png")
    shown = on_a_terminal(garden / "m.ovor", tmp_path, garden / "bad.png")
    assert "\x1b[2J" not in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    starts = {min(line.find(word) for word in WORDS if word in line) for line in lines[:-1]}
    assert len(lines) == 5
    assert len(starts) == 1
    assert lines[-1] == "ovor: 1 of 4 images could not be read: their rows say why."


WORDS = (" sun ", " owl ", " unknown ", " The image ")


def test_what_is_unknown_has_no_percentage_beside_it() -> None:
    names, shares = np.array(["sun", "owl"], object), np.array([0.92, 0.08])
    surely, hardly = (row("a.png", Prediction(names, shares, margin), 2) for margin in (1, -1))
    assert plain(aligned(surely, 6, "image")) == "a.png   sun 92.0 %  owl 8.0 %"
    assert plain(aligned(hardly, 6, "image")) == "a.png   unknown \u2013 most like sun, owl"
    assert tabbed(hardly, "image") == "a.png\tunknown\tsun\t0.9200\towl\t0.0800"


def plain(markup: str) -> str:
    return Text.from_markup(markup).plain


def test_nobody_waits_for_a_pipe(garden: Path, tmp_path: Path) -> None:
    """As an image it is a row, as a model a sentence."""
    pipe, image = tmp_path / "a.png", next((garden / "ask/owl").iterdir())
    os.mkfifo(pipe)
    done = ovor("predict", garden / "m.ovor", pipe, image, "--json")
    assert done.returncode == 1
    first, second = json.loads(done.stdout)
    assert "is a named pipe, not a file" in first["error"]
    assert list(second) == KEYS
    assert "is a named pipe, not a file" in ovor("predict", pipe, image).stderr
