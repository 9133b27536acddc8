"""SimpleCIL, RanPAC and SLCA against independent oracles."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.learners.ranpac import RIDGES, RanPac, choose_ridge, ridge_solution
from ovor.learners.simplecil import SimpleCil
from ovor.learners.slca import Slca, gaussian
from tiny import batches_of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


IMAGES = {n: draw(9, 3, 14, 14, seed=n).sigmoid() for n in range(4)}  # by class
EVERY = torch.cat([IMAGES[n] for n in range(4)])


def teach(learner: Learner, tasks: list[list[int]]) -> None:
    """Tasks of classes, each class with nine images of its own.

    One image a batch: features are then the same to the bit, whatever stands beside them.
    """
    for number, classes in enumerate(tasks):
        images = torch.cat([IMAGES[name] for name in classes])
        labels = torch.arange(len(classes)).repeat_interleave(9)
        batches = [*zip(images.split(1), labels.split(1), strict=True)]
        learner.begin_task(len(classes), (0, number))
        learner.end_task(batches_of(batches), (0, number))


def build(method: str, backbone: str, **options: object) -> Learner:
    return build_learner(method, dict(options), load_backbone(backbone).vit, nullcontext).eval()


@torch.no_grad()
def by_class(learner: Learner, tasks: list[list[int]]) -> dict[int, Tensor]:
    logits = learner.logits(learner.features(EVERY))
    return {name: logits[:, i] for i, name in enumerate(itertools.chain(*tasks))}


def test_simplecil_is_the_cosine_to_class_means_in_any_order(tiny_backbone: str) -> None:
    orders = ([[0, 1], [2, 3]], [[3], [1, 2, 0]])
    found = []
    for tasks in orders:
        learner = build("simplecil", tiny_backbone)
        assert isinstance(learner, SimpleCil)
        teach(learner, tasks)
        found.append(by_class(learner, tasks))
    vit = load_backbone(tiny_backbone).vit
    with torch.no_grad():
        for name in range(4):
            torch.testing.assert_close(found[0][name], found[1][name])
            mean = vit(IMAGES[name]).mean(0)
            every = vit(EVERY)
            torch.testing.assert_close(found[0][name], torch.cosine_similarity(every, mean[None]))


def test_ranpac_equals_ridge_regression_on_all_classes_at_once(tiny_backbone: str) -> None:
    orders = ([[0, 1], [2, 3]], [[3], [1, 2, 0]], [[0, 1, 2, 3]])
    found = []
    for tasks in orders:
        learner = build("ranpac", tiny_backbone, tuning="none", projection=40)
        assert isinstance(learner, RanPac)
        teach(learner, tasks)
        with torch.no_grad():
            h = torch.cat([learner.project(learner.features(x)) for x in EVERY.split(1)]).double()
        y = torch.eye(4, dtype=torch.double).repeat_interleave(9, dim=0)
        ridge = 0.1
        expected = np.linalg.solve((h.T @ h + ridge * torch.eye(40)).numpy(), (h.T @ y).numpy())
        weights = ridge_solution(learner.gram, learner.sums, ridge)
        order = list(itertools.chain(*tasks))
        columns = weights[:, [order.index(name) for name in range(4)]]
        np.testing.assert_allclose(columns, expected, rtol=1e-6, atol=1e-8)
        found.append(columns)
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, rtol=1e-6, atol=1e-8)


def test_ridge_is_the_best_of_seventeen_direct_solves() -> None:
    h, y = draw(60, 30).relu(), torch.eye(5)[torch.arange(60) % 5] + 0.1 * draw(60, 5, seed=1)
    fit, test = h[:48].double(), h[48:].double()
    errors = []
    for ridge in RIDGES:
        system = fit.T @ fit + ridge * torch.eye(30)
        weights = torch.linalg.solve(system, fit.T @ y[:48].double())
        errors.append((test @ weights - y[48:]).square().mean().item())
    assert choose_ridge(h, y) == RIDGES[int(np.argmin(errors))]


def test_gaussian_is_mean_and_covariance() -> None:
    features = draw(50, 6) @ draw(6, 6, seed=1) + 3
    mean, root = gaussian(features)
    np.testing.assert_allclose(mean, features.numpy().mean(0), rtol=1e-4, atol=1e-4)
    expected = np.cov(features.numpy().T) + 1e-4 * np.eye(6)
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-3, atol=1e-3)
    mean, root = gaussian(draw(1, 4))  # one image has a Gaussian too
    assert torch.equal(mean, draw(1, 4)[0])
    torch.testing.assert_close(root, 1e-2 * torch.eye(4))


def test_slca_samples_have_the_stored_statistics(tiny_backbone: str) -> None:
    learner = build("slca", tiny_backbone, samples=4000, align_epochs=1)
    assert isinstance(learner, Slca)
    teach(learner, [[0, 1], [2]])
    features, labels = learner.sample(torch.Generator().manual_seed(0))
    assert labels.tolist() == [0] * 4000 + [1] * 4000 + [2] * 4000
    for name, shrink in ((0, 0.95), (1, 0.95), (2, 1.0)):
        task, within = (0, name) if name < 2 else (1, 0)
        sampled = features[labels == name]
        mean = shrink * learner.means[task][within]
        root = learner.roots[task][within]
        spread = (root @ root.T).diagonal().sqrt()
        assert ((sampled.mean(0) - mean).abs() < 6 * spread / 4000**0.5 + 1e-4).all()
        covariance = torch.cov((sampled - mean).T)
        scale = (root @ root.T).abs().max()
        assert ((covariance - root @ root.T).abs() < 0.15 * scale).all()


def test_slca_alignment_changes_what_classifies_and_keeps_the_heads(tiny_backbone: str) -> None:
    learner = build("slca", tiny_backbone, samples=20)
    assert isinstance(learner, Slca)
    teach(learner, [[0, 1]])
    head, aligned = learner.head.state_dict(), learner.aligned.state_dict()
    assert all(torch.equal(head[name], aligned[name]) for name in head)
    teach(learner, [[2, 3]])
    head, aligned = learner.head.state_dict(), learner.aligned.state_dict()
    assert all(not torch.equal(head[name], aligned[name]) for name in head)


@pytest.mark.parametrize("weight", [0.0, 1e6])
def test_l2_holds_attention_at_the_weights_of_the_task_before(
    weight: float, tiny_backbone: str
) -> None:
    learner = build("l2", tiny_backbone, weight=weight)
    learner.begin_task(4, (0, 0))
    before = {n: p.clone() for n, p in learner.named_parameters() if "tuned" in n}
    optimizer = torch.optim.SGD(learner.learnable(), lr=1e-7 if weight else 1e-2)
    images, labels = EVERY, torch.arange(4).repeat_interleave(9)
    for _ in range(5):
        optimizer.zero_grad()
        learner.loss(images, labels).backward()
        optimizer.step()
    after = dict(learner.named_parameters())
    moved = {name for name in before if not torch.equal(after[name], before[name])}
    assert moved
    assert all(".attn.qkv." in name for name in moved)
    largest = max((after[n] - before[n]).abs().max() for n in moved)
    assert (largest < 1e-5) == (weight > 0)


def test_l2_keeps_and_counts_only_the_attention_it_learns(tiny_backbone: str) -> None:
    learner = build("l2", tiny_backbone)
    learner.begin_task(4, (0, 0))
    qkv, head = 5 * (3 * 64 * 64 + 3 * 64), 4 * (64 + 1)
    assert learner.learned_parameters() == qkv + head
    state = learner.learned_state()
    assert all(".attn.qkv." in name for name in state if name.startswith("tuned."))
    assert sum(tensor.numel() for tensor in state.values()) == 2 * qkv + head  # with the anchors
