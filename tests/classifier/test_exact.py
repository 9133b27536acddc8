"""What judges the answers of exact sums, written down and read again."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drawings import draw
from ovor import Classifier
from ovor.classifier.calibration import Calibration
from ovor.classifier.digests import Digests
from ovor.classifier.exact import DOUBTS, Exact
from ovor.learners.discriminant import Discriminant, Scatter, Spectrum
from ovor.learners.moments import Moments, rounded
from ovor.learners.novelty import Novelty, halved, whole
from ovor.tensor_file import load_tensors

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


def since(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a state as it was before it counted how little the classes claim an image."""
    return {name: x for name, x in state.items() if name.removeprefix("novelty.") not in DOUBTS}


def test_a_state_from_before_doubt_counted(novelty: Novelty) -> None:
    state = since(Exact(novelty, Calibration.empty()).state())
    again = Exact.of_state(state, WIDTH, 3)
    assert not again.doubts
    features = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(4)).double()
    alone = replace(novelty, doubt=torch.zeros(()).double())
    assert torch.equal(again.novelty.distances(features), alone.distances(features))


def test_an_older_model_goes_on_to_tell_the_unknown_as_it_did(tmp_path: Path) -> None:
    """What was counted of its distances says nothing of another kind of them."""
    model = Classifier("embedded").learn(draw(tmp_path / "first", ["banana", "fish"], 12))
    younger = Classifier("embedded").learn(draw(tmp_path / "other", ["owl", "stairs"], 12))
    before = model.memory()
    model._exact = Exact.of_state(since(before.state()), before.novelty.centre.numel(), 2)
    model.learn(draw(tmp_path / "more", ["sun"], 12))
    assert not model.memory().doubts
    model.save(tmp_path / "old.ovor")
    assert not [name for name in load_tensors(tmp_path / "old.ovor")[0] if name.endswith(DOUBTS)]
    again = Classifier.load(tmp_path / "old.ovor").forget("sun")
    assert not again.memory().doubts
    counted = again.memory().calibration
    again.merge(younger)
    both = again.memory()
    assert not both.doubts
    assert torch.equal(both.calibration.distances, counted.distances)
    assert both.calibration.answers.sum() > counted.answers.sum()
    younger.learn(draw(tmp_path / "again", ["sun"], 12))
    assert younger.memory().doubts


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
