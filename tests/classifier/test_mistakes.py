"""What is mistaken for what, chance, and whether confidence can be believed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from command import ovor
from ovor.classifier.mistakes import calibration, confusions
from ovor.cli.evaluate import sure


def test_mistakes_come_with_their_images_the_most_frequent_first() -> None:
    truth = np.array([0, 0, 0, 0, 1, 1, 2])
    answers = np.array([0, 1, 1, 2, 1, 0, 2])
    confidences = np.array([0.9, 0.5, 0.8, 0.4, 0.9, 0.6, 0.9])
    found = confusions(truth, answers, confidences, ["ant", "bee", "cat"], list("abcdefg"))
    assert found[0] == {
        "class": "ant",
        "taken_for": "bee",
        "images": 2,
        "share": 50.0,
        "examples": ["c", "b"],  # the surest first
    }
    assert [(one["class"], one["taken_for"]) for one in found[1:]] == [
        ("ant", "cat"),
        ("bee", "ant"),
    ]


def answered(confidence: NDArray[np.float64], honest: float) -> dict[str, object]:
    """Return the calibration of answers that are right `honest` times as often as they are sure."""
    draw = np.random.default_rng(0).random(len(confidence))
    right = draw < confidence * honest
    found = calibration(right, confidence)
    return {"calibration": found, "accuracy": 100 * float(right.mean()), "images": len(right)}


@pytest.mark.parametrize("images", [60, 5000])
def test_answers_that_are_as_often_right_as_sure_are_believed(images: int) -> None:
    found = answered(np.linspace(0.3, 1, images), 1.0)
    assert "can be taken as it is" in sure(found)


def test_of_one_class_confidence_says_nothing() -> None:
    found = {**answered(np.ones(60), 1.0), "chance": 100.0}
    assert "taken as it is" not in sure(found)
    assert "one class only" in sure(found)


def test_answers_that_are_too_sure_are_not() -> None:
    found = answered(np.linspace(0.6, 1, 2000), 0.6)
    assert "too sure of itself" in sure(found)
    error = found["calibration"]["error"]  # type: ignore[index]
    assert 25 < error < 40


def test_evaluate_tells_them_in_words_and_in_json(
    model_file: Path, labelled: Path, tmp_path: Path
) -> None:
    shutil.copytree(labelled, tmp_path / "images")
    fish = sorted((tmp_path / "images/fish").iterdir())[0]
    shutil.copy(fish, tmp_path / "images/sun/wrong.png")
    shutil.copy(model_file, tmp_path / "m.ovor")
    found = json.loads(ovor("evaluate", "m.ovor", "images", "--json", cwd=tmp_path).stdout)
    assert found["chance"] == pytest.approx(100 / 6, abs=0.05)
    mistake = next(one for one in found["confusions"] if one["class"] == "sun")
    assert mistake["taken_for"] == "fish"
    assert mistake["examples"] == ["images/sun/wrong.png"]
    assert sum(one["images"] for one in found["calibration"]["bins"]) == found["images"]
    wrong = sum(one["images"] for one in found["confusions"])
    assert found["accuracy"] == pytest.approx(100 * (1 - wrong / found["images"]), abs=0.01)
    assert [one["lesson"] for one in found["lessons"]] == [1, 2, 3]
    assert [one["task"] for one in found["tasks"]] == [1, 2, 3]
    said = ovor("evaluate", "m.ovor", "images", cwd=tmp_path).stdout
    assert "Mistaken: sun, 1 of" in said
    assert "for fish 1; such as images/sun/wrong.png." in said
    assert "(guessing: 16.7 %)" in said
    assert "calibration error" in said
    assert "lesson 1" in said
    assert "task" not in said
