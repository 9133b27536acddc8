"""What judges the answers of exact sums, written down and read again."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drawings import draw
from ovor import Classifier
from ovor.classifier.calibration import Calibration
from ovor.classifier.digests import Digests
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


def test_nothing_may_be_missing(novelty: Novelty) -> None:
    digests = Digests({bytes(16): 0})
    state = Exact(novelty, Calibration.empty(), digests).state()
    width, classes = novelty.weights.shape
    Exact.of_state(state, width, classes)
    for name in state:
        with pytest.raises(ValueError, match=r"missing"):
            Exact.of_state({k: x for k, x in state.items() if k != name}, width, classes)


def test_one_image_of_a_new_class_leaves_the_unknown_as_it_was(tmp_path: Path) -> None:
    """Its mean is hardly known. That may not change what is far from the other classes."""
    taught = draw(tmp_path / "taught", ["banana", "fish", "sun"], 40)
    strangers = draw(tmp_path / "strangers", ["owl", "stairs"], 10)
    model = Classifier("embedded").learn(taught)
    before = model.classify(strangers).unknown.sum()
    one = next(draw(tmp_path / "one", ["triangle"], 1).rglob("*.png"))
    after = model.correct([one], "triangle").classify(strangers).unknown.sum()
    assert before >= 15
    assert after >= before - 2
