"""Exact distance to the K-th nearest neighbour, the measure Delta_K of the paper (App., Alg. 2).

Squared distances are expanded into inner products and computed in chunks, so that memory stays
bounded for any number of points.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

CHUNK_ELEMENTS = 2**20  # distances held at once: 4 MB, about what a core's cache keeps
FEWEST_ROWS = 128  # of a matrix product: with fewer, it takes as long to read the points


def kth_smallest(rows: Tensor, k: int) -> Tensor:
    """The k-th smallest value of each row, counted from 1."""
    if rows.device.type == "cpu":
        # numpy's vectorised partition is several times faster than torch's selection on a CPU.
        return torch.from_numpy(np.partition(rows.numpy(force=True), k - 1, axis=1)[:, k - 1])
    return rows.kthvalue(k, dim=1).values


def chunk_rows(width: int) -> int:
    """How many rows of this width fit the budget; one at least."""
    return max(1, CHUNK_ELEMENTS // max(1, width))


def kth_distance(queries: Tensor, points: Tensor, k: int) -> Tensor:
    """Distance of each query to its k-th nearest point, or to the farthest if there are fewer."""
    points = points.float()
    center = points.mean(0)
    points = points - center
    norms, k = square_norms(points), min(k, len(points))
    found = [norms[:0]]  # for no query at all
    for _, squares in _squares(queries.float() - center, points, norms):
        found.append(kth_smallest(squares, k))
    return torch.cat(found).sqrt()


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
    found = [norms[:0]]
    for start, squares in _squares(points[numbers], points, norms):
        own = numbers[start : start + len(squares), None]
        squares.scatter_(1, own, torch.inf)  # a point is no neighbour of its own
        found.append(kth_smallest(squares, k))
    return torch.cat(found)


def square_norms(points: Tensor) -> Tensor:
    """Squared length of each point, in chunks."""
    chunks = torch.split(points, chunk_rows(points.shape[1]))
    return torch.cat([chunk.square().sum(1) for chunk in chunks])


def _squares(queries: Tensor, points: Tensor, norms: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Chunks of squared distances with the row they start at. Both sides are to be centred.

    The expansion cancels where norms are large beside distances. Without the mean they are of one
    size, and float32 is then good for six digits of a typical distance.
    """
    rows = max(FEWEST_ROWS, chunk_rows(len(points)))
    for start in range(0, len(queries), rows):
        chunk = queries[start : start + rows]
        squares = torch.addmm(norms, chunk, points.T, alpha=-2)  # rows, n
        yield start, squares.add_(chunk.square().sum(1, keepdim=True)).clamp_(min=0)
