"""EASE against its paper's formulas: means of old classes put together, cosines reweighted."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from ovor.config import Run
from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.ease import Ease, complement
from tiny import batches_of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


IMAGES = {n: draw(9, 3, 14, 14, seed=n).sigmoid() for n in range(6)}  # by class
TASKS = [[0, 1, 2], [3, 4], [5]]


def build(backbone: str, **options: object) -> Ease:
    learner = build_learner("ease", dict(options), load_backbone(backbone).vit, nullcontext)
    assert isinstance(learner, Ease)
    return learner.eval()


def teach(learner: Ease, tasks: list[list[int]]) -> list[dict[str, Tensor]]:
    """Learn tasks, the adapters moved by chance; return the state after each."""
    states = []
    for task, classes in enumerate(tasks):
        learner.begin_task(len(classes), (0, task))
        with torch.no_grad():
            for number, parameter in enumerate(learner.learnable()):
                parameter += 0.3 * draw(*parameter.shape, seed=100 * task + number)
        images = torch.cat([IMAGES[name] for name in classes])
        labels = torch.arange(len(classes)).repeat_interleave(9)
        learner.end_task(batches_of([*zip(images.split(4), labels.split(4), strict=True)]), (0, 0))
        states.append(copy.deepcopy(learner.state_dict()))
    return states


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_complement_is_the_sum_of_new_means_weighted_by_the_softmax_of_similarities() -> None:
    old, new, target = draw(3, 8), draw(4, 8, seed=1), draw(4, 8, seed=2)
    expected = []
    for one in old.double().numpy():
        weights = np.exp([cosine(one, other) for other in new.double().numpy()])
        expected.append(weights / weights.sum() @ target.double().numpy())
    np.testing.assert_allclose(complement(old, new, target), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_means_are_measured_where_images_were_and_put_together_where_they_were_not(
    tiny_backbone: str,
) -> None:
    learner = build(tiny_backbone)
    teach(learner, TASKS)
    found = [means.double().numpy() for means in learner.means]  # per task: classes, networks, D
    for task, classes in enumerate(TASKS):
        for row, name in enumerate(classes):
            for number in range(task + 1):  # adapters that were there
                expected = learner.networks[number](IMAGES[name]).mean(0)
                np.testing.assert_allclose(found[task][row, number], expected, 1e-3, 1e-4)
            for number in range(task + 1, 3):  # and those that came later
                weights = [cosine(found[task][row, task], m) for m in found[number][:, task]]
                weights = np.exp(weights) / np.exp(weights).sum()
                expected = weights @ found[number][:, number]
                np.testing.assert_allclose(found[task][row, number], expected, 1e-3, 1e-4)


@pytest.mark.parametrize(("among", "other"), [("each", 0.1), ("all", 0.05)])
@torch.no_grad()
def test_logits_are_cosines_and_those_of_other_adapters_count_less(
    among: str, other: float, tiny_backbone: str
) -> None:
    learner = build(tiny_backbone, others=0.1, among=among)
    teach(learner, TASKS)
    images = torch.cat([IMAGES[0][:2], IMAGES[5][:2]])
    seen = [network(images).double().numpy() for network in learner.networks]
    expected = np.zeros((4, 6))
    column = 0
    for task, means in enumerate(learner.means):
        for mean in means.double().numpy():
            for i in range(4):
                for number in range(3):
                    weight = 1.0 if number == task else other
                    expected[i, column] += weight * cosine(seen[number][i], mean[number])
            column += 1
    found = learner.logits(learner.features(images))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_an_adapter_a_task_learns_and_the_others_stay(tiny_backbone: str) -> None:
    learner = build(tiny_backbone)
    before, after = teach(learner, TASKS[:2])
    kept = [name for name in before if name.startswith("networks.0.")]
    assert kept
    assert all(torch.equal(before[name], after[name]) for name in kept)
    names = {name for name, p in learner.named_parameters() if p.requires_grad}
    assert {"task_head", "scale"} < names
    assert all(name.startswith("networks.1.") for name in names - {"task_head", "scale"})


def test_an_image_goes_through_the_network_once_a_task(tiny_backbone: str) -> None:
    learner = build(tiny_backbone)
    teach(learner, TASKS)
    calls = []
    for network in learner.networks:
        network.norm.register_forward_hook(lambda *_: calls.append(1))
    assert learner.features(IMAGES[0]).shape == (9, 3 * 64)
    assert len(calls) == 3


@torch.no_grad()
def test_the_loss_is_of_the_newest_adapter_and_the_tasks_own_classes(tiny_backbone: str) -> None:
    learner = build(tiny_backbone)
    teach(learner, TASKS[:2])
    learner.scale.fill_(3.0)
    features = learner.networks[1](IMAGES[0])
    logits = 3 * torch.cosine_similarity(features[:, None], learner.task_head[None], dim=-1)
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 0])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(learner.loss(IMAGES[0], labels), expected)


def test_all_that_a_task_learns_is_in_its_optimiser(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, adapter_rate=30.0)
    teach(learner, TASKS[:1])
    learner.begin_task(2, (0, 1))
    head, adapters = learner.optimizer(Run()).param_groups
    assert (head["factor"], adapters["factor"]) == (1.0, 30.0)
    every = [*head["params"], *adapters["params"]]
    assert {id(p) for p in every} == {id(p) for p in learner.learnable()}
