"""SSIAT against its paper's formulas by brute force: loss, shift of the means, alignment."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import Tensor

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.cosine import CosineHead, margin_loss
from ovor.learners.ssiat import Ssiat, shift
from tiny import batches_of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


IMAGES = {n: draw(9, 3, 14, 14, seed=n).sigmoid() for n in range(4)}  # by class


def build(backbone: str, **options: object) -> Ssiat:
    learner = build_learner("ssiat", dict(options), load_backbone(backbone).vit, nullcontext)
    assert isinstance(learner, Ssiat)
    return learner.eval()


def teach(learner: Ssiat, classes: list[int], task: int, move: float = 0.0) -> None:
    """Learn classes of nine images each, the adapters moving by chance, so far."""
    learner.begin_task(len(classes), (0, task))
    with torch.no_grad():
        for number, adapter in enumerate(learner.adapters().values()):
            adapter += move * draw(*adapter.shape, seed=100 * task + number)
    images = torch.cat([IMAGES[name] for name in classes])
    labels = torch.arange(len(classes)).repeat_interleave(9)
    learner.end_task(batches_of([(images, labels)]), (0, task))


def test_the_loss_is_the_softmax_of_scaled_cosines_with_a_margin() -> None:
    cosines, labels = draw(6, 4).tanh(), torch.tensor([0, 1, 2, 3, 0, 1])
    expected = []
    for row, label in zip(cosines.double().numpy(), labels.tolist(), strict=True):
        own = np.exp(20 * (row[label] - 0.1))
        others = sum(np.exp(20 * row[j]) for j in range(4) if j != label)
        expected.append(-np.log(own / (own + others)))
    found = margin_loss(cosines, labels, scale=20, margin=0.1)
    np.testing.assert_allclose(found, np.mean(expected), rtol=1e-4)


def test_the_head_knows_angles_alone() -> None:
    head = CosineHead(5)
    for classes in (3, 2):
        head.begin_task(classes, torch.Generator().manual_seed(classes))
    features = draw(4, 5)
    every = torch.cat([*head.tasks]).detach()
    expected = torch.cosine_similarity(features[:, None], every[None], dim=-1)
    torch.testing.assert_close(head(features).detach(), expected)
    torch.testing.assert_close(head(7 * features), head(features))
    torch.testing.assert_close(head.current(features), head(features)[:, 3:])
    assert [p.requires_grad for p in head.tasks] == [False, True]
    head.forget(0, 1)
    torch.testing.assert_close(head(features).detach(), expected[:, [0, 2, 3, 4]])


def test_a_task_learns_by_its_own_classes_with_scale_and_margin(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, scale=7.0, margin=0.3, samples=5)
    teach(learner, [0, 1], 0)
    learner.begin_task(2, (0, 1))
    with torch.no_grad():
        features = learner.features(IMAGES[2])
        found = learner.loss(IMAGES[2], torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1]))
    own = learner.head.tasks[1].detach()  # labels count from the task's first class on
    cosines = torch.cosine_similarity(features[:, None], own[None], dim=-1).double().numpy()
    expected = []
    for row, label in zip(cosines, [0, 1, 1, 0, 1, 0, 0, 1, 1], strict=True):
        logits = 7 * (row - 0.3 * np.eye(2)[label])
        expected.append(np.log(np.exp(logits).sum()) - logits[label])
    np.testing.assert_allclose(found, np.mean(expected), rtol=1e-4)


@pytest.mark.parametrize("floor", [0.0, 1e-5])
@pytest.mark.parametrize("sigma", [0.5, 4.0])
def test_the_shift_is_the_mean_movement_weighted_by_distance(sigma: float, floor: float) -> None:
    old, new, means = draw(30, 6), draw(30, 6, seed=1), draw(4, 6, seed=2)
    expected = np.zeros((4, 6))
    for c, mean in enumerate(means.double().numpy()):
        total = 0.0
        for before, after in zip(old.double().numpy(), new.double().numpy(), strict=True):
            distance = sum((before - mean) ** 2)
            weight = np.exp(-distance / (2 * sigma**2)) + floor
            expected[c] += weight * (after - before)
            total += weight
        expected[c] /= total
    found = shift(old, new, means, sigma, floor)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_a_class_far_from_all_images_moves_as_the_nearest_or_by_the_floor_as_the_average() -> None:
    old, new = draw(10, 3), draw(10, 3, seed=1)
    far = old[3] + 1e4 * torch.nn.functional.normalize(old[3] - old.mean(0), dim=0)
    nearest = torch.cdist(far[None], old).argmin()
    torch.testing.assert_close(shift(old, new, far[None], 1.0)[0], (new - old)[nearest])
    torch.testing.assert_close(shift(old, new, far[None], 1.0, 1e-5)[0], (new - old).mean(0))


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_means_move_by_what_the_new_images_show_and_covariances_stay(
    floor: float, tiny_backbone: str
) -> None:
    learner = build(tiny_backbone, align_epochs=0, sigma=4.0, floor=floor)
    teach(learner, [0, 1], 0)
    before = copy.deepcopy(learner)
    teach(learner, [2, 3], 1, move=0.3)
    images = torch.cat([IMAGES[2], IMAGES[3]])
    with torch.no_grad():
        old, new = before.features(images), learner.features(images)
    torch.testing.assert_close(learner.old_features(images), old)
    assert (new - old).norm(dim=1).mean() > 0.1  # the adapters did move
    moved = shift(old, new, before.means[0], 4.0, floor)
    torch.testing.assert_close(learner.means[0], before.means[0] + moved, rtol=1e-4, atol=1e-5)
    assert torch.equal(learner.roots[0], before.roots[0])
    expected = torch.stack([new[:9].mean(0), new[9:].mean(0)])
    torch.testing.assert_close(learner.means[1], expected, rtol=1e-4, atol=1e-5)
    for root, images in zip(learner.roots[1], new.split(9), strict=True):
        covariance = np.cov(images.double().numpy().T) + 1e-4 * np.eye(new.shape[1])
        np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-3, atol=1e-5)


def test_with_sigma_zero_means_stay(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, align_epochs=0, sigma=0.0)
    teach(learner, [0, 1], 0)
    before = learner.means[0].clone()
    teach(learner, [2, 3], 1, move=0.3)
    assert torch.equal(learner.means[0], before)


def test_samples_have_the_stored_statistics(tiny_backbone: str) -> None:
    learner = build(tiny_backbone, samples=4000, align_epochs=0)
    teach(learner, [0, 1], 0)
    teach(learner, [2], 1, move=0.1)
    features, labels = learner.sample(torch.Generator().manual_seed(0))
    assert labels.tolist() == [0] * 4000 + [1] * 4000 + [2] * 4000
    means, roots = torch.cat([*learner.means]), torch.cat([*learner.roots])
    for name in range(3):
        sampled, covariance = features[labels == name], roots[name] @ roots[name].T
        spread = covariance.diagonal().sqrt()
        assert ((sampled.mean(0) - means[name]).abs() < 6 * spread / 4000**0.5 + 1e-4).all()
        found = torch.cov((sampled - means[name]).T)
        assert ((found - covariance).abs() < 0.15 * covariance.abs().max()).all()


def test_alignment_lowers_the_loss_on_samples_of_all_classes(tiny_backbone: str) -> None:
    loss = []
    for epochs in (0, 5):
        learner = build(tiny_backbone, samples=50, align_epochs=epochs)
        teach(learner, [0, 1], 0)
        teach(learner, [2, 3], 1, move=0.1)
        features, labels = learner.sample(torch.Generator().manual_seed(9))
        loss.append(margin_loss(learner.head(features), labels, 20, 0).item())
    assert loss[1] < 0.9 * loss[0]


def test_the_adapters_learn_in_every_task_and_nothing_else_of_the_network(
    tiny_backbone: str,
) -> None:
    learner = build(tiny_backbone, samples=5)
    for task, classes in enumerate(([0, 1], [2, 3])):
        learner.begin_task(2, (0, task))
        before = {name: p.clone() for name, p in learner.named_parameters()}
        optimizer = torch.optim.SGD(learner.learnable(), lr=1.0)
        images = torch.cat([IMAGES[name] for name in classes])
        for _ in range(2):  # in the first step, what is before a layer of zeros has no gradient
            optimizer.zero_grad()
            learner.loss(images, torch.arange(2).repeat_interleave(9)).backward()
            optimizer.step()
        moved = {n for n, p in learner.named_parameters() if not torch.equal(p, before[n])}
        adapters = {f"tuned.{name}" for name in learner.adapters()}
        assert moved == adapters | {f"head.tasks.{task}"}


@pytest.mark.parametrize(("later", "expected"), [(0.5, [20, 10, 10]), (1.0, [20, 20, 20])])
def test_later_tasks_have_fewer_epochs(
    later: float, expected: list[int], tiny_backbone: str
) -> None:
    from ovor.config import Run

    learner = build(tiny_backbone, later=later)
    assert [learner.epochs(Run(epochs=20), task) for task in range(3)] == expected
    assert build(tiny_backbone, later=0.01).epochs(Run(epochs=1), 1) == 1
