"""The candidates of Algorithm 2 (App. D) as a grid, u + n for every boundary feature u and noise n,
and the farthest of them by the distance to the K-th nearest feature x.

A distance of the grid is a sum of two entries of small tables, one of u and x, one of n and x:
|u + n - x|^2 = (|x|^2 - 2 u.x) - 2 n.x + |u + n|^2. So no candidate is ever made to be measured.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers import knn
from ovor.outliers.feature_buffer import Points
from ovor.outliers.knn import (
    chunk_rows,
    k_smallest_of_both,
    kth_smallest,
    smallest,
    square_norms,
    tile_rows,
)

KEPT_TABLES = 2**26  # elements of the tables that are kept for the next pass: 256 MB
NEAR_TERMS = 2**25  # elements of the table that bounds are taken from
MEASURED = 2**24  # distances that are kept while candidates are measured together


@dataclass
class Block:
    """Some points x of the index, and the tables that the grid's distances to them are sums of.

    For a given v = u_i + n_j, |v - x|^2 grows with origin_terms[i, x] + noise_terms[j, x], so the
    K-th smallest sum belongs to the K-th nearest x.
    """

    origins: Tensor  # b, D: u
    noise: Tensor  # N, D: n
    points: Tensor  # n, D: x
    start: int = 0  # the number of the first in the index

    @cached_property
    def square_norms(self) -> Tensor:
        """Return |x|^2 (n)."""
        return square_norms(self.points)

    @cached_property
    def origin_terms(self) -> Tensor:
        """Return |x|^2 - 2 u.x (b, n)."""
        return torch.addmm(self.square_norms, self.origins, self.points.T, alpha=-2)

    @cached_property
    def noise_terms(self) -> Tensor:
        """Return -2 n.x (N, n)."""
        return (-2 * self.noise) @ self.points.T


@dataclass(frozen=True)
class Blocks:
    """The blocks of this process's shard of the index, made anew by every iteration."""

    origins: Tensor
    noise: Tensor
    index: Points
    ranks: Ranks

    def __iter__(self) -> Iterator[Block]:
        starts = range(0, len(self.index), knn.COLUMNS)
        for start in starts[self.ranks.shard(len(starts))]:
            yield Block(self.origins, self.noise, self.index[start : start + knn.COLUMNS], start)


@dataclass(frozen=True)
class Candidates:
    """The grid of candidates v = u_i + n_j, numbered i * N + j."""

    origins: Tensor  # b, D: u
    noise: Tensor  # N, D: n
    index: Points  # n, D: x
    blocks: Iterable[Block]
    ranks: Ranks
    square_norms: Tensor  # b * N: |v|^2
    unit: bool  # measured as v / |v| against an index of unit vectors

    @classmethod
    def of(
        cls, origins: Tensor, noise: Tensor, index: Points, unit: bool, ranks: Ranks = ALONE
    ) -> "Candidates":
        """Return the grid of these origins and noises, with its tables if they are small."""
        norms = torch.addmm(square_norms(noise), origins, noise.T, alpha=2)
        norms += square_norms(origins)[:, None]
        ranks.synchronize([norms])  # distances, and so the number of exchanges, are made of them
        blocks: Iterable[Block] = Blocks(origins, noise, index, ranks)
        if (len(origins) + len(noise)) * len(index) <= KEPT_TABLES:
            blocks = list(blocks)  # and with them, their tables
        return cls(origins, noise, index, blocks, ranks, norms.flatten(), unit)

    def farthest(self, count: int, k: int) -> Tensor:
        """Return the numbers of the `count` candidates with the largest distance to their K-th
        nearest, the largest first; of equals, the smaller number first.

        Candidates are measured in order of an upper bound: first as many as are wanted, then those
        whose bound is not below the last one kept.
        """
        bounds = self._bounds(k)
        self.ranks.synchronize([bounds])  # they say how much the processes will exchange
        order = bounds.argsort(descending=True, stable=True)
        best, best_squares = order[:0], bounds[:0]
        # Where each pass makes the tables anew, measure enough for one pass: bounds are tight.
        kept = isinstance(self.blocks, list)
        at_once, later = (count, count // 8) if kept else (count + count // 4, MEASURED // k)
        while len(order):
            some, order = order[:at_once], order[at_once:]
            best = torch.cat([best, some])
            best_squares = torch.cat([best_squares, self._kth_squares(some, k)])
            best, by_number = best.sort()
            best_squares, by_distance = best_squares[by_number].sort(descending=True, stable=True)
            best, best_squares = best[by_distance][:count], best_squares[:count]
            if len(best) == count:
                order = order[~(bounds[order] < best_squares[-1])]
            at_once = max(knn.FEWEST_ROWS, later)
        return best

    def _kth_squares(self, numbers: Tensor, k: int) -> Tensor:
        """Return the squared distance of the numbered candidates to their K-th nearest.

        Each process finds the K smallest sums of its blocks; the K smallest of all are among them.
        """
        rows = tile_rows(len(self.index))
        origins, noises = (
            torch.split(x, rows) for x in (numbers // len(self.noise), numbers % len(self.noise))
        )
        kept = [self.square_norms.new_empty(len(some), 0) for some in origins]  # K smallest sums
        for block in self.blocks:
            for number, (i, j) in enumerate(zip(origins, noises, strict=True)):
                sums = block.origin_terms.index_select(0, i)
                sums += block.noise_terms.index_select(0, j)
                kept[number] = k_smallest_of_both(kept[number], sums, k)
        of_all = [self.ranks.gather_columns(values, k, torch.inf) for values in kept]
        kth = torch.cat([smallest(values, k).amax(1) for values in of_all])
        return self._square_distance(kth, self.square_norms[numbers])

    def _bounds(self, k: int) -> Tensor:
        """Return an upper bound of every candidate's squared distance to its K-th nearest.

        The K-th nearest among some x is no nearer than that among all. The nearest to u_i make it
        tight: few candidates but the outliers themselves are then left to measure.
        """
        values, columns = self._near(min(3 * k // 2, len(self.index)))
        size = max(1, NEAR_TERMS // (len(self.noise) * values.shape[1]))
        parts = zip(*(torch.split(x, size) for x in (self.origins, values, columns)), strict=True)
        sums = torch.cat([self._bounds_of(k, *some) for some in parts])
        return self._square_distance(sums.flatten(), self.square_norms)

    def _bounds_of(self, k: int, origins: Tensor, values: Tensor, columns: Tensor) -> Tensor:
        """Return upper bounds (b, N) of the K-th sums of some origins with every noise, from the x
        near each origin: their origin terms (b, m) and their numbers (b, m)."""
        noises, width = len(self.noise), values.shape[1]
        block, columns = self._block_of(columns)
        bounds = []
        for terms, near in zip(
            *(torch.split(x, chunk_rows(noises * width)) for x in (values, columns)), strict=True
        ):
            sums = block.noise_terms.index_select(1, near.flatten()).add_(terms.flatten())
            bounds.append(kth_smallest(sums.view(-1, width), k).view(noises, -1).T)  # some b, N
        if block is self._only_block:
            return torch.cat(bounds)  # the distance is taken over the same float sums
        # These products may be rounded otherwise than those that the distance is made of, by at
        # most about this much: the order of the worst case for sums of this length.
        rounding = self.noise.shape[1] * torch.finfo(self.noise.dtype).eps
        longest = block.square_norms[columns].amax(1, keepdim=True)  # b, 1
        lengths = square_norms(origins).sqrt()[:, None] + square_norms(self.noise).sqrt()  # b, N
        return torch.cat(bounds) + rounding * (longest + 2 * longest.sqrt() * lengths)

    @property
    def _only_block(self) -> Block | None:
        """Return the block that holds the whole index, if this process has one and keeps it."""
        if not isinstance(self.blocks, list) or len(self.blocks) != 1:
            return None
        block: Block = self.blocks[0]
        return block if len(block.points) == len(self.index) else None

    def _block_of(self, columns: Tensor) -> tuple[Block, Tensor]:
        """Return a block that holds the numbered x, and the column of each in its tables."""
        if self._only_block:
            return self._only_block, columns
        numbers, columns = torch.unique(columns, return_inverse=True)
        return Block(self.origins, self.noise, self.index[numbers]), columns

    def _near(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the `count` smallest origin terms of each origin, and the numbers of their x."""
        values = self.origins.new_empty(len(self.origins), 0)
        columns = torch.empty_like(values, dtype=torch.long)
        for block in self.blocks:
            found = block.origin_terms.topk(min(count, len(block.points)), largest=False)
            values = torch.cat([values, found.values], dim=1)
            columns = torch.cat([columns, block.start + found.indices], dim=1)
            values, columns = nearest(values, columns, count)
        values = self.ranks.gather_columns(values, count, torch.inf)
        columns = self.ranks.gather_columns(columns, count, 0)
        return nearest(values, columns, count)

    def _square_distance(self, sums: Tensor, square_norms: Tensor) -> Tensor:
        """Return squared distances from K-th sums and the |v|^2 of their candidates."""
        if self.unit:  # |v/|v| - x|^2 = 2 - 2 v.x / |v|, and the sums are 1 - 2 v.x
            return 2 + (sums - 1) / square_norms.sqrt()
        return sums + square_norms


def nearest(values: Tensor, columns: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` smallest values of each row and their columns; all if there are fewer."""
    if values.shape[1] <= count:
        return values, columns
    values, places = values.topk(count, largest=False)
    return values, columns.gather(1, places)
