"""RSIAT against its paper's formulas: steering by pairs, the projector, what holds the features."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ovor.config import Run
from ovor.encoders import load_backbone
from ovor.events import EpochEnds, Event
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.learners import build_learner
from ovor.learners.rsiat import Projector, Rsiat, steering
from tiny import batches_of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


IMAGES, LABELS = draw(8, 3, 14, 14).sigmoid(), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])


def build(backbone: str, tasks: int, **options: object) -> Rsiat:
    """Return a learner at the beginning of its last task."""
    learner = build_learner("rsiat", dict(options), load_backbone(backbone).vit, nullcontext)
    assert isinstance(learner, Rsiat)
    for task in range(tasks):
        if task:
            learner.end_task(batches_of([(IMAGES, LABELS)]), (0, task - 1))
        learner.begin_task(2, (0, task))
    return learner


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_steering_is_the_mean_over_pairs_of_one_class_and_of_two() -> None:
    features, labels = draw(7, 5), torch.tensor([0, 0, 1, 1, 1, 2, 0])
    pulled, pushed = [], []
    for i, one in enumerate(features.double().numpy()):
        for j, other in enumerate(features.double().numpy()):
            if i != j and labels[i] == labels[j]:
                pulled.append(1 - cosine(one, other))
            if labels[i] != labels[j]:
                pushed.append(1 + cosine(one, other))
    expected = np.mean(pulled) + 1.5 * np.mean(pushed)
    np.testing.assert_allclose(steering(features, labels, 1.5), expected, rtol=1e-4)


@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 0, 0]])
def test_steering_without_pairs_of_a_kind_is_finite(labels: list[int]) -> None:
    assert steering(draw(3, 5), torch.tensor(labels), 1.0).isfinite()


def test_the_projector_starts_as_the_identity_and_is_a_residual_autoencoder() -> None:
    projector = Projector(6, 4)
    projector.restart(torch.Generator().manual_seed(0))
    features = draw(3, 6)
    assert torch.equal(projector(features), features)
    with torch.no_grad():
        for number, parameter in enumerate(projector.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=number))
    x = features
    for number, (weight, bias) in enumerate(zip(projector.weights, projector.biases, strict=True)):
        x = x @ weight.T + bias
        x = torch.nn.functional.gelu(x) if number < 3 else x
    torch.testing.assert_close(projector(features), features + x)
    assert [tuple(weight.shape) for weight in projector.weights] == [
        *((64, 6), (4, 64), (64, 4), (6, 64))
    ]


@pytest.mark.parametrize(("epoch", "warmth"), [(0, 0.0), (1, 0.25), (4, 1.0), (9, 1.0)])
def test_steering_warms_up_in_the_first_task(epoch: int, warmth: float, tiny_backbone: str) -> None:
    learner = build(tiny_backbone, 1, warm_up=4, steer=0.5, apart=1.5)
    learner.begin_epoch(epoch)
    features = learner.features(IMAGES)
    expected = learner.class_loss(features, LABELS)
    expected = expected + 0.5 * warmth * steering(features, LABELS, 1.5)
    torch.testing.assert_close(learner.loss(IMAGES, LABELS), expected)
    assert not learner.separable  # a batch of pairs cannot be divided


def test_later_tasks_are_held_by_the_projector_and_kept_off_old_means(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, 2, samples=5, hold=3.0, orthogonal=1.5)
    assert learner.separable
    assert learner.projector is not None
    with torch.no_grad():
        for number, parameter in enumerate(learner.learnable()):
            parameter += 0.1 * draw(*parameter.shape, seed=number)
    with torch.no_grad():
        now, before = learner.features(IMAGES), learner.projector(learner.old_features(IMAGES))
        old = learner.projector(learner.means[0])
        found = learner.loss(IMAGES, LABELS) - learner.class_loss(now, LABELS)
    held = ((now - before).double().numpy() ** 2).mean()
    overlap = [abs(cosine(p, u)) for p in old.double().numpy() for u in before.double().numpy()]
    np.testing.assert_allclose(found, 3.0 * held + 1.5 * np.mean(overlap), rtol=1e-3)
    assert held > 1e-3


def test_at_the_start_of_a_task_nothing_holds(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, 2, samples=5, hold=1e3, orthogonal=0.0)
    loss = learner.class_loss(learner.features(IMAGES), LABELS)
    torch.testing.assert_close(learner.loss(IMAGES, LABELS), loss, rtol=1e-4, atol=1e-4)


def test_the_projector_begins_every_task_as_the_identity(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, 2, samples=5)
    assert learner.projector is not None
    with torch.no_grad():
        for parameter in learner.projector.parameters():
            parameter += 0.1
    features = draw(3, 64)
    assert not torch.allclose(learner.projector(features), features)
    learner.end_task(batches_of([(IMAGES, LABELS)]), (0, 1))
    learner.begin_task(2, (0, 2))
    assert torch.equal(learner.projector(features), features)


def test_the_first_task_may_have_a_rate_of_its_own(tiny_backbone: str) -> None:
    for tasks, factor in ((1, 0.5), (2, 1.0)):
        learner = build(tiny_backbone, tasks, samples=5, first_lr=0.01)
        assert learner.optimizer(Run(lr=0.02)).param_groups[0]["factor"] == factor


def test_a_run_warms_steering_up(tiny_run: Run, tmp_path: Path) -> None:
    """In the first epoch it has no weight, so that its weight changes nothing of that one."""
    runs = [
        replace(
            tiny_run,
            **{"method": "rsiat", "vor": None, "epochs": 2},
            options={"samples": 5, "warm_up": 2, "steer": weight},
        )
        for weight in (0.0, 5.0)
    ]
    losses = []
    for number, run in enumerate(runs):
        events: list[Event] = []
        execute(run, Folder(tmp_path / str(number)), events.append)
        losses.append([e.loss for e in events if isinstance(e, EpochEnds) and e.task == 0])
    assert losses[0][0] == losses[1][0]
    assert losses[0][1] != losses[1][1]


def test_projector_and_adapters_have_rates_of_their_own(tiny_backbone: str) -> None:
    own = {"projector_slowdown": 0.5, "projector_decay": 0.25, "adapter_rate": 30.0}
    learner = build(tiny_backbone, 2, samples=5, **own)
    assert learner.projector is not None
    head, adapters, projector = learner.optimizer(Run(lr=0.1)).param_groups
    assert projector["params"] == [*learner.projector.parameters()]
    assert (projector["factor"], projector["weight_decay"]) == (0.5, 0.25)
    assert (head["factor"], adapters["factor"]) == (1.0, 30.0)
    assert head["weight_decay"] == adapters["weight_decay"] == 1e-6
    every = [*head["params"], *adapters["params"], *projector["params"]]
    assert {id(p) for p in every} == {id(p) for p in learner.learnable()}
    assert len(build(tiny_backbone, 1).optimizer(Run()).param_groups) == 2


def test_inference_knows_no_projector(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, 3, samples=5).eval()
    before = learner.logits(learner.features(IMAGES))
    learner.projector = None
    assert torch.equal(learner.logits(learner.features(IMAGES)), before)
