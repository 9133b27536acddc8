"""Ideas for a head on frozen features: from a fold of images to logits (docs/own_method.py)."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from docs.features import BATCH, learner_of
from ovor.data.base import Images
from ovor.data.embedded import quickdraw_dev
from ovor.data.images import Pictures
from ovor.data.loader import test_batches
from ovor.data.transforms import normalised
from ovor.encoders.base import Encoder
from ovor.learners import build_learner
from ovor.learners.closed_form import ClosedForm
from ovor.learners.discriminant import Discriminant, Mixture, Scatter, Spectrum, choose_ridge
from ovor.learners.moments import Moments
from ovor.presets import settings

FOLDS, EACH = 5, 100  # drawings of a class, in all
TOKENS = ("class", "mean", "maximum", "deviation", "upper left", "upper right", "lower left")
FADING = 0.7
Idea = Callable[["Fold"], Tensor]  # logits of the images that are asked


class Pools:
    """Everything one could read of the drawings: poolings of the tokens after every block."""

    def __init__(self, turned: Callable[[Any], Any] = lambda image: image) -> None:
        drawings = quickdraw_dev()
        parts = [pooled(images, turned) for images in (drawings.train, drawings.test)]
        self.tokens = torch.cat(parts)  # n, blocks, poolings, D
        labels = [drawings.train.labels, drawings.test.labels]
        self.labels = torch.from_numpy(np.concatenate(labels).astype(np.int64))

    def read(
        self,
        tokens: tuple[str, ...] = TOKENS[:2],
        blocks: tuple[int, ...] = (2, 3, 4, 5),
        fading: float = FADING,
    ) -> Tensor:
        """Return these poolings after these blocks side by side, each normalised."""
        chosen = [TOKENS.index(name) for name in tokens]
        return torch.cat(
            [
                self.tokens[:, block, chosen].flatten(1) * fading ** (len(blocks) - 1 - place)
                for place, block in enumerate(blocks)
            ],
            1,
        ).double()


@torch.no_grad()
def pooled(images: Images, turned: Callable[[Any], Any]) -> Tensor:
    vit, transform = learner_of({}).vit, drawing_transform()
    pictures = Pictures(
        [turned(images.image(i)) for i in range(len(images))], np.asarray(images.labels)
    )
    numbers = np.arange(len(images))
    batches = test_batches(
        pictures, numbers, pictures.labels, transform, batch_size=BATCH, workers=0
    )
    found = []
    for pixels, _ in batches:
        tokens, blocks = vit.embed(normalised(pixels, transform)), []
        for block in vit.blocks:
            tokens = block(tokens)
            patches = tokens[:, 1:]
            grid = patches.unflatten(1, vit.arch.grid).permute(0, 3, 1, 2)
            quarters = F.adaptive_avg_pool2d(grid, 2).flatten(2).transpose(1, 2)
            whole = [tokens[:, 0], patches.mean(1), patches.amax(1), patches.std(1)]
            blocks.append(torch.cat([torch.stack(whole, 1), quarters], 1))
        found.append(torch.stack(blocks, 1))
    return F.layer_norm(torch.cat(found), (vit.arch.embed_dim,))


def drawing_transform() -> Any:
    return replace(settings("quickdraw-dev", "analytic").transform, size=28)


class Fold:
    """Which images are learned and which asked."""

    def __init__(self, labels: Tensor, learned: Tensor, asked: Tensor) -> None:
        self.labels, self.learned, self.asked = labels, learned, asked
        self.classes = int(labels.max()) + 1

    @property
    def truth(self) -> Tensor:
        return self.labels[self.asked]

    @property
    def own(self) -> Tensor:
        return self.labels[self.learned]


def folds(labels: Tensor, each: int | None = None) -> list[Fold]:
    """Cut every class into five; learn all other images, or so many of them."""
    place = torch.zeros_like(labels)
    for label in labels.unique().tolist():
        own = torch.nonzero(labels == label)[:, 0]
        order = np.random.default_rng(label).permutation(len(own))
        place[own[torch.from_numpy(order)]] = torch.arange(len(own))
    found = []
    for fold in range(FOLDS):
        asked = torch.nonzero(place % FOLDS == fold)[:, 0]
        rest = (place - fold - 1) % EACH  # those after the fold's first come first
        chosen = place % FOLDS != fold
        if each is not None:
            chosen &= rest < each * FOLDS // (FOLDS - 1)
        found.append(Fold(labels, torch.nonzero(chosen)[:, 0], asked))
    return found


def solved(features: Tensor, labels: Tensor, classes: int, ridge: float = 1.0) -> Mixture:
    """Return the analytic head of these features, its ridge multiplied."""
    moments = Moments.empty(features.shape[1]).grown(classes)
    moments.add(features, labels)
    scatter = Scatter.of(moments)
    spectrum = Spectrum.of(scatter)
    chosen = choose_ridge(scatter, spectrum) * scatter.inequality * ridge
    return Mixture.of(Discriminant.of(scatter, spectrum, chosen))


def logits(mixture: Mixture, features: Tensor) -> Tensor:
    discriminant = mixture.discriminant
    return mixture.logits(
        discriminant.outputs(features), discriminant.lengths, discriminant.scatter.counts
    )


def analytic(features: Tensor, ridge: float = 1.0) -> Idea:
    def ask(fold: Fold) -> Tensor:
        mixture = solved(features[fold.learned], fold.own, fold.classes, ridge)
        return logits(mixture, features[fold.asked])

    return ask


def with_more(features: Tensor, *others: Tensor) -> Idea:
    """Learn other views of the same images too."""

    def ask(fold: Fold) -> Tensor:
        views = torch.cat([view[fold.learned] for view in (features, *others)])
        labels = fold.own.repeat(1 + len(others))
        return logits(solved(views, labels, fold.classes), features[fold.asked])

    return ask


def together(*ideas: Idea) -> Idea:
    return lambda fold: torch.stack([idea(fold) for idea in ideas]).mean(0)


def voted(*ideas: Idea) -> Idea:
    """Add the logits of several heads, those of each image brought to one mean and spread."""

    def ask(fold: Fold) -> Tensor:
        found = [idea(fold) for idea in ideas]
        return torch.stack(
            [(x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True) for x in found]
        ).sum(0)

    return ask


def closed_form(method: str, features: Tensor, backbone: Encoder, **options: Any) -> Idea:
    """Another method's head on these features, with the settings of the field's table."""

    def ask(fold: Fold) -> Tensor:
        given = {**settings("quickdraw", method).options, "depths": 4, **options}
        learner = build_learner(method, given, backbone, nullcontext)
        assert isinstance(learner, ClosedForm)
        learner.begin_task(fold.classes, (0, 0))
        learner.learn(features[fold.learned], fold.own, (0, 0))
        return learner.outputs(features[fold.asked])

    return ask


def kernel(features: Tensor, gamma: float, ridge: float) -> Idea:
    """Ridge regression in the space of a Gaussian kernel, which random features approach."""

    def ask(fold: Fold) -> Tensor:
        x, asked = features[fold.learned], features[fold.asked]
        squares = torch.cdist(x, x).square()
        scale = gamma / squares.median()
        system = torch.exp(-scale * squares)
        system.diagonal().add_(ridge)
        targets = F.one_hot(fold.own, fold.classes).double() - 1 / fold.classes
        return torch.exp(-scale * torch.cdist(asked, x).square()) @ torch.linalg.solve(
            system, targets
        )

    return ask


def clusters(features: Tensor, count: int) -> Idea:
    """Divide every class into clusters, and take the best of a class's."""

    def ask(fold: Fold) -> Tensor:
        x, parts = features[fold.learned], torch.empty_like(fold.own)
        for label in range(fold.classes):
            own = fold.own == label
            parts[own] = label * count + nearest(x[own], count)
        there, places = parts.unique(return_inverse=True)
        found = logits(solved(x, places, len(there)), features[fold.asked])
        best = [found[:, there // count == label].logsumexp(1) for label in range(fold.classes)]
        return torch.stack(best, 1)

    return ask


def nearest(x: Tensor, count: int) -> Tensor:
    """Return the number of each row's cluster (k-means)."""
    draw = torch.Generator().manual_seed(0)
    centres = x[torch.randperm(len(x), generator=draw)[:count]]
    for _ in range(20):
        found = torch.cdist(x, centres).argmin(1)
        centres = torch.stack(
            [
                x[found == one].mean(0) if (found == one).any() else centres[one]
                for one in range(count)
            ]
        )
    return found


def without(idea: Idea, part: Idea, other: Idea) -> Idea:
    """An idea that is a sum, with one part of it replaced by another."""
    return lambda fold: idea(fold) - part(fold) + other(fold)


def shapes(features: Tensor, backbone: Encoder, **options: Any) -> Idea:
    """The method that was kept, by its own code; features are those it reads, unfaded."""

    def ask(fold: Fold) -> Tensor:
        learner = build_learner("shapes", options, backbone, nullcontext)
        assert isinstance(learner, ClosedForm)
        learner.begin_task(fold.classes, (0, 0))
        learner.learn(features[fold.learned], fold.own, (0, 0))
        return learner.logits(features[fold.asked])

    return ask
