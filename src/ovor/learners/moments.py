"""Exact class sums: all that is kept of the images, whatever their order and however many.

Features are rounded to steps of 1/32 and weights to 1/256. Sums of such numbers have no rounding
error in double precision (up to some 10^9 images), so that adding in any order, taking back and
merging give the same bits, and a file can hold them as whole numbers.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

FEATURE_STEPS, WEIGHT_STEPS = 32, 256  # of 1: a step is far below what images of a class differ by
MOMENTS = ("counts", "sums", "second", "gone")
AT_ONCE = 2048  # rows of a product: enough for speed, little memory


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts and feature sums of every class, and one second moment of all images."""

    counts: Tensor  # C: images of each class, or the sum of their weights
    sums: Tensor  # C, p
    second: Tensor  # p, p: the sum of phi phi^T over all images
    gone: Tensor  # 2: classes that were dropped without their images, and how many images those had

    @classmethod
    def empty(cls, width: int) -> "Moments":
        """Return the sums over no image."""
        shapes = ((0,), (0, width), (width, width), (2,))
        return cls(*(torch.zeros(shape, dtype=torch.double) for shape in shapes))

    @property
    def width(self) -> int:
        return self.sums.shape[1]

    @property
    def images(self) -> Tensor:
        """How many images the second moment is from, classes that are gone included."""
        return self.counts.sum() + self.gone[1]

    def grown(self, classes: int) -> "Moments":
        """Return the same with room for more classes, of which no image is known."""
        return replace(
            self,
            counts=torch.cat([self.counts, self.counts.new_zeros(classes)]),
            sums=torch.cat([self.sums, self.sums.new_zeros(classes, self.width)]),
        )

    def add(self, features: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add images, in place; negative weights take them back.

        Features in double precision are taken to be rounded already, as `rounded` returns them.
        """
        x = rounded(features) if features.dtype != torch.double else features
        w = torch.ones(len(x), dtype=torch.double) if weights is None else weights
        weighted = x if weights is None else x * w[:, None]
        self.counts.index_add_(0, labels, w)
        self.sums.index_add_(0, labels, weighted)
        for rows, others in zip(
            torch.split(x, AT_ONCE), torch.split(weighted, AT_ONCE), strict=True
        ):
            add_product(self.second, rows, others)

    def plus(self, other: "Moments", rows: Tensor) -> "Moments":
        """Return the sums of both; class i of the other is class rows[i] here."""
        return Moments(
            self.counts.index_add(0, rows, other.counts),
            self.sums.index_add(0, rows, other.sums),
            self.second + other.second,
            self.gone + other.gone,
        )

    def around(self, centre: Tensor) -> Tensor:
        """Return the second moment as seen from another point than zero."""
        across = torch.outer(self.sums.sum(0), centre)
        return self.second - across - across.T + self.images * torch.outer(centre, centre)

    def copy(self) -> "Moments":
        """Return sums that may be changed without changing these."""
        return Moments(*(x.clone() for x in (self.counts, self.sums, self.second, self.gone)))

    def without(self, row: int) -> "Moments":
        """Return the same without a class; how its images scatter around their mean stays.

        Its share of the second moment cannot be told from that of others. The part that its mean
        has in it can, and goes (rounded to a step, so that the sums stay exact).
        """
        count, own = self.counts[row], self.sums[row]
        if not count:  # taken back image by image: nothing is left of it
            return replace(self, counts=drop(self.counts, row), sums=drop(self.sums, row))
        steps = FEATURE_STEPS**2 * WEIGHT_STEPS
        share = (torch.outer(own, own) / count * steps).round() / steps
        gone = self.gone + torch.stack([torch.ones_like(count), count])
        return Moments(drop(self.counts, row), drop(self.sums, row), self.second - share, gone)

    def state(self) -> dict[str, Tensor]:
        """Return the numbers by name, the symmetric matrix once."""
        upper = torch.triu_indices(self.width, self.width)
        return {
            "counts": self.counts,
            "sums": self.sums,
            "second": self.second[upper[0], upper[1]],
            "gone": self.gone,
        }

    @classmethod
    def of_state(cls, state: dict[str, Tensor]) -> "Moments":
        """Return what `state` was made from."""
        width = state["sums"].shape[1]
        second = torch.zeros(width, width, dtype=torch.double)
        upper = torch.triu_indices(width, width)
        second[upper[0], upper[1]] = state["second"]
        second[upper[1], upper[0]] = state["second"]
        return cls(state["counts"], state["sums"], second, state["gone"])


def rounded(features: Tensor) -> Tensor:
    """Return features on the grid on which sums are exact, in double precision on the CPU."""
    return ((features.detach().cpu() * FEATURE_STEPS).round() / FEATURE_STEPS).double()


def rounded_weights(weights: Tensor) -> Tensor:
    """Return weights on the grid on which sums are exact."""
    return (weights.double() * WEIGHT_STEPS).round() / WEIGHT_STEPS


def add_product(total: Tensor, x: Tensor, y: Tensor) -> None:
    """Add x^T y, which is symmetric, in place: three quarters of the work of one product."""
    half = x.shape[1] // 2
    total[:half, :half].addmm_(x[:, :half].T, y[:, :half])
    total[half:, half:].addmm_(x[:, half:].T, y[:, half:])
    across = x[:, :half].T @ y[:, half:]
    total[:half, half:] += across
    total[half:, :half] += across.T


def packed(exact: Tensor, steps: int) -> Tensor:
    """Return sums on a grid as compressed bytes: whole numbers, all lowest bytes first.

    The highest bytes are nearly all zero, so a file needs as many as the number of images asks for.
    """
    whole = (exact * steps).round().to(torch.int64).numpy()
    folded = ((whole << 1) ^ (whole >> 63)).astype("<u8")  # small numbers of either sign are small
    planes = np.ascontiguousarray(folded.reshape(-1, 1).view(np.uint8).T)
    # By runs alone, as there is no other pattern in them: a twentieth smaller, in half of the time.
    packer = zlib.compressobj(strategy=zlib.Z_RLE)
    content = packer.compress(planes.tobytes()) + packer.flush()
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def unpacked(content: Tensor, steps: int, shape: torch.Size) -> Tensor:
    """Return what `packed` was given; raise ValueError if it was nothing of this shape."""
    unpacker, size = zlib.decompressobj(), 8 * shape.numel()
    try:
        planes = unpacker.decompress(content.numpy().tobytes(), size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(planes) != size:
        raise ValueError(f"{len(planes)} bytes are not {size}")
    folded = np.frombuffer(planes, np.uint8).reshape(8, -1).T.copy().view("<u8").ravel()
    whole = (folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64)
    return torch.from_numpy(whole).double().reshape(shape) / steps


def drop(rows: Tensor, number: int) -> Tensor:
    """Return the rows but for one."""
    return torch.cat([rows[:number], rows[number + 1 :]])
