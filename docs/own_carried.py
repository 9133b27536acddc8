"""Adapters tuned on every task, the class sums carried along: a part of docs/own_method.py.

A task's images, seen by the network before the task and after it, show how features move. If that
is phi' = A phi + b, the sums of older classes follow exactly, though their images are gone. Beside
it stand what brackets it: sums left as they were, and sums of all images encoded anew, which no
method has that keeps none.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from docs.features import Encoded, accuracy, encode, learner_of, summed
from docs.own_ideas import logits
from ovor.data.batches import Batches
from ovor.data.embedded import quickdraw_dev
from ovor.experiments.runner import prepare
from ovor.learners import LEARNERS, build_learner
from ovor.learners.analytic import Analytic
from ovor.learners.discriminant import Discriminant, Mixture, Scatter, Spectrum, choose_ridge
from ovor.learners.moments import Moments, rounded
from ovor.learners.ssiat import Ssiat
from ovor.presets import ANALYTIC, settings
from ovor.training.checkpointing import Checkpoints, Clock, Position
from ovor.training.features import Features
from ovor.training.loop import learn_task

RATES = (1.0, 100.0, 1000.0)  # learning rate of the adapters over that of the head
RIDGES = torch.logspace(-6, 4, 41, dtype=torch.double)  # of the mean variance, to choose from
SEEDS = (0, 1, 2)


class Carried(Ssiat):
    """SSIAT's adapters, and sums of what `analytic` reads of the network that they make."""

    def __init__(self, options: Any, backbone: Any, autocast: Any) -> None:
        super().__init__(options, backbone, autocast)
        reader = build_learner("analytic", ANALYTIC, backbone, nullcontext)
        assert isinstance(reader, Analytic)
        self.reader = reader
        self.start = 0
        # With a constant beside the features, whose sums are counts: b is a part of the map.
        self.left = Moments.empty(reader.moments.width + 1)
        self.carried = self.left.copy()
        self.seen: list[Batches] = []

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        super().begin_task(classes, seed)
        self.start = len(self.left.counts)
        self.left, self.carried = self.left.grown(classes), self.carried.grown(classes)

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.eval()
        new, labels = self.encoded(images)
        if self.start:
            self.carried = carry(self.carried, moved(self.before(images), new))
        for sums in (self.left, self.carried):
            sums.add(new, labels + self.start)
        self.seen.append(images)

    def encoded(self, images: Batches) -> tuple[Tensor, Tensor]:
        pairs = list(images.encoded(self.features_read))
        found = rounded(torch.cat([part for part, _ in pairs]))
        constant = torch.ones(len(found), 1, dtype=torch.double)
        return torch.cat([found, constant], 1), torch.cat([part for _, part in pairs]).cpu()

    def before(self, images: Batches) -> Tensor:
        """Return the features of images by the network as it was when the task began."""
        now = [parameter.detach().clone() for parameter in self.adapters().values()]
        self.become(list(self.old))
        found, _ = self.encoded(images)
        self.become(now)
        return found

    def become(self, weights: list[Tensor]) -> None:
        for parameter, weight in zip(self.adapters().values(), weights, strict=True):
            parameter.copy_(weight)

    def features_read(self, images: Tensor) -> Tensor:
        assert self.tuned is not None
        return self.tuned.depths(images, self.reader.read) * self.reader.lengths

    @torch.no_grad()
    def anew(self) -> Moments:
        """Return the sums of all images by the network as it is, as if they had been kept."""
        sums, start = Moments.empty(self.left.width).grown(len(self.left.counts)), 0
        for images in self.seen:
            found, labels = self.encoded(images)
            sums.add(found, labels + start)
            start += int(labels.max()) + 1
        return sums


def moved(old: Tensor, new: Tensor) -> Tensor:
    """Return M with new = old M (a constant is the last column of both), as near to I as is good.

    How near is chosen by generalised cross-validation.
    """
    values, vectors = torch.linalg.eigh(old @ old.T)
    values, change = values.clamp(min=0), vectors.T @ (new - old)
    ridges = RIDGES[:, None] * values.mean()
    left = ridges / (values + ridges)  # of what is to be explained, along each axis
    error = (left.square() @ change.square().sum(1)) / left.sum(1).square()
    best = ridges[int(error.argmin())]
    weights = old.T @ (vectors @ (change / (values + best)[:, None]))
    return torch.eye(old.shape[1], dtype=torch.double) + weights


def carry(sums: Moments, by: Tensor) -> Moments:
    """Return the sums of the same images with features that are `by` times what they were."""
    return replace(sums, sums=sums.sums @ by, second=by.T @ sums.second @ by)


def without_constant(sums: Moments) -> Moments:
    return replace(sums, sums=sums.sums[:, :-1], second=sums.second[:-1, :-1])


def head(sums: Moments) -> Callable[[Tensor], Tensor]:
    """Return the analytic head of sums."""
    scatter = Scatter.of(sums)
    spectrum = Spectrum.of(scatter)
    ridge = choose_ridge(scatter, spectrum) * scatter.inequality
    mixture = Mixture.of(Discriminant.of(scatter, spectrum, ridge))
    return lambda features: logits(mixture, features)


class Reading:
    """What docs/features.py asks of a learner, for the tuned network."""

    def __init__(self, learner: Carried) -> None:
        self.backbone, self.features = learner.vit, learner.features_read


def carried(rate: float, seed: int) -> dict[str, float]:
    """Learn the development classes in five tasks; return the accuracy at the end by each way."""
    LEARNERS["carried"] = Carried
    run = settings("quickdraw-dev", "ssiat")
    options = {**run.options, "adapter_rate": rate}
    run = replace(run, method="carried", options=options, seed=seed, threads=1)
    with TemporaryDirectory() as folder:
        context, learner = prepare(run, Path(folder, "checkpoint"))
        features, checkpoints = Features(context), Checkpoints(context)
        for number in range(len(context.tasks)):
            position = Position(task=number)
            learn_task(context, learner, features, checkpoints, position, Clock(position))
    assert isinstance(learner, Carried)
    learner.eval()
    asked = encode(Reading(learner), quickdraw_dev().test)  # type: ignore[arg-type]
    order = [number for task in context.tasks for number in task.classes]
    place = torch.tensor([order.index(number) for number in range(len(order))])
    ways = {"left": learner.left, "carried": learner.carried, "all encoded anew": learner.anew()}
    return {
        name: right(without_constant(sums), Encoded(asked.features, place[asked.labels]))
        for name, sums in ways.items()
    }


def right(sums: Moments, asked: Encoded) -> float:
    return round(accuracy(head(sums)(asked.features.double()), asked.labels), 3)


def frozen() -> float:
    """Return the accuracy of `analytic`, which is the same for every seed."""
    learner, data = learner_of({}), quickdraw_dev()
    sums = summed(learner, encode(learner, data.train), len(data.class_names))
    return right(sums, encode(learner, data.test))


def measured() -> dict[str, list[float]]:
    """Return the accuracy of every way and rate by seed, beside `analytic` as it is."""
    found = {"analytic": [frozen()] * len(SEEDS)}
    for rate in RATES:
        for seed in SEEDS:
            for way, value in carried(rate, seed).items():
                found.setdefault(f"sums {way}, rate {rate:g}", []).append(value)
        print({name: values for name, values in found.items() if f"{rate:g}" in name}, flush=True)
    return found
