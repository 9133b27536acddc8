"""Thresholds of energies, and how well they tell known from unknown."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from ovor.classifier.evaluate import auroc, fpr_at_tpr
from ovor.classifier.rejection import margins, recalibrated, threshold
from ovor.losses import task_energies

SCORES = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=30)


def test_energies_are_of_each_tasks_own_logits() -> None:
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    found = task_energies(logits, [3, 0, 2])
    torch.testing.assert_close(found[:, 0], -logits[:, :3].exp().sum(1).log())
    assert torch.isinf(found[:, 1]).all()  # a task without classes claims nothing
    torch.testing.assert_close(found[:, 2], -logits[:, 3:].exp().sum(1).log())


@pytest.mark.parametrize(("count", "rank"), [(19, 19), (20, 20), (39, 38), (99, 95), (5, 5)])
def test_the_threshold_is_the_conformal_rank(count: int, rank: int) -> None:
    own = torch.arange(1.0, count + 1)[torch.randperm(count)]
    assert threshold(own, 0.05) == rank


def test_the_promise_is_kept_on_average() -> None:
    """Of images like those held out, 5 % are above the threshold; the mean over 2,000 draws."""
    draw = torch.Generator().manual_seed(0)
    held = torch.randn(2000, 39, generator=draw)
    new = torch.randn(2000, generator=draw)
    above = [float(x > threshold(row, 0.05)) for row, x in zip(held, new, strict=True)]
    assert np.mean(above) == pytest.approx(0.05, abs=0.015)  # three standard errors


def test_after_a_new_task_as_many_of_its_images_are_unclaimed_as_promised() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(199, 6, generator=draw)
    limits = recalibrated([-1.0, -2.0], logits, [2, 1, 3], 0.1)
    assert (margins(logits, [2, 1, 3], limits) < 0).sum() == 19  # 0.1 of 200, less one
    assert limits[0] - limits[1] == pytest.approx(1.0)  # old tasks keep their distance
    assert limits[0] < -1.0  # and claim less


@given(SCORES, SCORES)
def test_auroc_is_scikit_learns(known: list[float], unknown: list[float]) -> None:
    truth = [1] * len(known) + [0] * len(unknown)
    expected = roc_auc_score(truth, known + unknown)
    assert auroc(np.array(known), np.array(unknown)) == pytest.approx(expected)


@given(SCORES, SCORES)
def test_false_positives_are_those_of_the_curve(known: list[float], unknown: list[float]) -> None:
    truth = [1] * len(known) + [0] * len(unknown)
    fpr, tpr, _ = roc_curve(truth, known + unknown, drop_intermediate=False)
    expected = fpr[np.argmax(tpr >= 0.95 - 1e-12)]
    assert fpr_at_tpr(np.array(known), np.array(unknown)) == pytest.approx(expected)
