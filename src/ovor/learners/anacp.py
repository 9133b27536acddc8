"""AnaCP: a projection to class prototypes that were moved apart (Momeni, Xiao and Liu, 2025).

Ridge regression on random features draws images to the prototype of their class, and the
prototypes away from each other. Since that projection changes with every task, the classifier
behind it is solved anew on samples of the classes' Gaussians (docs/methods.md).
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count, Fraction
from ovor.learners.closed_form import ClosedForm, FrozenOptions, by_rows
from ovor.learners.klda import within
from ovor.learners.moments import MOMENTS, Moments
from ovor.learners.ranpac import choose_ridge, ridge_solution
from ovor.seeds import NOISE, WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class AnaCpOptions(FrozenOptions):
    projection: Count = 5000
    """random features that the contrastive projection is solved on"""
    classifier: Count = 2000
    """random features of what was projected, that the classifier is solved on"""
    separation: Fraction = 0.5
    """how far the prototypes are moved apart: 0 leaves the class means, 1 makes all of them equally
    far from each other"""
    samples: Count = 100
    """of each class's Gaussian, for the classifier"""


class AnaCp(ClosedForm):
    Options: ClassVar[type] = AnaCpOptions
    kept = ("weights", "contrast", "gram", "cross", "lifting", "relifting")
    weights: Tensor  # M', classes
    contrast: Tensor  # M, D
    gram: Tensor  # M, M: sum of h h^T
    cross: Tensor  # M, classes: sum of h y^T
    lifting: Tensor  # D, M
    relifting: Tensor  # D, M'

    def begin(self, seed: tuple[int, ...]) -> None:
        options, draw = self.options, generator(*seed, WEIGHTS)
        self.lifting = torch.randn(self.width, options.projection, generator=draw)
        self.relifting = torch.randn(self.width, options.classifier, generator=draw)
        self.moments = Moments.empty(self.width)
        self.gram = torch.zeros(options.projection, options.projection, dtype=torch.double)
        self.contrast = self.gram.new_zeros(options.projection, self.width)
        self.cross = self.gram.new_zeros(options.projection, 0)
        self.weights = self.gram.new_zeros(options.classifier, 0)

    def make_room(self, classes: int) -> None:
        self.moments = self.moments.grown(classes)
        self.cross, self.weights = (
            torch.cat([old, old.new_zeros(len(old), classes)], 1)
            for old in (self.cross, self.weights)
        )

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        h = lifted(features, self.lifting)
        self.gram.addmm_(h.T, h)
        self.cross.index_add_(1, labels, h.T)
        self.moments.add(features, labels)
        means = self.moments.sums / self.moments.counts.clamp(min=1)[:, None]
        targets = apart(means, self.options.separation)
        order = torch.randperm(len(h), generator=generator(*seed, WEIGHTS, 2))
        ridge = choose_ridge(h[order], targets[labels][order])
        self.contrast = by_rows(ridge_solution(self.gram, self.cross @ targets, ridge))
        self.classify(means, generator(*seed, NOISE))

    def classify(self, means: Tensor, draw: torch.Generator) -> None:
        """Solve the classifier behind the projection, on samples of every class."""
        features, labels = self.sample(means, draw)
        h, y = self.hidden(features), F.one_hot(labels, len(means)).double()
        ridge = choose_ridge(h, y)
        self.weights = by_rows(ridge_solution(h.T @ h, h.T @ y, ridge))

    def sample(self, means: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw features of all classes, shuffled: around their means, with one covariance."""
        labels = torch.arange(len(means)).repeat_interleave(self.options.samples)
        labels = labels[torch.randperm(len(labels), generator=draw)]
        noise = torch.randn(len(labels), self.width, dtype=torch.double, generator=draw)
        return means[labels] + noise @ root(within(self.moments)).T, labels

    def hidden(self, features: Tensor) -> Tensor:
        """Return what the classifier sees of features."""
        projected = lifted(features, self.lifting) @ self.contrast
        return lifted(F.normalize(projected), self.relifting)

    def outputs(self, features: Tensor) -> Tensor:
        return self.hidden(features) @ self.weights

    def learned_state(self) -> dict[str, Tensor]:
        return super().learned_state() | self.moments.state()

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        rest = dict(state)
        self.moments = Moments.of_state({name: rest.pop(name) for name in MOMENTS})
        super().load_learned_state(rest)


def lifted(features: Tensor, directions: Tensor) -> Tensor:
    """Return random features: random directions and a ReLU."""
    return torch.relu(features @ directions.to(features.dtype))


def apart(means: Tensor, share: float) -> Tensor:
    """Return prototypes that differ from each other more evenly than class means do.

    The means' singular values, around their centre, are moved to their average by this share.
    """
    centre = means.mean(0)
    left, values, right = torch.linalg.svd(means - centre, full_matrices=False)
    # One of them is zero, as the centre was taken out: no direction is made up for it.
    there = values > values.amax() * len(means) * torch.finfo(values.dtype).eps
    level = values[there].mean() if there.any() else values.new_zeros(())
    values = torch.where(there, (1 - share) * values + share * level, values)
    moved: Tensor = centre + (left * values) @ right
    return moved


def root(covariance: Tensor) -> Tensor:
    """Return a matrix whose product with its transpose is the covariance, singular or not."""
    values, vectors = torch.linalg.eigh(covariance)
    found: Tensor = vectors * values.clamp(min=0).sqrt()
    return found
