"""AnaCP: a projection to class prototypes that were moved apart (Momeni, Xiao and Liu, 2025).

Ridge regression on random features draws images to the prototype of their class (Eq. 9), and the
prototypes away from each other (Eq. 11 to 16). Since that projection changes with every task, the
classifier behind it is solved anew on samples of the classes' Gaussians (docs/methods.md).
"""

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count, Positive
from ovor.learners.closed_form import ClosedForm, FrozenOptions, by_rows
from ovor.learners.klda import within
from ovor.learners.moments import MOMENTS, Moments
from ovor.learners.ranpac import ridge_solution
from ovor.seeds import NOISE, WEIGHTS, generator

LEAST = 1e-4  # added to the variances of features of length 1, so that they have an inverse


@dataclass(frozen=True, config=STRICT)
class AnaCpOptions(FrozenOptions):
    projection: Count = 5000
    """random features that each contrastive projection is solved on"""
    heads: Count = 3
    """contrastive projections, of other random features each, whose mean is taken"""
    classifier: Count = 5000
    """random features of what was projected, that the classifier is solved on"""
    separation: Annotated[float, Field(ge=0)] = 1.0
    """how far each prototype is moved from the others (the paper's alpha), in standard deviations
    of images around their class means; 0 leaves the class means"""
    ridge: Positive = 100.0
    """of both regressions, the paper's lambda"""
    samples: Count = 100
    """of each class's Gaussian, for the classifier"""


class AnaCp(ClosedForm):
    Options: ClassVar[type] = AnaCpOptions
    kept = ("weights", "contrast", "gram", "cross", "lifting", "relifting")
    weights: Tensor  # M', classes
    contrast: Tensor  # heads, M, D
    gram: Tensor  # heads, M, M: sum of h h^T
    cross: Tensor  # heads, M, classes: sum of h y^T
    lifting: Tensor  # heads, D, M
    relifting: Tensor  # D, M'

    def begin(self, seed: tuple[int, ...]) -> None:
        options, draw = self.options, generator(*seed, WEIGHTS)
        heads, wide = options.heads, options.projection
        self.lifting = torch.randn(heads, self.width, wide, generator=draw)
        self.relifting = torch.randn(self.width, options.classifier, generator=draw)
        self.moments = Moments.empty(self.width)
        self.gram = torch.zeros(heads, wide, wide, dtype=torch.double)
        self.contrast = self.gram.new_zeros(heads, wide, self.width)
        self.cross = self.gram.new_zeros(heads, wide, 0)
        self.weights = self.gram.new_zeros(options.classifier, 0)

    def widen(self, classes: int) -> None:
        self.moments = self.moments.grown(classes)
        self.cross, self.weights = (
            torch.cat([old, old.new_zeros(*old.shape[:-1], classes)], -1)
            for old in (self.cross, self.weights)
        )

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        x = F.normalize(features)
        self.moments.add(x, labels)
        means = self.moments.sums / self.moments.counts.clamp(min=1)[:, None]
        prototypes = apart(means, within(self.moments), self.options.separation)
        for lifting, contrast, gram, cross in zip(
            self.lifting, self.contrast, self.gram, self.cross, strict=True
        ):
            h = lifted(x, lifting)
            gram.addmm_(h.T, h)
            cross.index_add_(1, labels, h.T)
            contrast.copy_(ridge_solution(gram, cross @ prototypes, self.options.ridge))
        self.classify(means, generator(*seed, NOISE))

    def classify(self, means: Tensor, draw: torch.Generator) -> None:
        """Solve the classifier behind the projection, on samples of every class."""
        x, labels = self.sample(means, draw)
        h, y = self.hidden(x), F.one_hot(labels, len(means)).double()
        self.weights = by_rows(ridge_solution(h.T @ h, h.T @ y, self.options.ridge))

    def sample(self, means: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw features of all classes: around their means, with one covariance."""
        labels = torch.arange(len(means)).repeat_interleave(self.options.samples)
        noise = torch.randn(len(labels), self.width, dtype=torch.double, generator=draw)
        return means[labels] + noise @ root(within(self.moments)).T, labels

    def hidden(self, x: Tensor) -> Tensor:
        """Return what the classifier sees of features of length 1, by the mean of all heads."""
        heads = zip(self.lifting, self.contrast, strict=True)
        projected = torch.stack([lifted(x, lifting) @ contrast for lifting, contrast in heads])
        return lifted(projected.mean(0), self.relifting)

    def outputs(self, features: Tensor) -> Tensor:
        return self.hidden(F.normalize(features)) @ self.weights

    def learned_state(self) -> dict[str, Tensor]:
        return super().learned_state() | self.moments.state()

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        rest = dict(state)
        self.moments = Moments.of_state({name: rest.pop(name) for name in MOMENTS})
        super().load_learned_state(rest)


def lifted(features: Tensor, directions: Tensor) -> Tensor:
    """Return random features: random directions and a GELU."""
    found = features @ directions.to(features.dtype)
    if torch.compiler.is_exporting():  # onnxruntime has no error function in double precision
        return F.gelu(found.float()).to(found.dtype)
    return F.gelu(found)


def apart(means: Tensor, covariance: Tensor, far: float) -> Tensor:
    """Return prototypes: class means (C, D), moved so that they are less alike.

    In the space in which images of a class vary alike in all directions (Eq. 11), the means are
    U S V^T (Eq. 12), and class c moves by `far` along its row of U V^T; then back (Eq. 16).
    """
    values, vectors = torch.linalg.eigh(covariance)
    deviations = (values.clamp(min=0) + LEAST).sqrt()
    white = means @ vectors / deviations
    left, lengths, right = torch.linalg.svd(white, full_matrices=False)
    # Where there is no singular value, no direction is made up for it.
    there = lengths > lengths.amax() * max(white.shape) * torch.finfo(lengths.dtype).eps
    steps = (left * there) @ right
    moved = white + far * sides(white, steps)[:, None] * steps
    found: Tensor = moved * deviations @ vectors.T
    return found


def sides(means: Tensor, steps: Tensor) -> Tensor:
    """Return 1 or -1 for each class: to which side of its step its cosines with others shrink.

    The sign is that of minus the derivative of their absolute values' sum (Lemma 4.1, the paper's
    delta; 0 where there is none).
    """
    products, along = means @ means.T, steps @ means.T
    lengths = means.norm(dim=1).clamp(min=1e-12)
    signs = torch.where(products < 0, -1.0, 1.0)
    slopes = signs * along * lengths.square()[:, None] - along.diagonal()[:, None] * products.abs()
    total: Tensor = (slopes / lengths).fill_diagonal_(0).sum(1)
    return -total.sign()


def root(covariance: Tensor) -> Tensor:
    """Return a matrix whose product with its transpose is the covariance, singular or not."""
    values, vectors = torch.linalg.eigh(covariance)
    found: Tensor = vectors * values.clamp(min=0).sqrt()
    return found
