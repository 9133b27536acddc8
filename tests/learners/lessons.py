"""Lessons of drawn features, for methods that need no more than features."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.closed_form import ClosedForm

WIDTH = 64  # of the tiny backbone


@dataclass(frozen=True)
class Lessons:
    """Features of classes (n, D), each class with a mean of its own."""

    features: Tensor
    labels: Tensor

    def of(self, classes: list[int]) -> tuple[Tensor, Tensor]:
        """Return some classes' features, with labels by their places."""
        chosen = [torch.nonzero(self.labels == c)[:, 0] for c in classes]
        labels = [torch.full((len(own),), place) for place, own in enumerate(chosen)]
        return self.features[torch.cat(chosen)], torch.cat(labels)


def drawn(classes: int, each: int, seed: int = 0, apart: float = 1.0) -> Lessons:
    """Draw features that correlate, around means that differ by about `apart` in each number."""
    draw = torch.Generator().manual_seed(seed)
    mixing = torch.randn(WIDTH, WIDTH, generator=draw, dtype=torch.double) / WIDTH**0.5
    means = apart * torch.randn(classes, WIDTH, generator=draw, dtype=torch.double)
    labels = torch.arange(classes).repeat_interleave(each)
    noise = torch.randn(len(labels), WIDTH, generator=draw, dtype=torch.double)
    return Lessons(means[labels] + noise @ mixing, labels)


def build(method: str, backbone: str, **options: Any) -> ClosedForm:
    learner = build_learner(method, options, load_backbone(backbone).vit, nullcontext)
    return cast(ClosedForm, learner.eval())


def teach(learner: ClosedForm, lessons: Lessons, tasks: list[list[int]]) -> ClosedForm:
    """Learn tasks of classes, and return the learner."""
    for number, classes in enumerate(tasks):
        learner.begin_task(len(classes), (0, number))
        features, labels = lessons.of(classes)
        learner.learn(features, labels + learner.start, (0, number))
    return learner
