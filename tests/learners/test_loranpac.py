"""LoRanPAC against singular values computed directly."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from learners.lessons import build, drawn, teach
from ovor.learners.closed_form import ClosedForm
from ovor.learners.loranpac import LoRanPac, leading

LESSONS, ASKED = drawn(4, 6), drawn(4, 3, seed=4)
TASKS = [[0, 1], [2], [3]]
Array = NDArray[np.float64]


def projected(learner: ClosedForm, classes: list[int]) -> Array:
    assert isinstance(learner, LoRanPac)
    x = LESSONS.of(classes)[0].numpy()
    return np.maximum(x @ learner.projection.double().numpy(), 0)


def targets(classes: list[int]) -> Array:
    return np.eye(4)[np.repeat(classes, 6)]


def outputs(learner: ClosedForm, weights: Array) -> Array:
    assert isinstance(learner, LoRanPac)
    asked = ASKED.features.numpy() @ learner.projection.double().numpy()
    return np.asarray(np.maximum(asked, 0) @ weights)


@pytest.mark.parametrize("width", [20, 100])  # narrower and wider than there are images
def test_without_truncation_it_is_least_squares_of_the_least_length(
    width: int, tiny_backbone: str
) -> None:
    learner = build("loranpac", tiny_backbone, projection=width, truncation=0.0)
    teach(learner, LESSONS, TASKS)
    h, y = projected(learner, [0, 1, 2, 3]), targets([0, 1, 2, 3])
    expected = outputs(learner, np.linalg.lstsq(h, y, rcond=None)[0])
    np.testing.assert_allclose(learner.logits(ASKED.features), expected, rtol=1e-6, atol=1e-6)


def test_every_task_cuts_off_the_smallest_singular_values(tiny_backbone: str) -> None:
    learner = build("loranpac", tiny_backbone, projection=100, truncation=0.5)
    teach(learner, LESSONS, TASKS)
    columns = np.zeros((100, 0))
    for number, classes in enumerate(TASKS):
        columns = np.concatenate([columns, projected(learner, classes).T], axis=1)
        left, values, _ = np.linalg.svd(columns, full_matrices=False)
        seen = 6 * sum(map(len, TASKS[: number + 1]))
        left, values = left[:, : seen // 2], values[: seen // 2]
        columns = left * values
    cross = projected(learner, [0, 1, 2, 3]).T @ targets([0, 1, 2, 3])
    expected = outputs(learner, left @ (left.T @ cross / values[:, None] ** 2))
    np.testing.assert_allclose(learner.logits(ASKED.features), expected, rtol=1e-7, atol=1e-7)
    assert isinstance(learner, LoRanPac)
    assert int(learner.values.count_nonzero()) == 12


def test_of_a_narrow_projection_as_much_is_cut_off(tiny_backbone: str) -> None:
    """More images than it is wide: there are as many singular values as it is."""
    learner = build("loranpac", tiny_backbone, projection=12, truncation=0.25)
    teach(learner, LESSONS, TASKS)
    assert isinstance(learner, LoRanPac)
    assert int(learner.values.count_nonzero()) == 9


def test_the_rank_has_a_limit(tiny_backbone: str) -> None:
    learner = build("loranpac", tiny_backbone, projection=100, truncation=0.0, rank=5)
    teach(learner, LESSONS, TASKS)
    assert isinstance(learner, LoRanPac)
    assert learner.basis.shape == (100, 5)
    gram = learner.basis.T @ learner.basis
    torch.testing.assert_close(gram, torch.eye(5, dtype=torch.double))


def test_what_rounding_leaves_of_a_singular_value_is_none() -> None:
    """Six columns that span three directions have three singular values."""
    draw = torch.Generator().manual_seed(0)
    columns = torch.randn(9, 3, generator=draw) @ torch.randn(3, 6, generator=draw)
    vectors, values = leading(columns.double(), 6)
    assert vectors.shape == (9, 3)
    expected = torch.linalg.svdvals(columns.double())[:3]
    torch.testing.assert_close(values, expected)
