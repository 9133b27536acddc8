"""Methods in closed form that let the first task tune the network, if they are told to."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from ovor import OvorError
from ovor.encoders import load_backbone
from ovor.learners import METHODS, build_learner, may_tune
from ovor.learners.first_task import MayTune
from tiny import NARROW, batches_of

MAY_TUNE = [name for name in METHODS if may_tune(name)]
IMAGES = torch.rand(24, 3, 14, 14, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(24) % 2


def build(method: str, backbone: str, **options: Any) -> MayTune:
    every = NARROW.get(method, {}) | options
    learner = build_learner(method, every, load_backbone(backbone).vit, nullcontext)
    assert isinstance(learner, MayTune)
    return learner


def begin(learner: MayTune, task: int) -> tuple[Tensor, Tensor]:
    learner.begin_task(2, (0, task))
    half = slice(12 * task, 12 * task + 12)
    return IMAGES[half], LABELS[half]


def end(learner: MayTune, task: int) -> None:
    half = slice(12 * task, 12 * task + 12)
    learner.eval().end_task(batches_of([(IMAGES[half], LABELS[half])]), (0, task))


@torch.no_grad()
def answers(learner: MayTune) -> Tensor:
    return learner.logits(learner.features(IMAGES))


@pytest.mark.parametrize("method", MAY_TUNE)
def test_adapters_that_learned_nothing_change_no_answer(method: str, tiny_backbone: str) -> None:
    """They add zero at first, so this is the method on the frozen network, to the bit."""
    found = []
    for tuning in ("none", "adapter"):
        learner = build(method, tiny_backbone, tuning=tuning)
        for task in range(2):
            begin(learner, task)
            end(learner, task)
        found.append(answers(learner))
    assert torch.equal(*found)


@pytest.mark.parametrize("method", MAY_TUNE)
def test_the_first_task_tunes_what_is_read_and_later_ones_do_not(
    method: str, tiny_backbone: str
) -> None:
    learner = build(method, tiny_backbone, tuning="adapter")
    images, labels = begin(learner, 0)
    with torch.no_grad():
        frozen = learner.features(IMAGES)
    optimizer = torch.optim.SGD(learner.learnable(), lr=0.5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = learner.train().loss(images, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    end(learner, 0)
    with torch.no_grad():
        tuned = learner.features(IMAGES)
    assert not torch.equal(tuned, frozen)
    begin(learner, 1)
    assert not learner.learnable()
    end(learner, 1)
    with torch.no_grad():
        assert torch.equal(learner.features(IMAGES), tuned)


def test_what_is_not_to_be_tuned_learns_nothing_by_gradients(tiny_backbone: str) -> None:
    learner = build("anacp", tiny_backbone)
    begin(learner, 0)
    assert not learner.learnable()
    assert learner.tuned is None


@pytest.mark.parametrize("method", ["loranpac", "klda", "randumb", "anacp"])
def test_what_tunes_and_what_projects_are_drawn_apart(method: str, tiny_backbone: str) -> None:
    """SSF's scales begin with noise, and so do the projections: the same key gives the same."""
    learner = build(method, tiny_backbone, tuning="ssf")
    begin(learner, 0)
    scales = next(p for p in learner.learnable() if p.dim() == 1)
    noise = (scales - scales.mean()).detach()
    projection = next(
        getattr(learner, name)
        for name in ("projection", "directions", "lifting")
        if isinstance(getattr(learner, name, None), Tensor)
    )
    same = torch.corrcoef(torch.stack([noise, projection.flatten()[: len(noise)].float()]))
    assert same[0, 1].abs() < 0.6  # 5 standard deviations of 64 numbers that are independent


@pytest.mark.parametrize("method", MAY_TUNE)
def test_tuning_that_ran_out_of_bounds_is_said(method: str, tiny_backbone: str) -> None:
    learner = build(method, tiny_backbone, tuning="adapter")
    begin(learner, 0)
    with torch.no_grad():
        for parameter in learner.learnable():
            parameter.fill_(torch.nan)
    with pytest.raises(OvorError, match="choose a smaller --lr"):
        end(learner, 0)
