"""Confidence that is as often right as it says, and a threshold that keeps its promise."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ovor.classifier.calibration import BOUNDS, KEPT_DISTANCES, Calibration, calibrated, likeliest


def judged(images: int, classes: int, sharpness: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return logits, and labels drawn by the softmax of the logits over `sharpness`."""
    draw = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(images, classes, generator=draw).double()
    labels = torch.multinomial((logits / sharpness).softmax(1), 1, generator=draw)[:, 0]
    return logits, labels


def lesson(logits: Tensor, labels: Tensor, distances: Tensor) -> Calibration:
    weights = torch.ones(len(labels)).double()
    return Calibration.empty().with_lesson(distances, logits, labels, weights, 0.0)


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 2.5])
def test_confidence_is_as_often_right_as_it_says(sharpness: float) -> None:
    logits, labels = judged(6000, 8, sharpness)
    found = lesson(logits[:3000], labels[:3000], torch.zeros(3000).double())
    shares = calibrated(logits[3000:], *found.confidence()).exp()
    confidence, answers = shares.max(1)
    right = (answers == labels[3000:]).double()
    for low in (0.2, 0.4, 0.6, 0.8):
        here = (confidence >= low) & (confidence < low + 0.2)
        if here.sum() < 100:
            continue
        sure = confidence[here].mean()
        # Four standard errors, and two points for the shape of the curve.
        error = 4 * math.sqrt(float(sure * (1 - sure)) / int(here.sum())) + 0.02
        assert abs(right[here].mean() - sure) < error


@given(st.floats(-5, 5), st.floats(0.05, 5), st.integers(2, 9), st.integers(0, 10**6))
def test_probabilities_keep_the_order_and_add_up(
    offset: float, slope: float, classes: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(20, classes, generator=draw).double()
    shares = calibrated(logits, offset, slope).exp()
    torch.testing.assert_close(shares.sum(1), torch.ones(20).double())
    assert (shares.argmax(1) == logits.argmax(1)).all()
    others = logits.argsort(1, descending=True)[:, 1:]
    assert (shares.gather(1, others).diff(dim=1) <= 1e-12).all()


def test_one_class_is_certain() -> None:
    assert calibrated(torch.randn(4, 1), 0.3, 1.0).exp().tolist() == [[1.0]] * 4


@pytest.mark.parametrize("false_alarms", [0.01, 0.05, 0.2, 0.5])
def test_the_threshold_keeps_its_promise(false_alarms: float) -> None:
    draw = torch.Generator().manual_seed(1)
    distances = 3 + 2 * torch.randn(8000, generator=draw).double()
    logits, labels = judged(4000, 3, 1.0)
    found = lesson(logits, labels, distances[:4000])
    beyond = float((distances[4000:] > found.threshold(false_alarms)).double().mean())
    # Two samples of 4000 have this standard error together.
    error = math.sqrt(2 * false_alarms * (1 - false_alarms) / 4000)
    assert abs(beyond - false_alarms) < 4 * error + 0.002


def test_without_evidence_nothing_is_too_far() -> None:
    assert Calibration.empty().threshold(0.05) == BOUNDS[-1]
    assert Calibration.empty().confidence() == pytest.approx((0.0, 1.0))


def test_few_images_do_not_promise_much() -> None:
    logits, labels = judged(5, 3, 1.0)
    found = lesson(logits, labels, torch.arange(5).double())
    assert found.threshold(0.05) > 3.9  # the fifth of five, or beyond


def test_what_was_judged_by_a_smaller_model_counts_less() -> None:
    logits, labels = judged(1000, 3, 1.0)
    weights = torch.ones(1000).double()
    old = lesson(logits, labels, torch.full((1000,), 9.0).double())
    near = torch.zeros(1000).double()
    half = old.with_lesson(near, logits, labels, weights, 0.5)
    assert half.threshold(0.05) < 1
    assert half.distances.sum() == pytest.approx(1000 + KEPT_DISTANCES / 4)
    same = old.with_lesson(near[:1], logits[:1], labels[:1], weights[:1], 1.0)
    assert same.threshold(0.05) > 8


def test_merging_adds_the_histograms() -> None:
    logits, labels = judged(400, 3, 1.0)
    distances = torch.linspace(-2, 2, 400).double()
    one = lesson(logits[:100], labels[:100], distances[:100])
    other = lesson(logits[100:], labels[100:], distances[100:])
    whole = lesson(logits, labels, distances)
    for mine, theirs in zip(vars(one.plus(other)).values(), vars(whole).values(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_odds_are_those_of_the_likeliest_class() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 0.0]]).double()
    log_shares, odds = likeliest(logits)
    share = log_shares.exp().amax(1)
    torch.testing.assert_close(odds, (share / (1 - share)).log())
