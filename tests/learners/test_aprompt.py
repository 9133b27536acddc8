"""A-Prompt against what must hold of prototypes that follow the network."""

import copy
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from ovor.data.batches import Batches
from ovor.encoders import load_backbone
from ovor.learners.aprompt import APrompt, APromptOptions, paired, prefixes
from tiny import batches_of

# A kernel may round otherwise for weights that could have a gradient than for those that cannot.
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def batches(seed: int) -> Batches:
    """Two classes of nine images, in two batches."""
    images, labels = draw(18, 3, 14, 14, seed=seed).sigmoid(), torch.arange(18) // 9
    return batches_of([(images[:7], labels[:7]), (images[7:], labels[7:])])


@pytest.fixture
def learner(tiny_backbone: str) -> APrompt:
    """Two tasks learned, and a third begun."""
    options = APromptOptions(samples=3)
    learner = APrompt(options, load_backbone(tiny_backbone).vit, nullcontext)
    for task in (0, 1):
        learner.begin_task(2, (0, task))
        learner.end_task(batches(task), (0, task))
    learner.begin_task(2, (0, 2))
    return learner


def prototypes(learner: APrompt) -> Tensor:
    return torch.cat(list(learner.head.tasks)[:2]).clone()


def test_a_network_that_stays_leaves_the_prototypes(learner: APrompt) -> None:
    before = prototypes(learner)
    learner.end_task(batches(2), (0, 2))
    close(prototypes(learner), before)


def test_a_shift_of_all_features_shifts_the_prototypes(learner: APrompt) -> None:
    before, shift = prototypes(learner), draw(64, seed=9)
    with torch.no_grad():
        learner.tuned.norm.bias += shift
    learner.end_task(batches(2), (0, 2))
    close(prototypes(learner), before + shift)


def test_new_prototypes_are_the_new_networks_means(learner: APrompt) -> None:
    with torch.no_grad():
        learner.tuned.norm.weight *= 2
    learner.end_task(batches(2), (0, 2))
    images = torch.cat([batch for batch, _ in batches(2)])
    with torch.no_grad():
        means = learner.tuned(images).view(2, 9, 64).mean(1)
    close(learner.head.tasks[-1], means)


def test_movement_is_the_mean_over_images_one_by_one(learner: APrompt) -> None:
    """The same pairs of image and class, through two whole networks, without batches."""
    old = copy.deepcopy(learner.tuned)
    with torch.no_grad():
        for number, parameter in enumerate(learner.tuned.parameters()):
            parameter += 0.05 * draw(*parameter.shape, seed=number)
    prompts = draw(4, 5, 2, 3, 64)
    with torch.no_grad():
        found = learner.movement(prompts, batches(2), torch.Generator().manual_seed(5))
    moves: dict[int, list[Tensor]] = {name: [] for name in range(4)}
    same = torch.Generator().manual_seed(5)
    for batch, target in paired(batches(2), 4, same):
        for image, name in zip(batch, target.tolist(), strict=True):
            one = {n: (p[0][None], p[1][None]) for n, p in enumerate(prompts[name])}
            with torch.no_grad():
                moves[name].append((learner.tuned(image[None], one) - old(image[None], one))[0])
    expected = torch.stack([torch.stack(part).mean(0) for part in moves.values()])
    close(found, expected)


def test_the_old_network_is_the_one_that_began_the_task(learner: APrompt) -> None:
    images = draw(3, 3, 14, 14).sigmoid()
    with torch.no_grad():
        before = learner.features(images)
        learner.tuned.norm.bias += 1
        close(learner.old_features(images, {}), before)
        learner.begin_task(1, (0, 3))
        close(learner.old_features(images, {}), before + 1)


def test_prompts_learn_to_bring_images_to_each_prototype(learner: APrompt) -> None:
    """The prototypes are means that some prompts reach, so that an analogy exists."""
    images = torch.cat([batch for batch, _ in batches(2)])

    def seen(prompt: Tensor) -> Tensor:
        with torch.no_grad():
            return learner.old_features(images, prefixes(prompt.expand(len(images), *prompt.shape)))

    targets = torch.stack([seen(hidden).mean(0) for hidden in 2 * draw(4, 5, 2, 5, 64)])
    learner.options = replace(learner.options, length=5, layers=5, analogy_epochs=20)
    prompts = learner.analogies(targets, batches(2), torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = learner.old_features(images, {})
    for prompt, target in zip(prompts, targets, strict=True):
        assert (seen(prompt) - target).square().mean() < 0.1 * (plain - target).square().mean()


@pytest.mark.parametrize(("layers", "found"), [(1, 1), (3, 3), (9, 5)])
def test_prompts_are_at_the_first_layers_that_there_are(
    layers: int, found: int, learner: APrompt
) -> None:
    learner.options = replace(learner.options, layers=layers)
    prompts = learner.analogies(prototypes(learner), batches(2), torch.Generator())
    assert prompts.shape == (4, found, 2, 10, 64)


def test_prompts_learn_without_touching_a_network(learner: APrompt) -> None:
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    learner.analogies(prototypes(learner), batches(2), torch.Generator())
    after = learner.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(p.grad is None for p in learner.parameters())


@pytest.mark.parametrize("classes", [1, 4, 7, 18, 40])
def test_every_image_has_a_class_and_every_class_its_share(classes: int) -> None:
    pairs = list(paired(batches(2), classes, torch.Generator().manual_seed(0)))
    images = torch.cat([batch for batch, _ in batches(2)])
    assert torch.equal(torch.cat([batch for batch, _ in pairs]), images)
    counts = torch.bincount(torch.cat([target for _, target in pairs]), minlength=classes)
    assert counts.max() - counts.min() <= 1


def test_more_classes_than_images_are_all_measured(learner: APrompt) -> None:
    with torch.no_grad():
        learner.tuned.norm.bias += 1
        moved = learner.movement(draw(40, 5, 2, 3, 64), batches(2), torch.Generator())
    close(moved, torch.ones(40, 64))


def test_the_kept_weights_are_no_learned_parameters(learner: APrompt) -> None:
    network = sum(p.numel() for p in learner.backbone.parameters())
    assert learner.learned_parameters() == network + 6 * (64 + 1)
    kept = [name for name in learner.learned_state() if name.startswith("old.")]
    assert len(kept) == len(list(learner.backbone.parameters()))
