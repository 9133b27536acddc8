"""Exact distance to the K-th nearest other point, the paper's measure Delta_K (App. D, Alg. 2).

Squared distances are expanded into inner products and computed tile by tile, some points to some
others, so that memory stays bounded for any number of points, even of points in a file.
"""

import torch
from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers.feature_buffer import Points, chunks

CHUNK_ELEMENTS = 2**20  # distances held at once: 4 MB, about what a core's cache keeps
FEWEST_ROWS = 64  # at once, even if that is more: with fewer, it takes as long to read the points
COLUMNS = 2**13  # points that distances are measured to at once


def kth_smallest(rows: Tensor, k: int) -> Tensor:
    """Return the k-th smallest value of each row, counted from 1. May reorder the rows' values."""
    if rows.device.type == "cpu":
        # numpy's vectorised partition is several times faster than torch's selection on a CPU.
        values = rows.numpy(force=True)
        values.partition(k - 1, axis=1)
        return torch.from_numpy(values[:, k - 1].copy())
    return rows.kthvalue(k, dim=1).values


def smallest(rows: Tensor, k: int) -> Tensor:
    """Return the k smallest values of each row in any order; all if there are fewer.

    May reorder the values of the rows given.
    """
    if rows.shape[1] <= k:
        return rows
    if rows.device.type == "cpu":
        values = rows.numpy(force=True)
        values.partition(k - 1, axis=1)
        return torch.from_numpy(values[:, :k].copy())
    return rows.topk(k, dim=1, largest=False, sorted=False).values


def chunk_rows(width: int, fewest: int = 1) -> int:
    """Return how many rows of this width fit the budget of distances held at once."""
    return max(fewest, CHUNK_ELEMENTS // max(1, width))


def kth_distance_to_others(points: Tensor, k: int, ranks: Ranks = ALONE) -> Tensor:
    """Return the distance of each point to its k-th nearest *other*, or to the farthest if fewer.

    Zero where that is nobody: for k = 0, and for a point that is alone. A point that counts itself
    as its own first neighbour has as k-th the (k - 1)-th other.
    """
    points = points.float()
    k = min(k, len(points) - 1)
    if k < 1:
        return points.new_zeros(len(points))
    centered = points - points.mean(0)
    own, everywhere = torch.arange(len(points), device=points.device), range(len(points))
    norms = square_norms(centered)
    return kth_squares_to_others(own, centered, norms, k, everywhere, ranks).sqrt()


def kth_squares_to_others(
    numbers: Tensor,
    points: Points,
    norms: Tensor,
    k: int,
    among: range,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Return the squared distance of the numbered points to their k-th nearest other among those
    of a range.

    The points must be centred, and come with their squared norms. Each process measures some of the
    tiles that one process alone would measure, so all are rounded as by one.
    """
    if not len(numbers):
        return norms[:0]
    tiles = torch.split(numbers, tile_rows(len(among)))
    squares = [norms[:0]]
    for some in tiles[ranks.shard(len(tiles))]:
        # Adding |q|^2 last does not change which is the K-th, rounded or not.
        sums = kth_sums(some, points, norms, k, among)
        squares.append(sums.add_(norms[some]).clamp_(min=0))
    lengths = [sum(map(len, tiles[share])) for share in ranks.shards(len(tiles))]
    return torch.cat(ranks.all_gather(torch.cat(squares), lengths))


def tile_rows(columns: int) -> int:
    """Return how many rows of distances to so many points are measured at once."""
    return chunk_rows(min(columns, COLUMNS), FEWEST_ROWS)


def kth_sums(numbers: Tensor, points: Points, norms: Tensor, k: int, among: range) -> Tensor:
    """Return the k-th smallest |x|^2 - 2 q.x of each numbered point q, over the other points x of
    a range: its squared distance but for |q|^2.

    Of every tile the k smallest are kept, and the k smallest of those.

    The expansion cancels where norms are large beside distances. Without the mean they are of one
    size, and float32 is then good for six digits of a typical distance.
    """
    queries = points[numbers]
    kept = norms.new_empty(len(queries), 0)
    for start in range(among.start, among.stop, COLUMNS):
        tile = slice(start, min(start + COLUMNS, among.stop))
        sums = torch.addmm(norms[tile], queries, points[tile].T, alpha=-2)
        inside = ((numbers >= start) & (numbers < tile.stop)).nonzero().flatten()
        sums[inside, numbers[inside] - start] = torch.inf  # no point is its own neighbour
        kept = k_smallest_of_both(kept, sums, k)
    return kept.amax(1)


def k_smallest_of_both(kept: Tensor, sums: Tensor, k: int) -> Tensor:
    """Return the k smallest values of each row of two matrices side by side; all if fewer."""
    found = smallest(sums, k)
    return smallest(torch.cat([kept, found], dim=1), k) if kept.shape[1] else found


def mean(points: Points) -> Tensor:
    """Return the mean of all points, read in chunks."""
    return torch.stack([x.float().mean(0) * (len(x) / len(points)) for x in chunks(points)]).sum(0)


def square_norms(points: Points) -> Tensor:
    """Return the squared length of each point, read in chunks."""
    # Made at once: small tensors that stay, between large ones that do not, would leave the C
    # library with holes that nothing fits, in the end as large as all points.
    norms = torch.empty(len(points), device=points.device)
    rows = chunk_rows(points.shape[1])
    for start in range(0, len(points), rows):
        some = points[start : start + rows]
        norms[start : start + len(some)] = some.square().sum(1)
    return norms
