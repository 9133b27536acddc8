"""FeCAM: Mahalanobis distances by the covariance of each class (Goswami et al., 2023).

Classes differ in shape as well as in place. A covariance of few images is shrunk, and made a
correlation so that distances of different classes can be compared.
"""

from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT
from ovor.encoders.base import Encoder
from ovor.errors import OvorError
from ovor.learners.base import Autocast
from ovor.learners.closed_form import ClosedForm, FrozenOptions

Weight = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=STRICT)
class FecamOptions(FrozenOptions):
    covariance: Literal["class", "shared"] = "class"
    """of each class, or one for all"""
    tukey: Annotated[float, Field(gt=0, le=1)] = 1.0
    """power that features are raised to, their signs kept, which makes them more Gaussian; 1 leaves
    them, as the authors do with a ViT, 0.5 is theirs for features that a ReLU ends"""
    variance: Weight = 1.0
    """shrinkage: how much of the mean variance is added to the diagonal (gamma_1)"""
    correlation: Weight = 0.0
    """shrinkage: how much of the mean covariance is added beside the diagonal (gamma_2)"""
    normalize: bool = True
    """divide by the standard deviations, so that a correlation is left"""


class Fecam(ClosedForm):
    Options: ClassVar[type] = FecamOptions
    kept = ("counts", "sums", "seconds")
    counts: Tensor  # classes
    sums: Tensor  # classes, D
    seconds: Tensor  # classes, D, D: sums of x x^T; of all classes together, where they share one
    roots: Tensor  # classes or 1, D, D: factors of the inverses, which follow from these

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.shared = options.covariance == "shared"

    def begin(self, seed: tuple[int, ...]) -> None:
        width = self.width
        shapes = ((0,), (0, width), (int(self.shared), width, width))
        self.counts, self.sums, self.seconds = (
            torch.zeros(shape, dtype=torch.double) for shape in shapes
        )

    def widen(self, classes: int) -> None:
        self.counts = more_rows(self.counts, classes)
        self.sums = more_rows(self.sums, classes)
        self.seconds = more_rows(self.seconds, 0 if self.shared else classes)
        self.roots = torch.zeros_like(self.seconds)

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        x = self.transformed(features)
        self.counts.index_add_(0, labels, torch.ones(len(x), dtype=torch.double))
        self.sums.index_add_(0, labels, x)
        if self.shared:
            self.seconds[0].addmm_(x.T, x)
        else:
            for label in sorted(set(labels.tolist())):
                own = x[labels == label]
                self.seconds[label].addmm_(own.T, own)
        self.invert()

    def transformed(self, features: Tensor) -> Tensor:
        """Return features after Tukey's ladder of powers, of length 1."""
        if self.options.tukey != 1:
            features = features.sign() * features.abs().pow(self.options.tukey)
        return F.normalize(features)

    def invert(self) -> None:
        """Compute the factors of the inverse covariances from the sums."""
        counts = self.counts.clamp(min=1)
        if self.shared:
            scatter = self.seconds[0] - (self.sums.T / counts) @ self.sums
            scatters = [(scatter, float(self.counts.sum() - len(self.counts)))]
        else:
            products = zip(self.seconds, self.sums, counts, strict=True)
            scatters = [(s - torch.outer(x, x) / n, float(n) - 1) for s, x, n in products]
        covariances = (self.shrunk(scatter / max(1.0, freedom)) for scatter, freedom in scatters)
        self.roots = torch.stack([inverse_root(found) for found in covariances])

    def shrunk(self, covariance: Tensor) -> Tensor:
        """Return a covariance shrunk and, if so wanted, as a correlation."""
        variances = covariance.diagonal()
        level, width = variances.mean(), len(covariance)
        across = (covariance.sum() - variances.sum()) / max(1, width * (width - 1))
        added: Tensor = self.options.correlation * across
        found = covariance + added
        # What one image leaves is no covariance: the floor gives distances as in a sphere then.
        found.diagonal().add_((self.options.variance * level).clamp(min=1e-9) - added)
        if not self.options.normalize:
            return found
        deviations = found.diagonal().sqrt()
        return found / torch.outer(deviations, deviations)

    def outputs(self, features: Tensor) -> Tensor:
        x = self.transformed(features)
        means = self.sums / self.counts.clamp(min=1)[:, None]
        if self.shared:
            distances = torch.cdist(x @ self.roots[0], means @ self.roots[0]).square()
        else:
            distances = ((x - means[:, None]) @ self.roots).square().sum(2).T  # n, classes
        return -distances

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        super().load_learned_state(state)
        if self.counts.any():
            self.invert()


def inverse_root(covariance: Tensor) -> Tensor:
    """Return R with R R^T the inverse of a covariance; refuse one that has none."""
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise OvorError(
            "The covariance of a class cannot be inverted: it has too few images for so little "
            "shrinkage, or too large a --method.correlation. Choose a larger --method.variance."
        )
    eye = torch.eye(len(factor), dtype=factor.dtype)
    inverse: Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
    return inverse.T


def more_rows(rows: Tensor, count: int) -> Tensor:
    """Return rows and so many of zeros."""
    return torch.cat([rows, rows.new_zeros(count, *rows.shape[1:])])
