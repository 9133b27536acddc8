"""Exact distance to the K-th nearest neighbour, the measure Delta_K of the paper (App., Alg. 2).

Squared distances are expanded into inner products and computed in chunks, so that memory stays
bounded for any number of points.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**20  # distances held at once: 4 MB, about what a core's cache keeps
FEWEST_ROWS = 64  # at once, even if that is more: with fewer, it takes as long to read the points


def kth_smallest(rows: Tensor, k: int) -> Tensor:
    """The k-th smallest value of each row, counted from 1. May reorder the rows' values."""
    if rows.device.type == "cpu":
        # numpy's vectorised partition is several times faster than torch's selection on a CPU.
        values = rows.numpy(force=True)
        values.partition(k - 1, axis=1)
        return torch.from_numpy(values[:, k - 1].copy())
    return rows.kthvalue(k, dim=1).values


def chunk_rows(width: int, fewest: int = 1) -> int:
    """How many rows of this width fit the budget."""
    return max(fewest, CHUNK_ELEMENTS // max(1, width))


def kth_distance(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """Distance of each query to its k-th nearest point, or to the farthest if there are fewer."""
    points = points.float()
    center = points.mean(0)
    queries, points = queries.float() - center, points - center
    norms, k = square_norms(points), min(k, len(points))
    sums = [kth_smallest(chunk, k) for _, chunk in _sums(queries, points, norms)]
    return _squares(sums, square_norms(queries)).sqrt()


def kth_distance_to_others(points: Tensor, k: int) -> Tensor:
    """Distance of each point to its k-th nearest *other* point, or to the farthest of them.

    Zero where that is nobody: for k = 0, and for a point that is alone. A point that counts itself
    as its own first neighbour has as k-th the (k - 1)-th other.
    """
    points = points.float()
    k = min(k, len(points) - 1)
    if k < 1:
        return points.new_zeros(len(points))
    centered = points - points.mean(0)
    own = torch.arange(len(points), device=points.device)
    return kth_squares_to_others(own, centered, square_norms(centered), k).sqrt()


def kth_squares_to_others(numbers: Tensor, points: Tensor, norms: Tensor, k: int) -> Tensor:
    """Squared distance of some points, given by number, to their k-th nearest other point.

    The points are to be centred, and to come with their squared norms.
    """
    sums = []
    for start, chunk in _sums(points[numbers], points, norms):
        own = numbers[start : start + len(chunk), None]
        sums.append(kth_smallest(chunk.scatter_(1, own, torch.inf), k))  # it is no neighbour
    return _squares(sums, norms[numbers])


def square_norms(points: Tensor) -> Tensor:
    """Squared length of each point, in chunks."""
    chunks = torch.split(points, chunk_rows(points.shape[1]))
    return torch.cat([chunk.square().sum(1) for chunk in chunks])


def _sums(queries: Tensor, points: Tensor, norms: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Chunks of |x|^2 - 2 q.x with the row they start at: squared distances but for |q|^2.

    The expansion cancels where norms are large beside distances. Without the mean they are of one
    size, and float32 is then good for six digits of a typical distance.
    """
    rows = chunk_rows(len(points), FEWEST_ROWS)
    for start in range(0, len(queries), rows):
        yield start, torch.addmm(norms, queries[start : start + rows], points.T, alpha=-2)


def _squares(sums: list[Tensor], norms: Tensor) -> Tensor:
    """K-th sums as squared distances: adding |q|^2 does not change who is K-th, rounded or not."""
    return torch.cat([norms[:0], *sums]).add_(norms).clamp_(min=0)
