"""What is learned more than once is not judged by its own copy."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from ovor import Classifier
from ovor.classifier.repeats import first_known
from ovor.learners.moments import FEATURE_STEPS

RANDOM = np.random.default_rng(0)
NOISE = list(
    RANDOM.integers(0, 256, (24, 28, 28, 3), dtype=np.uint8)
)  # nobody can tell these apart
LABELS = ["a", "b"] * 12


def lesson(model: Classifier, images: Sequence[object], labels: Sequence[str]) -> tuple[int, int]:
    """Learn, and return how many were judged and how many were there before or twice."""
    report = model.learn(list(images), list(labels)).report_
    assert report is not None
    return report["judged"], report.get("repeated", 0)


def test_a_lesson_learned_again_says_nothing_new() -> None:
    model = Classifier("embedded", device="cpu")
    assert lesson(model, NOISE, LABELS) == (24, 0)
    expected = model.expected_
    for _ in range(2):
        assert lesson(model, NOISE, LABELS) == (0, 24)
        assert model.report_["expected"] is None  # type: ignore[index]
        assert model.expected_ == expected


def test_a_table_that_has_grown_is_judged_by_what_is_new() -> None:
    model = Classifier("embedded", device="cpu")
    lesson(model, NOISE[:14], LABELS[:14])
    assert lesson(model, NOISE, LABELS) == (10, 14)


def test_an_image_that_is_there_twice_is_not_judged() -> None:
    model = Classifier("embedded", device="cpu")
    assert lesson(model, [*NOISE, *NOISE[:4]], [*LABELS, *LABELS[:4]]) == (20, 8)


def test_other_images_of_known_classes_are_all_judged() -> None:
    model = Classifier("embedded", device="cpu")
    lesson(model, NOISE[:12], LABELS[:12])
    assert lesson(model, NOISE[12:], LABELS[12:]) == (12, 0)


@pytest.mark.parametrize(
    ("before", "found"),
    [([0, 1, 2, 3], 4), ([0, 1], 2), ([1, 0], 2), ([0, 1, 2, 3] * 3, 4), ([1, 2], 0), ([], 0)],
)
def test_items_are_known_again_by_their_sum(before: list[int], found: int) -> None:
    steps = torch.from_numpy(np.random.default_rng(1).integers(-99, 99, (4, 7), dtype=np.int16))
    total = steps[before].double().sum(0) / FEATURE_STEPS
    assert first_known(steps, total, float(len(before))) == found
