"""Exact memory: class sums of a frozen network's features, and the head that follows from them.

One pass over the images, no gradient. What is learned is the same whatever the order and the cut
of the tasks: classes may come back with more images, and sums of several models may be added.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count, Npos
from ovor.data.batches import Batches
from ovor.encoders.base import Encoder
from ovor.learners.base import Autocast
from ovor.learners.discriminant import Discriminant, Mixture, Scatter, Spectrum, choose_ridge
from ovor.learners.first_task import MayTune, TunedOptions, check_finite
from ovor.learners.moments import MOMENTS, Moments, rounded_weights
from ovor.outliers import synthesize
from ovor.seeds import NOISE, WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class AnalyticOptions(TunedOptions):
    depths: Count = 4
    """depths of the network that are read, from its middle to its end"""
    widest: NonNegativeInt = 0
    """fewer depths are read where they would be wider than this together, 0 for never; the time to
    solve for a head grows with the cube of it"""
    fading: Annotated[float, Field(gt=0, le=1)] = 1.0
    """of the last depth's length, how much the one before it has, and so on: with few images of a
    class the last one can be trusted most, with many it hardly matters"""
    projection: NonNegativeInt = 0
    """width of a random projection of the features (RanPAC's), 0 for none"""
    outliers: Annotated[float, Field(ge=0)] = 0.0
    """weight of virtual outliers in the closed form, 0 for none; with them order matters"""


class Analytic(MayTune):
    """Class sums in double precision, and the head that was last solved from them."""

    Options: ClassVar[type] = AnalyticOptions
    lengths: Tensor  # read: of each feature
    projection: Tensor  # read, M

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.read = depths_read(options, backbone.widths)
        widths = [backbone.widths[depth] for depth in self.read]
        read = sum(widths)
        lengths = [options.fading**before for before in reversed(range(len(widths)))]
        spread = [torch.full((w,), length) for w, length in zip(widths, lengths, strict=True)]
        self.register_buffer("lengths", torch.cat(spread), False)
        # Sums and head stay on the CPU, in double precision, which not every device has.
        self.moments = Moments.empty(options.projection or read)
        self.outliers = Moments.empty(self.moments.width).grown(1) if options.outliers else None
        if options.projection:  # the same for everybody, so that sums can be added
            draw = generator(WEIGHTS, read, options.projection)
            directions = torch.randn(read, options.projection, generator=draw) / read**0.5
            self.register_buffer("projection", directions, persistent=False)
        self.start = 0
        self.set_head(torch.zeros(self.moments.width, 0).double(), torch.zeros(0).double())

    def make_room(self, classes: int, seed: tuple[int, ...]) -> None:
        self.start = len(self.moments.counts)
        self.moments = self.moments.grown(classes)
        new = self.weights.new_zeros(self.moments.width, classes)
        self.set_head(torch.cat([self.weights, new], 1), torch.cat([self.bias, new[0]]))

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.requires_grad_(False)
        kept: list[Tensor] = []
        for features, labels in images.encoded(self.features):
            check_finite(features)
            self.moments.add(features, labels.cpu() + self.start)
            if self.outliers is not None:
                kept.append(features)
        if kept:
            self.add_outliers(torch.cat(kept), seed)
        self.solve()

    def add_outliers(self, features: Tensor, seed: tuple[int, ...]) -> None:
        """Make outliers of a task (Alg. 2) and sum them up, to weigh as much as the images."""
        classes = len(self.moments.counts) - self.start
        npos = Npos(k=max(1, min(Npos().k, len(features) - 1)))
        found = synthesize(features, max(1, classes), npos, generator(*seed, NOISE))
        weights = rounded_weights(torch.full((len(found),), len(features) / len(found)))
        assert self.outliers is not None
        self.outliers.add(found, torch.zeros(len(found), dtype=torch.int64), weights)

    def solve(self) -> Mixture:
        """Compute the head from the sums, and return what it was computed by."""
        scatter = Scatter.of(self.moments)
        if self.outliers is not None:  # features that no class should claim: more scatter for all
            around = self.outliers.around(scatter.centre)
            scatter.within.add_(around, alpha=self.options.outliers)
        spectrum = Spectrum.of(scatter)
        # Cross-validation goes by the average class; where there are smaller ones, more is needed.
        ridge = choose_ridge(scatter, spectrum) * scatter.inequality
        mixture = Mixture.of(Discriminant.of(scatter, spectrum, ridge))
        self.set_head(*linear_head(mixture))
        return mixture

    def set_head(self, weights: Tensor, bias: Tensor) -> None:
        """Predict by these weights (p, C) and these constants (C) from now on."""
        self.weights, self.bias = weights.contiguous(), bias

    def features(self, images: Tensor) -> Tensor:
        with self.autocast():
            found = self.network.depths(images, self.read) * self.lengths
        return torch.relu(found @ self.projection) if self.options.projection else found

    def logits(self, features: Tensor) -> Tensor:
        found = features.to(self.weights.device, torch.double) @ self.weights + self.bias
        if features.device.type == "mps":  # which has no double precision
            found = found.float()
        return found.to(features.device)

    def current_logits(self, features: Tensor) -> Tensor:
        return self.logits(features)[:, self.start :]

    def learned_state(self) -> dict[str, Tensor]:
        own = self.moments.state() | {"weights": self.weights, "bias": self.bias}
        if self.outliers is not None:
            own |= {f"outliers.{name}": x for name, x in self.outliers.state().items()}
        return super().learned_state() | own

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        rest = dict(state)
        self.moments = Moments.of_state({name: rest.pop(name) for name in MOMENTS})
        self.set_head(rest.pop("weights"), rest.pop("bias"))
        if self.outliers is not None:
            own = {name: rest.pop(f"outliers.{name}") for name in MOMENTS}
            self.outliers = Moments.of_state(own)
        super().load_learned_state(rest)


def linear_head(mixture: Mixture) -> tuple[Tensor, Tensor]:
    """Return the weights (p, C) and constants (C) by which features become a mixture's logits."""
    discriminant, scatter = mixture.discriminant, mixture.discriminant.scatter
    weights = discriminant.weights @ mixture.mixing
    zero = torch.zeros(1, scatter.classes, dtype=torch.double)
    bias = mixture.logits(zero, discriminant.lengths, scatter.counts)[0]
    return weights, bias - scatter.centre @ weights


def depths_read(options: AnalyticOptions, widths: Sequence[int]) -> list[int]:
    """Return the depths to read of a network: as many as wanted, or as are not too wide."""
    for wanted in range(options.depths, 1, -1):
        found = depths_at(wanted, len(widths))
        if not options.widest or sum(widths[depth] for depth in found) <= options.widest:
            return found
    return depths_at(1, len(widths))


def depths_at(wanted: int, there: int) -> list[int]:
    """Return so many depths of those that are there, evenly from the middle to the last."""
    shares = [0.5 + 0.5 * at / (wanted - 1) for at in range(wanted)] if wanted > 1 else [1.0]
    return sorted({max(1, round(share * there)) - 1 for share in shares})
