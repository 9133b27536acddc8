"""RanDumb: Mahalanobis distances to class means of random Fourier features (Prabhu et al., 2024).

One sample after the other updates means and a covariance, which is shrunk before it is inverted.
The paper's features are of pixels; those of a trained network it takes as they are.
"""

from typing import Annotated, ClassVar

from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Positive
from ovor.learners.closed_form import FrozenOptions
from ovor.learners.klda import Fourier, discriminants, within


@dataclass(frozen=True, config=STRICT)
class RanDumbOptions(FrozenOptions):
    projection: NonNegativeInt = 10_000
    """random Fourier features; 0: none, the network's own, as its authors do with a trained one"""
    gamma: Positive = 1.0
    """of the kernel exp(-gamma |x - y|^2), times 1 / (width x variance) of the first task's
    features"""
    ridge: Annotated[float, Field(ge=0)] = 0.0
    """added to the covariance, as in the paper; 0 shrinks it by the oracle approximation (OAS), as
    in the released code"""


class RanDumb(Fourier):
    Options: ClassVar[type] = RanDumbOptions

    def solve(self) -> tuple[Tensor, Tensor]:
        """Return the nearest mean by Mahalanobis distance as a linear head: x S^-1 x is common."""
        covariance = within(self.moments)
        if self.options.ridge:
            covariance.diagonal().add_(self.options.ridge)
        else:
            share = oracle_shrinkage(covariance, float(self.moments.images))
            level = covariance.diagonal().mean().clamp(min=1e-12)
            covariance = (1 - share) * covariance
            # With one image a class there is no scatter at all, and nothing to invert.
            covariance.diagonal().add_(max(share, 1e-9) * level)
        return discriminants(covariance, self.moments)


def oracle_shrinkage(covariance: Tensor, images: float) -> float:
    """Return how much of the identity to mix in (Chen et al., 2010, as scikit-learn has it)."""
    width = len(covariance)
    level = covariance.diagonal().mean()
    energy = covariance.square().mean()
    apart = (images + 1) * (energy - level.square() / width)
    share = (energy + level.square()) / apart
    return float(share.clamp(max=1.0)) if apart > 0 else 1.0
