"""A new user's walk through the README: every command is run, and prints what is shown."""

import re
import shlex
from pathlib import Path

from command import ovor
from docs.walk import steps

ROOT = Path(__file__).parents[2]


def shape(text: str) -> list[str]:
    """Without figures, which other processors may round otherwise, and without drawn lines."""
    text = re.sub(r"[0-9.,]*[0-9](e-[0-9]+)?", "#", text)
    text = re.sub(r"[━─]+", "-", text)
    return [re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().splitlines()]


def labels(text: str) -> list[tuple[str, ...]]:
    """What `predict` says of each image."""
    return [tuple(line.split("\t")[:2]) for line in text.splitlines() if "\t" in line]


def test_the_readme_walk(tmp_path: Path) -> None:
    walk = steps((ROOT / "README.md").read_text(encoding="utf-8"))
    commands = [shlex.split(command)[1] for command, _ in walk]
    wanted = ["learn", "learn", "predict", "evaluate", "export", "predict"]
    assert [name for name in commands if name != "drawings"] == wanted
    right = total = 0
    for command, shown in walk:
        done = ovor(*shlex.split(command)[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
        if " predict " in command:  # an image near a border may fall on its other side
            ours, theirs = labels(printed), labels(shown)
            assert [image for image, _ in ours] == [image for image, _ in theirs]
            right += sum(a == b for a, b in zip(ours, theirs, strict=True))
            total += len(theirs)
        else:
            assert shape(printed) == shape(shown), command
    assert total == 10
    assert right >= 8
