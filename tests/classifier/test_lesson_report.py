"""Every lesson says how well it went: a verdict, what to expect, what became of older classes."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from command import ovor
from drawings import draw
from ovor import Classifier
from ovor.classifier.lesson_report import NOTHING_OLDER, with_verdict
from ovor.classifier.verdict import interval


def report(expected: float | None, images: int, **more: Any) -> dict[str, Any]:
    """Return what a lesson found whose classes are all alike."""
    known = {"class": "a", "images": images, "expected": expected, "confused_with": []}
    right = 0 if expected is None else expected * images / 100
    found = {"by": "leave-one-out", "judged": images, "expected": expected}
    return {**found, "interval": interval(right, images), "classes": [known], **more}


def judged(expected: float | None, images: int, classes: int, lost: float = 0) -> str:
    older = {**NOTHING_OLDER, "lost": lost}
    return str(with_verdict(report(expected, images), older, classes, exact=True)["verdict"])


@pytest.mark.parametrize(
    ("expected", "images", "classes", "verdict"),
    [
        (60, 200, 2, "poor"),  # a coin is right half of the time
        (80, 200, 2, "fair"),
        (95, 200, 2, "good"),
        (60, 2000, 100, "fair"),
        (5, 20, 10, "poor"),
        (0, 6, 2, "poor"),
        (90, 200, 10, "good"),
        (100, 2, 2, "fair"),  # two images may be right by chance
        (100, 200, 1, "fair"),  # there is nothing to tell apart
        (None, 0, 5, "fair"),
    ],
)
def test_the_verdict_counts_guessing_and_how_many_images_there_are(
    expected: float | None, images: int, classes: int, verdict: str
) -> None:
    assert judged(expected, images, classes) == verdict


def test_a_lesson_that_costs_older_classes_much_is_not_good() -> None:
    assert judged(95, 200, 10, lost=2) == "good"
    assert judged(95, 200, 10, lost=12) == "fair"


def test_an_interval_of_few_images_is_wide() -> None:
    assert interval(4, 4) == [51.0, 100.0]
    low, high = interval(400, 400) or (0, 0)
    assert 98.5 < low < high == 100
    assert interval(0, 0) is None


def mislabelled(folder: Path, classes: int = 3, each: int = 15) -> Path:
    """Write images of one kind under several names."""
    for label in range(classes):
        (folder / f"kind {label}").mkdir(parents=True)
        for i in range(each):
            pixels = np.random.default_rng((label, i)).integers(0, 256, (28, 28, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"kind {label}" / f"{i}.png")
    return folder


def test_a_lesson_that_nobody_could_learn_is_poor(tmp_path: Path) -> None:
    folder = mislabelled(tmp_path / "noise")
    done = ovor("learn", "m.ovor", folder, "--backbone", "embedded", cwd=tmp_path)
    assert done.returncode == 0
    assert "\nPoor: of new images like these expect" in done.stdout
    assert "guessing: 33.3 %" in done.stdout
    assert "What would help: More images, or a backbone that suits them." in done.stdout
    assert "Expect of each: kind " in done.stdout


def test_a_learning_rate_beyond_reason_is_poor(tmp_path: Path, lessons: list[Path]) -> None:
    new = ["learn", "m.ovor", lessons[0], "--backbone", "embedded", "--method", "oneprompt"]
    done = ovor(*new, "--epochs", "1", "--lr", "1e8", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["report"]
    right = ovor("evaluate", "m.ovor", lessons[0], "--json", cwd=tmp_path)
    assert json.loads(right.stdout)["accuracy"] < 60  # it is poor
    assert found["verdict"] == "poor"
    assert "smaller learning rate" in found["advice"][0]


def test_without_held_out_images_what_was_taught_tells_of_a_failure(
    tmp_path: Path, lessons: list[Path]
) -> None:
    given = {"epochs": 1, "hold_out": 0.0, "device": "cpu"}
    bad = Classifier("embedded", "oneprompt", lr=1e8, **given).learn(lessons[0]).report_ or {}
    fine = Classifier("embedded", "linear", **given).learn(lessons[0]).report_ or {}
    assert bad["expected"] is fine["expected"] is None
    assert bad["of_taught"] < 60
    assert bad["verdict"] == "poor"
    assert fine["verdict"] == "fair"


def test_methods_that_train_say_that_older_classes_were_not_tested(
    tmp_path: Path, lessons: list[Path]
) -> None:
    new = ["--backbone", "embedded", "--method", "linear", "--epochs", "1"]
    first = ovor("learn", "m.ovor", lessons[0], *new, cwd=tmp_path)
    assert "not tested" not in first.stdout
    second = ovor("learn", "m.ovor", lessons[1], cwd=tmp_path)
    assert "Older classes were not tested" in second.stdout
    assert "ovor evaluate" in second.stdout


def test_older_classes_are_estimated_from_the_sums(lessons: list[Path]) -> None:
    model = Classifier("embedded", device="cpu").learn(lessons[0])
    assert (model.report_ or {})["older"] == NOTHING_OLDER
    older = (model.learn(lessons[1]).report_ or {})["older"]
    assert older["how"] == "estimated"
    assert [found["class"] for found in older["classes"]] == ["banana", "candle", "fish"]
    for found in older["classes"]:
        assert 0 <= found["lost"] <= 100
        assert found["to"] in ("owl", "sun", None)
    more = (model.learn(lessons[0]).report_ or {})["older"]
    assert more == NOTHING_OLDER  # nothing new came that could take anything


def test_a_class_that_comes_again_by_another_name_takes_from_the_first(
    lessons: list[Path], tmp_path: Path
) -> None:
    model = Classifier("embedded", device="cpu").learn(lessons[0])
    others = draw(tmp_path, ["fish"], 12, first=20)
    report = model.learn(others, rename={"fish": "herring"}).report_ or {}
    lost = {found["class"]: found for found in report["older"]["classes"]}
    assert lost["fish"]["lost"] > 10 > 5 > lost["banana"]["lost"]
    assert lost["fish"]["to"] == "herring"
    assert any(line.startswith("fish: has lost about") for line in report["advice"])


@pytest.mark.parametrize(("good", "colour"), [(True, b"\x1b[32m"), (False, b"\x1b[31m")])
def test_a_terminal_shows_the_verdict_in_colour_and_in_words(
    tmp_path: Path, lessons: list[Path], good: bool, colour: bytes
) -> None:
    folder = lessons[0] if good else mislabelled(tmp_path / "noise")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ovor", "learn", "m.ovor", folder, "--backbone", "embedded"],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # how the end of a pseudo-terminal reads
        pass
    assert process.wait(60) == 0
    assert colour + (b"Good: " if good else b"Poor: ") in said
