"""Names of classes on every way in: what looks like a known one is asked about."""

import csv
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import contents, ovor
from ovor import Classifier
from ovor.data.class_names import AlikeNamesError
from ovor.errors import OvorError
from ovor.tensor_file import load_tensors, save_tensors

CYRILLIC_E = "\u0435"
LOOKS_LIKE_BEE = f"b{CYRILLIC_E}e"


def draw(root: Path, *classes: str) -> Path:
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(3):
            pixels = np.random.default_rng((number, i)).integers(0, 256, (14, 14, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> Path:
    root = tmp_path_factory.mktemp("whole")
    shutil.copy(tiny_backbone, root / "tiny.safetensors")
    shutil.copy(Path(tiny_backbone).with_suffix(".json"), root / "tiny.json")
    draw(root / "old", "ant", "bee")
    draw(root / "new", "cat", "Bee")
    draw(root / "two", "cat", "Cat")
    draw(root / "more", "bee")
    with (root / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "label"], ["new/Bee/0.png", "BEE"]])
    with chdir(root):
        Classifier("tiny.safetensors", device="cpu").learn("old").save("m.ovor")
        Classifier("tiny.safetensors", device="cpu").learn("new").save("other.ovor")
    return root


WAYS_IN = [
    "learn m.ovor new",
    "learn m.ovor two",
    "learn m.ovor table.csv",
    "learn m.ovor more --label Bee",
    "learn m.ovor more --rename bee=BEE",
    f"learn m.ovor more --label {LOOKS_LIKE_BEE}",
    "learn m.ovor new --dry-run",
    "rename m.ovor ant Bee",
    "merge m.ovor m.ovor other.ovor",
    "merge out.ovor m.ovor other.ovor",
    "correct m.ovor new/cat/0.png --to Bee",
    "correct m.ovor old/ant/0.png --from ant --to Bee",
]


@pytest.mark.parametrize("command", WAYS_IN)
def test_a_name_like_a_known_one_is_asked_about_on_every_way_in(world: Path, command: str) -> None:
    before = contents(world)
    refused = ovor(*command.split())
    assert refused.returncode == 1
    assert "two classes? They differ only by case or look." in refused.stderr
    assert "(--yes)" in refused.stderr
    assert contents(world) == before

    done = ovor(*command.split(), "--yes")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "way",
    [
        lambda m, yes: m.learn("new", yes=yes),
        lambda m, yes: m.partial_fit(["new/cat/0.png"], ["Bee"], yes=yes),
        lambda m, yes: m.fit(["new/cat/0.png", "new/Bee/0.png"], ["a", "A"], yes=yes),
        lambda m, yes: m.rename("ant", "Bee", yes=yes),
        lambda m, yes: m.correct(["new/cat/0.png"], "Bee", yes=yes),
        lambda m, yes: m.merge(Classifier.load("other.ovor"), yes=yes),
    ],
    ids=["learn", "partial_fit", "fit", "rename", "correct", "merge"],
)
def test_python_asks_by_an_error_and_takes_yes(
    world: Path, way: Callable[[Classifier, bool], object]
) -> None:
    model = Classifier.load("m.ovor")
    with pytest.raises(AlikeNamesError, match=r"yes=True"):
        way(model, False)
    assert model.classes_.tolist() == ["ant", "bee"]
    way(model, True)
    assert len({name.casefold() for name in model.classes_}) < len(model.classes_)


def test_a_class_may_change_the_case_of_its_own_name(world: Path) -> None:
    assert ovor("rename", "m.ovor", "bee", "Bee").returncode == 0
    assert Classifier.load("m.ovor").classes_.tolist() == ["ant", "Bee"]


def test_more_of_two_classes_that_were_confirmed_is_no_question(world: Path) -> None:
    assert ovor("learn", "m.ovor", "new", "--yes").returncode == 0
    assert ovor("learn", "m.ovor", "new").returncode == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("n\n", 1)])
def test_on_a_terminal_it_is_a_question(world: Path, answer: str, code: int) -> None:
    before = (world / "m.ovor").read_bytes()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ovor", "learn", "m.ovor", "new"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(ours, 4096)
    assert b"two classes?" in said
    os.write(ours, answer.encode())
    assert process.wait(60) == code
    assert ((world / "m.ovor").read_bytes() == before) == bool(code)
    os.close(ours)


@pytest.mark.parametrize(
    "name", ["\x1b[2J", "a\u202eb", "a\u200bb", "x" * 201, "unknown"], ids=ascii
)
@pytest.mark.parametrize(
    "command",
    [
        "learn m.ovor more --label NAME",
        "learn m.ovor more --rename bee=NAME",
        "rename m.ovor ant NAME",
        "correct m.ovor new/cat/0.png --to NAME",
    ],
)
def test_names_that_cannot_be_read_are_refused(world: Path, command: str, name: str) -> None:
    before = contents(world)
    done = ovor(
        *(name if word == "NAME" else word.replace("NAME", name) for word in command.split())
    )
    assert done.returncode == 1
    assert "A class cannot be called" in done.stderr
    assert not any(sign in done.stderr for sign in ("\x1b", "\u202e", "\u200b"))
    assert contents(world) == before


@pytest.mark.parametrize("name", ["\x1b[2J", "a\u202eb", "a\u200bb", "x" * 201, ""], ids=ascii)
@pytest.mark.parametrize("where", ["class", "expected", "confused_with"])
def test_a_model_file_with_such_a_name_is_refused(world: Path, name: str, where: str) -> None:
    tensors, meta = load_tensors(Path("m.ovor"))
    about = meta["about"]
    if where == "class":
        about["tasks"][0]["classes"][0] = name
    elif where == "expected":
        about["expected"][name] = about["expected"].pop("ant")
    else:
        about["expected"]["ant"]["confused_with"] = [name]
    save_tensors(Path("bad.ovor"), tensors, meta)
    with pytest.raises(OvorError, match="a class in it is called") as caught:
        Classifier.load("bad.ovor")
    assert str(caught.value).isprintable()
    for command in ("predict bad.ovor new/cat/0.png", "inspect bad.ovor", "learn bad.ovor new"):
        done = ovor(*command.split())
        assert done.returncode == 1
        assert "a class in it is called" in done.stderr
        assert "\x1b" not in done.stderr
    Path("shared").mkdir()
    shutil.move("bad.ovor", "shared/model.ovor")
    done = ovor("fetch", "./shared", "mine.ovor")
    assert done.returncode == 1
    assert not Path("mine.ovor").exists()


def test_names_are_trimmed_on_every_way_in(world: Path) -> None:
    assert ovor("learn", "m.ovor", "more", "--label", " bee ").returncode == 0
    assert ovor("rename", "m.ovor", " bee", "wasp ").returncode == 0
    found = json.loads(ovor("inspect", "m.ovor", "--json").stdout)
    assert found["tasks"][0]["classes"] == {"ant": 3, "wasp": 6}
