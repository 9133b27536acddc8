"""What judges the answers of exact sums, written down and read again."""

from dataclasses import replace

import pytest
import torch

from ovor.classifier.calibration import Calibration
from ovor.classifier.exact import Exact
from ovor.learners.discriminant import (
    Discriminant,
    Novelty,
    Scatter,
    Spectrum,
    halved,
    whole,
)
from ovor.learners.moments import Moments, rounded

WIDTH = 20


@pytest.fixture
def novelty() -> Novelty:
    draw = torch.Generator().manual_seed(2)
    moments = Moments.empty(WIDTH).grown(3)
    features = rounded(torch.randn(60, WIDTH, generator=draw))
    moments.add(features, torch.arange(60) % 3)
    scatter = Scatter.of(moments)
    return Novelty.of(Discriminant.of(scatter, Spectrum.of(scatter), 2.0))


def test_distances_are_the_same_from_a_state(novelty: Novelty) -> None:
    state = Exact(novelty, Calibration.empty()).state()
    again = Exact.of_state(state, WIDTH, 3).novelty
    features = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(3)).double()
    assert torch.equal(again.distances(features), novelty.distances(features))


def test_a_state_from_before_the_weights_of_axes_were_kept_apart(novelty: Novelty) -> None:
    """The axes were scaled by them, and nothing was said across."""
    scaled = whole(*halved(novelty.axes * novelty.leading.sqrt()))
    ones = torch.ones_like(novelty.leading)
    old = replace(novelty, axes=scaled, leading=ones, others=torch.zeros(()).double())
    state = Exact(old, Calibration.empty()).state()
    del state["novelty.leading"], state["novelty.others"]
    again = Exact.of_state(state, WIDTH, 3).novelty
    features = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(4)).double()
    assert torch.equal(again.distances(features), old.distances(features))


def test_what_does_not_fit_the_model_is_refused(novelty: Novelty) -> None:
    state = Exact(novelty, Calibration.empty()).state()
    for width, classes in ((WIDTH, 4), (WIDTH + 1, 3)):
        with pytest.raises(ValueError, match="do not fit"):
            Exact.of_state(state, width, classes)
    del state["novelty.kernel"]
    with pytest.raises(ValueError, match="missing"):
        Exact.of_state(state, WIDTH, 3)
