"""KLDA: discriminant analysis of random Fourier features (Momeni, Mazumder and Liu, 2025).

Class means and one covariance that all classes share; a class is a Gaussian in the space of an RBF
kernel.
"""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count, Positive
from ovor.learners.closed_form import FrozenOptions, LiftedMoments
from ovor.learners.fourier import draw_waves, usual_gamma, waves
from ovor.learners.moments import Moments
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class KldaOptions(FrozenOptions):
    projection: Count = 5000
    """random Fourier features (the paper's D)"""
    gamma: Positive = 1.0
    """of the kernel exp(-gamma |x - y|^2), times 1 / (width x variance) of the first task's
    features"""
    ridge: Positive = 1e-4
    """added to the covariance, times its mean variance, so that it has an inverse"""


class Fourier(LiftedMoments):
    """Keeps sums of random Fourier features, whose kernel is as wide as the first task says."""

    kept = ("weights", "bias", "directions", "phases", "gamma")
    directions: Tensor  # D, M
    phases: Tensor  # M
    gamma: Tensor  # ()

    def lifted_width(self) -> int:
        return self.options.projection or self.width

    def begin(self, seed: tuple[int, ...]) -> None:
        super().begin(seed)
        draw = generator(*seed, WEIGHTS)
        self.directions, self.phases = draw_waves(self.width, self.options.projection, draw)
        self.gamma = torch.ones((), dtype=torch.double)

    def lift(self, features: Tensor) -> Tensor:
        if not self.options.projection:
            return features
        return waves(features, self.gamma, self.directions, self.phases)

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        if not self.moments.images:
            self.gamma = self.options.gamma * usual_gamma(features)
        super().learn(features, labels, seed)


class Klda(Fourier):
    Options: ClassVar[type] = KldaOptions

    def solve(self) -> tuple[Tensor, Tensor]:
        scatter = within(self.moments)
        scatter.diagonal().add_(self.options.ridge * scatter.diagonal().mean().clamp(min=1e-12))
        return discriminants(scatter, self.moments)


def within(moments: Moments) -> Tensor:
    """Return the covariance of images around the means of their classes.

    From its upper half: that is what files keep, and rounding may differ in the lower one.
    """
    between = (moments.sums.T / moments.counts.clamp(min=1)) @ moments.sums
    upper = ((moments.second - between) / moments.images).triu()
    return upper + upper.triu(1).T


def discriminants(covariance: Tensor, moments: Moments) -> tuple[Tensor, Tensor]:
    """Return S^-1 mu_c and -mu_c S^-1 mu_c / 2: the log-densities, less what all have in common.

    Divided by their number of dimensions: the densities of thousands would be sure of everything.
    """
    means = moments.sums / moments.counts.clamp(min=1)[:, None]
    weights = torch.cholesky_solve(means.T, torch.linalg.cholesky(covariance)) / len(covariance)
    return weights, -(means.T * weights).sum(0) / 2
