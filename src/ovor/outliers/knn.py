"""Exact distance to the K-th nearest neighbour, the measure Delta_K of the paper (App., Alg. 2).

Squared distances are expanded into inner products and computed tile by tile, some queries to some
points, so that memory stays bounded for any number of points, even of points in a file.
"""

import torch
from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers.feature_buffer import Points, chunks

CHUNK_ELEMENTS = 2**20  # distances held at once: 4 MB, about what a core's cache keeps
FEWEST_ROWS = 64  # at once, even if that is more: with fewer, it takes as long to read the points
COLUMNS = 2**13  # points that distances are measured to at once


def kth_smallest(rows: Tensor, k: int) -> Tensor:
    """The k-th smallest value of each row, counted from 1. May reorder the rows' values."""
    if rows.device.type == "cpu":
        # numpy's vectorised partition is several times faster than torch's selection on a CPU.
        values = rows.numpy(force=True)
        values.partition(k - 1, axis=1)
        return torch.from_numpy(values[:, k - 1].copy())
    return rows.kthvalue(k, dim=1).values


def smallest(rows: Tensor, k: int) -> Tensor:
    """The k smallest values of each row in any order, or all. May reorder the rows' values."""
    if rows.shape[1] <= k:
        return rows
    if rows.device.type == "cpu":
        values = rows.numpy(force=True)
        values.partition(k - 1, axis=1)
        return torch.from_numpy(values[:, :k].copy())
    return rows.topk(k, dim=1, largest=False, sorted=False).values


def chunk_rows(width: int, fewest: int = 1) -> int:
    """How many rows of this width fit the budget."""
    return max(fewest, CHUNK_ELEMENTS // max(1, width))


def kth_distance(queries: Points, points: Tensor, k: int) -> Tensor:
    """Distance of each query to its k-th nearest point, or to the farthest if there are fewer."""
    points = points.float()
    center = points.mean(0)
    points, k = points - center, min(k, len(points))
    norms, everywhere = square_norms(points), range(len(points))
    squares = [norms[:0]]
    for chunk in chunks(queries):
        for some in torch.split(chunk.float() - center, tile_rows(len(points))):
            sums = kth_sums(some, points, norms, k, everywhere)
            squares.append(_squares(sums, square_norms(some)))
    return torch.cat(squares).sqrt()


def kth_distance_to_others(points: Tensor, k: int, ranks: Ranks = ALONE) -> Tensor:
    """Distance of each point to its k-th nearest *other* point, or to the farthest of them.

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
    """Squared distance of some points, given by number, to their k-th nearest other point among
    those of a range.

    The points are to be centred, and to come with their squared norms. Each process measures some
    of the tiles, which are those of one process, and so are rounded like them.
    """
    if not len(numbers):
        return norms[:0]
    tiles = torch.split(numbers, tile_rows(len(among)))
    squares = [norms[:0]]
    for some in tiles[ranks.shard(len(tiles))]:
        sums = kth_sums(points[some], points, norms, k, among, own=some)
        squares.append(_squares(sums, norms[some]))
    lengths = [sum(map(len, tiles[shard])) for shard in ranks.shards(len(tiles))]
    return torch.cat(ranks.all_gather(torch.cat(squares), lengths))


def tile_rows(columns: int) -> int:
    return chunk_rows(min(columns, COLUMNS), FEWEST_ROWS)


def kth_sums(
    queries: Tensor,
    points: Points,
    norms: Tensor,
    k: int,
    among: range,
    own: Tensor | None = None,
) -> Tensor:
    """The k-th smallest |x|^2 - 2 q.x for each query, a squared distance but for |q|^2.

    Of every tile the k smallest are kept, and the k smallest of those. A point that is a query
    itself, given as its own number, is no neighbour.

    The expansion cancels where norms are large beside distances. Without the mean they are of one
    size, and float32 is then good for six digits of a typical distance.
    """
    kept = norms.new_empty(len(queries), 0)
    for start in range(among.start, among.stop, COLUMNS):
        tile = slice(start, min(start + COLUMNS, among.stop))
        sums = torch.addmm(norms[tile], queries, points[tile].T, alpha=-2)
        if own is not None:
            inside = ((own >= start) & (own < tile.stop)).nonzero().flatten()
            sums[inside, own[inside] - start] = torch.inf
        kept = k_smallest_of_both(kept, sums, k)
    return kept.amax(1)


def k_smallest_of_both(kept: Tensor, sums: Tensor, k: int) -> Tensor:
    """The k smallest of each row of two matrices, or all if there are fewer."""
    found = smallest(sums, k)
    return smallest(torch.cat([kept, found], dim=1), k) if kept.shape[1] else found


def mean(points: Points) -> Tensor:
    """Of all rows, in chunks."""
    return torch.stack([x.float().mean(0) * (len(x) / len(points)) for x in chunks(points)]).sum(0)


def square_norms(points: Points) -> Tensor:
    """Squared length of each point, in chunks."""
    # Made at once: small tensors that stay, between large ones that do not, would leave the C
    # library with holes that nothing fits, in the end as large as all points.
    norms = torch.empty(len(points), device=points.device)
    rows = chunk_rows(points.shape[1])
    for start in range(0, len(points), rows):
        some = points[start : start + rows]
        norms[start : start + len(some)] = some.square().sum(1)
    return norms


def _squares(sums: Tensor, norms: Tensor) -> Tensor:
    """K-th sums as squared distances: adding |q|^2 does not change who is K-th, rounded or not."""
    return sums.add_(norms).clamp_(min=0)
