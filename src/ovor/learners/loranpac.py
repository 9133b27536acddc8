"""LoRanPAC: least squares on the leading directions of a random projection (Peng et al., 2025).

As RanPAC, but what is kept of the second moment are its largest singular values and vectors: the
smallest, by which a solution blows up, are cut off after every task, and no ridge is chosen.
"""

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count
from ovor.learners.closed_form import ClosedForm, FrozenOptions, by_rows
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class LoRanPacOptions(FrozenOptions):
    projection: Count = 10_000
    """width of the random projection (the paper's E, which has 100,000)"""
    truncation: Annotated[float, Field(ge=0, lt=1)] = 0.25
    """of the singular values, how many are cut off: there are as many as images, or as the
    projection is wide"""
    rank: Count = 2000
    """singular vectors that are kept at most, for the memory's sake"""


class LoRanPac(ClosedForm):
    Options: ClassVar[type] = LoRanPacOptions
    kept = ("weights", "projection", "basis", "values", "sums", "images")
    weights: Tensor  # M, classes
    projection: Tensor  # D, M
    basis: Tensor  # M, k: left singular vectors of all projected images side by side
    values: Tensor  # k: their singular values
    sums: Tensor  # M, classes: sum of h y^T
    images: Tensor  # ()

    def begin(self, seed: tuple[int, ...]) -> None:
        width = self.options.projection
        self.projection = torch.randn(self.width, width, generator=generator(*seed, WEIGHTS))
        self.sums, self.weights = (torch.zeros(width, 0, dtype=torch.double) for _ in range(2))
        # As many columns as ever, zeros where there are no vectors yet: a file's shapes then say
        # nothing of the number of images.
        rank = min(self.options.rank, width)
        self.basis = torch.zeros(width, rank, dtype=torch.double)
        self.values = torch.zeros(rank, dtype=torch.double)
        self.images = torch.zeros((), dtype=torch.double)

    def widen(self, classes: int) -> None:
        new = self.sums.new_zeros(len(self.sums), classes)
        self.sums, self.weights = (torch.cat([old, new], 1) for old in (self.sums, self.weights))

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        h = self.project(features)
        self.sums.index_add_(1, labels, h.T)
        self.images = self.images + len(h)
        factors = min(float(self.images), len(self.basis))
        most = round((1 - self.options.truncation) * factors)
        there = int(self.values.count_nonzero())
        old = self.basis[:, :there] * self.values[:there]
        basis, values = leading(torch.cat([old, h.T], 1), max(1, min(most, len(self.values))))
        self.weights = by_rows(basis @ ((basis.T @ self.sums) / values.square()[:, None]))
        room = (0, len(self.values) - len(values))
        self.basis, self.values = by_rows(F.pad(basis, room)), F.pad(values, room)

    def project(self, features: Tensor) -> Tensor:
        return torch.relu(features @ self.projection.to(features.dtype))

    def outputs(self, features: Tensor) -> Tensor:
        return self.project(features) @ self.weights


def leading(columns: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the leading left singular vectors and singular values of columns (M, n).

    By the eigenvalues of the smaller of its two products, which takes a fraction of the time; what
    is lost in rounding by that is left out.
    """
    wide = columns.shape[1] > columns.shape[0]
    found, vectors = torch.linalg.eigh(columns @ columns.T if wide else columns.T @ columns)
    found, vectors = found.flip(0)[:most], vectors.flip(1)[:, :most]
    sound = found > found[0] * len(vectors) * torch.finfo(found.dtype).eps
    values, vectors = found[sound].sqrt(), vectors[:, sound]
    return vectors if wide else (columns @ vectors) / values, values
