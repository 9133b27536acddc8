"""What every learner promises, with and without VOR; a new method is tested by itself."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ovor import Classifier, OvorError
from ovor.config import Run
from ovor.encoders.weights import load_backbone
from ovor.experiments.runner import prepare
from ovor.learners import METHODS, at_once, may_tune, options_type, takes_vor
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors, save_tensors
from ovor.training.context import Context
from ovor.training.features import Features, still_images
from ovor.training.loop import evaluate, learn_epochs
from tiny import NARROW

NAMES = [name + vor for name in METHODS for vor in ("", "+vor") if not vor or takes_vor(name)]
# What tunes only if it is told to, told to.
TUNED = [
    f"{name} tuned" for name in METHODS if may_tune(name) and options_type(name)().tuning == "none"
]
# Later tasks change what they learned of earlier ones.
MOVED_HEADS = {"a-prompt", "finetune", "joint", "ssiat", "rsiat"}


@pytest.fixture(params=[*NAMES, *TUNED])
def run(request: pytest.FixtureRequest, tiny_run: Run) -> Run:
    method = request.param.removesuffix("+vor").removesuffix(" tuned")
    vor = tiny_run.vor if request.param.endswith("+vor") else None
    tuned = {"tuning": "adapter"} if request.param in TUNED else {}
    return replace(tiny_run, method=method, vor=vor, options=NARROW.get(method, {}) | tuned)


@pytest.fixture
def prepared(run: Run, tmp_path: Path) -> tuple[Context, Learner]:
    return prepare(run, tmp_path / "checkpoint.safetensors")


def epochs_of(context: Context, learner: Learner, task: int) -> Iterator[tuple[int, float]]:
    optimizer = learner.optimizer(context.run)
    return learn_epochs(context, learner, Features(context), optimizer, task, 0)


def teach(context: Context, learner: Learner, task: int) -> None:
    seed = (context.run.seed, task)
    learner.begin_task(len(context.tasks[task].classes), seed)
    for _ in epochs_of(context, learner, task):
        pass
    learner.end_task(still_images(context, task), seed)


def copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def test_backbone_and_old_heads_stay_bit_identical(
    run: Run, prepared: tuple[Context, Learner]
) -> None:
    context, learner = prepared
    teach(context, learner, 0)
    before = copy(learner.state_dict())
    kept = "backbone." if run.method in MOVED_HEADS else ("backbone.", "head.")
    for task in range(1, len(context.tasks[:2])):  # who learns all at once has no second task
        teach(context, learner, task)
    after = learner.state_dict()
    for name in before:
        if name.startswith(kept):
            assert torch.equal(before[name], after[name]), name
    reference = load_backbone(context.run.backbone).vit.state_dict()
    assert all(torch.equal(reference[n], after[f"backbone.{n}"]) for n in reference)


def test_a_task_changes_what_is_learned(prepared: tuple[Context, Learner]) -> None:
    context, learner = prepared
    learner.begin_task(len(context.tasks[0].classes), (context.run.seed, 0))
    new = copy(learner.learned_state())
    for _ in epochs_of(context, learner, 0):
        pass
    learner.end_task(still_images(context, 0), (context.run.seed, 0))
    learned = learner.learned_state()
    assert any(not torch.equal(new[name], learned[name]) for name in new)
    assert all(torch.isfinite(tensor).all() for tensor in learned.values())


def test_logits_grow_with_the_classes(prepared: tuple[Context, Learner]) -> None:
    context, learner = prepared
    seen = 0
    for number, task in enumerate(context.tasks):
        learner.begin_task(len(task.classes), (context.run.seed, number))
        seen += len(task.classes)
        features = learner.eval().features(torch.rand(5, 3, 14, 14))
        assert learner.logits(features).shape == (5, seen)
        current = learner.current_logits(features)
        torch.testing.assert_close(learner.logits(features)[:, -len(task.classes) :], current)


def test_the_same_seed_learns_the_same_and_another_does_not(run: Run, tmp_path: Path) -> None:
    states = []
    for number, seed in enumerate((3, 3, 4)):
        context, learner = prepare(replace(run, seed=seed), tmp_path / f"{number}.safetensors")
        torch.manual_seed(number)  # the global generator has no say
        teach(context, learner, 0)
        states.append(learner.learned_state())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])


@torch.no_grad()
def logits(learner: Learner, images: Tensor) -> Tensor:
    return learner.logits(learner.eval().features(images))


def test_what_was_learned_saves_and_loads(run: Run, tmp_path: Path) -> None:
    """After one class and after more, bit for bit, for many images and for one."""
    run = replace(run, task_sizes=(1, 2, 3))
    context, learner = prepare(run, tmp_path / "one")
    other_session, other = prepare(replace(run, seed=9), tmp_path / "two")
    images = torch.rand(4, 3, 14, 14)
    for task in range(len(context.tasks[:2])):
        teach(context, learner, task)
        other.begin_task(len(other_session.tasks[task].classes), (9, task))
        state = learner.learned_state()
        # Row by row, as files have it: another layout may change the last bits of a product.
        assert all(x.stride() == torch.empty(x.shape).stride() for x in state.values())
        save_tensors(tmp_path / "saved", state, {})
        for loaded in (load_tensors(tmp_path / "saved")[0], state):
            other.load_learned_state(loaded)
            ours, theirs = (
                evaluate(context, one, Features(context), task) for one in (learner, other)
            )
            assert ours == theirs
            for some in (images, images[:1]):
                assert torch.equal(logits(learner, some), logits(other, some))
        assert not any(name.startswith("backbone") for name in state)


def test_a_classifier_predicts_the_same_after_it_was_saved(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if at_once(run.method):
        with pytest.raises(OvorError, match="all classes at once"):
            Classifier(run.backbone, run.name).run()
        return
    if run.method == "analytic" and run.options:
        pytest.skip("The sums of a growing classifier are of a network that nothing tunes.")
    monkeypatch.setattr("ovor.classifier.estimator.teaching", lambda *_: run)
    images = np.random.default_rng(0).integers(0, 256, (16, 14, 14, 3), dtype=np.uint8)
    model = Classifier(run.backbone, run.name, device="cpu")
    model.learn(images[:8], [*"aaaabbbb"]).learn(images[8:], [*"ccccdddd"])
    for bundle in (False, True):
        model.save(tmp_path / "m.ovor", bundle=bundle)
        again = Classifier.load(tmp_path / "m.ovor", device="cpu")
        for some in (images, images[:1]):
            np.testing.assert_array_equal(again.predict_proba(some), model.predict_proba(some))
