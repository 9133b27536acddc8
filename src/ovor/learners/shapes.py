"""Shapes: the analytic head of means and deviations, and distances by each class's own shape.

Exact sums again, so that order, cut and returning images do not matter: those of `analytic`, also
of how much the places of an image differ, and for every class a second moment of its own, of the
last depth (docs/shapes.md).
"""

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count, Positive
from ovor.encoders.base import Encoder
from ovor.learners.analytic import depths_read, linear_head
from ovor.learners.base import Autocast
from ovor.learners.closed_form import LiftedMoments, by_rows
from ovor.learners.discriminant import (
    SMALL_CLASS,
    Discriminant,
    Mixture,
    Scatter,
    Spectrum,
    choose_ridge,
)
from ovor.learners.fecam import inverse_root, more_rows
from ovor.learners.first_task import TunedOptions
from ovor.learners.moments import rounded

RIDGE = 1e-3  # of the mean variance, in the covariance that classes share


@dataclass(frozen=True, config=STRICT)
class ShapesOptions(TunedOptions):
    depths: Count = 4
    """depths of the network that are read, from its middle to its end"""
    widest: NonNegativeInt = 4608
    """fewer depths are read where they would be wider than this together, 0 for never"""
    fading: Annotated[float, Field(gt=0, le=1)] = 0.7
    """of the last depth's length, how much the one before it has, and so on"""
    shape: NonNegativeInt = 384
    """numbers of the last depth in which a class's shape is measured, of which it keeps half of the
    square; where that depth is wider, shapes say nothing"""
    trust: Positive = 300.0
    """images of a class from which on its own covariance counts more than that of all classes"""
    weight: Annotated[float, Field(ge=0)] = 0.06
    """of the squared distances by shape, beside the analytic logits, whose spread is 1"""


class Shapes(LiftedMoments):
    Options: ClassVar[type] = ShapesOptions
    kept = ("weights", "bias", "centres", "seconds")
    lengths: Tensor  # read: of each feature
    centres: Tensor  # classes, r: sums of z
    seconds: Tensor  # classes, r (r + 1) / 2: sums of z z^T, the symmetric matrix once
    roots: Tensor  # classes, r, r: factors of the inverse covariances, which follow from these

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.read = depths_read(options, backbone.spread_widths)
        widths = [backbone.spread_widths[depth] for depth in self.read]
        fading = [options.fading**before for before in reversed(range(len(widths)))]
        parts = [torch.full((w,), length) for w, length in zip(widths, fading, strict=True)]
        self.lengths = torch.cat(parts).double()
        self.width, self.last = sum(widths), widths[-1]
        last = backbone.widths[self.read[-1]]
        self.across = last if last <= options.shape else 0  # numbers of a shape: r
        self.upper = torch.triu_indices(self.across, self.across)
        self.influence = 0.0  # how much shapes count
        self.chance = torch.zeros(0, dtype=torch.double)  # of each class, added to its logit

    def lifted_width(self) -> int:
        return self.width

    def lift(self, features: Tensor) -> Tensor:
        return features * self.lengths

    def features(self, images: Tensor) -> Tensor:
        with self.autocast():
            return self.network.spreads(images, self.read)

    def profile(self, features: Tensor) -> Tensor:
        """Return what shapes are measured in: the last depth without its deviations (n, r)."""
        return features[:, -self.last :][:, : self.across]

    def begin(self, seed: tuple[int, ...]) -> None:
        super().begin(seed)
        self.centres = torch.zeros(0, self.across, dtype=torch.double)
        self.seconds = torch.zeros(0, self.upper.shape[1], dtype=torch.double)

    def widen(self, classes: int) -> None:
        super().widen(classes)
        self.centres, self.seconds = (
            more_rows(rows, classes) for rows in (self.centres, self.seconds)
        )
        self.roots = self.centres.new_zeros(len(self.centres), self.across, self.across)
        self.chance = self.centres.new_zeros(len(self.centres))

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        """Take in features; on the grid of `rounded` all sums are exact."""
        self.moments.add(rounded(self.lift(features)), labels)
        profiles = rounded(self.profile(features))
        self.centres.index_add_(0, labels, profiles)
        for label in sorted(set(labels.tolist())):
            own = profiles[labels == label]
            self.seconds[label] += (own.T @ own)[self.upper[0], self.upper[1]]
        weights, self.bias = self.solve()
        self.weights = by_rows(weights)
        self.invert()

    def solve(self) -> tuple[Tensor, Tensor]:
        scatter = Scatter.of(self.moments)
        spectrum = Spectrum.of(scatter)
        ridge = choose_ridge(scatter, spectrum) * scatter.inequality
        return linear_head(Mixture.of(Discriminant.of(scatter, spectrum, ridge)))

    def invert(self) -> None:
        """Compute the factors of the classes' inverse covariances from the sums.

        A class's covariance is its own and that of all classes, mixed by how many images it has
        (regularised discriminant analysis, Friedman 1989). With fewer images than dimensions no
        covariance is known, and shapes say nothing.

        A mean of n images misses its class by 1 / n of a squared distance by chance, which is r of
        the true covariance and r / (1 - r / freedom) of one that was estimated. That is added back,
        or small classes would be chosen too seldom.
        """
        counts, scatters = self.moments.counts, self.scatters()
        freedom = float((counts.sum() - len(counts)).clamp(min=1))
        self.influence = self.options.weight * max(0.0, 1 - self.across / freedom)
        expected = self.across if self.influence else 0
        self.chance = self.options.weight / 2 * expected / (counts + SMALL_CLASS)
        common = scatters.sum(0) / freedom
        common.diagonal().add_(RIDGE * common.diagonal().mean().clamp(min=1e-6))
        own = scatters / (counts - 1).clamp(min=1)[:, None, None]
        share = (counts / (counts + self.options.trust))[:, None, None]
        self.roots = torch.stack([inverse_root(m) for m in (1 - share) * common + share * own])

    def scatters(self) -> Tensor:
        """Return how the images of each class scatter around their mean (classes, r, r)."""
        full = torch.zeros_like(self.roots)
        full[:, self.upper[0], self.upper[1]] = self.seconds
        full[:, self.upper[1], self.upper[0]] = self.seconds
        means = self.centres / self.moments.counts[:, None]
        return full - self.centres[:, :, None] * means[:, None]

    def outputs(self, features: Tensor) -> Tensor:
        means = self.centres / self.moments.counts.clamp(min=1)[:, None]
        apart = self.profile(features) - means[:, None]  # classes, n, r
        distances = (apart @ self.roots).square().sum(2).T
        found: Tensor = super().outputs(features) - self.influence / 2 * distances + self.chance
        return found

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        super().load_learned_state(state)
        if self.moments.counts.all():
            self.invert()
