"""What goes out: whatever files are called, no terminal is steered, and no line is broken."""

import json
import os
import pty
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import in_new_process, ovor
from ovor import Classifier
from ovor.errors import UNPRINTABLE

CLEAR = "\x1b[2J\x1b[31m"
NAMES = [f"a{CLEAR}.png", "b\nc.png", "d\u202egnp.png", "e\x9b2J.png", "f\rg.png", "h\x7f.png"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> Path:
    """A model of a class Straße, and folders of images with names that nobody should print."""
    root = tmp_path_factory.mktemp("world")
    shutil.copy(tiny_backbone, root / "tiny.safetensors")
    shutil.copy(Path(tiny_backbone).with_suffix(".json"), root / "tiny.json")
    for number, name in enumerate(("Straße", "bee")):
        (root / "old" / name).mkdir(parents=True)
        for i, file in enumerate(NAMES):
            pixels = np.random.default_rng((number, i)).integers(0, 256, (14, 14, 3), np.uint8)
            Image.fromarray(pixels).save(root / "old" / name / file)
    (root / "old" / "bee" / f"note{CLEAR}\n.txt").write_text("no image")
    (root / "broken").mkdir()
    (root / "broken" / f"x{CLEAR}\n.png").write_bytes(b"no image")
    shutil.copytree(root / "old", root / "bad")
    shutil.copy(root / "broken" / f"x{CLEAR}\n.png", root / "bad" / "bee")
    with chdir(root):
        Classifier("tiny.safetensors", device="cpu").learn("old").save("m.ovor")
    return root


COMMANDS = [
    "predict m.ovor old",
    "predict m.ovor old --top 2",
    "predict m.ovor broken",
    "predict m.ovor bad --on-error skip",
    "evaluate m.ovor old",
    "evaluate m.ovor old --unknown old/bee",
    "learn new.ovor old --backbone tiny.safetensors",
    "learn new.ovor bad --backbone tiny.safetensors",
    "learn new.ovor bad --backbone tiny.safetensors --on-error skip",
    "learn m.ovor old --dry-run",
    "unlearn new.ovor old",
    "inspect m.ovor",
    f"predict m.ovor no{CLEAR}such.png",
    f"inspect no{CLEAR}such.ovor",
    f"fetch ./no{CLEAR}such x.ovor",
    f"no{CLEAR}command",
]


@pytest.mark.parametrize("command", COMMANDS, ids=ascii)
def test_a_pipe_gets_no_raw_escape(world: Path, tmp_path: Path, command: str) -> None:
    shutil.copytree(world, tmp_path / "world")
    if command.startswith("unlearn"):
        ovor("learn", "new.ovor", "old", "--backbone", "tiny.safetensors", cwd=tmp_path / "world")
    done = ovor(*command.split(), cwd=tmp_path / "world")
    said = done.stdout + done.stderr
    assert "mistake in ovor" not in said
    assert not UNPRINTABLE.search(said.replace("\n", "").replace("\t", ""))
    assert not any(line.startswith(("c.png", ".txt", ".png")) for line in said.splitlines())


def test_json_says_the_names_as_they_are(world: Path) -> None:
    done = ovor("predict", "m.ovor", "old/bee", "--json", cwd=world)
    assert done.stdout.isascii()
    assert sorted(Path(row["image"]).name for row in json.loads(done.stdout)) == sorted(NAMES)


@pytest.mark.parametrize(
    "command", ["predict m.ovor old/bee", "learn new.ovor bad --backbone tiny.safetensors"]
)
def test_a_terminal_is_not_steered(world: Path, command: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ovor", *command.split()],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=world,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # how the end of a pseudo-terminal reads
        pass
    assert process.wait(60) in (0, 1)
    assert b"\x1b[" in said  # rich's own, such as bold
    assert b"\x1b[2J" not in said
    assert b"\x1b[31m." not in said
    assert "\u202e".encode() not in said
    assert b"\xc2\x9b" not in said


@pytest.mark.parametrize("environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}])
@pytest.mark.parametrize(
    "command", ["inspect m.ovor", "predict m.ovor old/bee", "evaluate m.ovor old"]
)
def test_a_class_beyond_ascii_is_no_mistake(
    world: Path, command: str, environment: dict[str, str]
) -> None:
    done = in_new_process(*command.split(), cwd=world, **environment)
    assert done.returncode == 0, done.stderr
    if environment.get("PYTHONIOENCODING") and not command.startswith("predict"):
        assert r"Stra\xdfe" in done.stdout


def test_help_keeps_its_colours_on_a_terminal(world: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ovor", "predict", "--help"],
        stdout=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    assert process.wait(60) == 0
    said = os.read(ours, 65536)
    assert b"\\u001b" not in said
    assert b"\x1b[" in said
