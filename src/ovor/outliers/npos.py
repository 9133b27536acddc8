"""Virtual outliers from a task's features: non-parametric synthesis, NPOS (Sec. 4.1, Alg. 2).

Boundary features plus Gaussian noise are the candidates; those farthest from the features, by the
distance to the K-th nearest, are the outliers. With the candidates u + n taken as a grid, their
distances are sums of two small tables, and no candidate exists before it is chosen.

Features are read some at a time, so there may be more of them, in a mapped file, than memory holds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Npos
from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers import knn
from ovor.outliers.exact_search import farthest_from_others, farthest_from_sample
from ovor.outliers.feature_buffer import Points, chunks, collected, gathered
from ovor.outliers.knn import (
    chunk_rows,
    k_smallest_of_both,
    kth_smallest,
    mean,
    smallest,
    square_norms,
    tile_rows,
)

KEPT_TABLES = 2**26  # elements of the tables that are kept for the next pass: 256 MB
NEAR_TERMS = 2**25  # elements of the table that bounds are taken from
SCORED = 2**24  # distances that are kept while candidates are scored together


@torch.no_grad()
def synthesize(
    features: Tensor,
    labels: Tensor,
    classes: int,
    npos: Npos,
    generator: torch.Generator,
    folder: Path | None = None,
    ranks: Ranks = ALONE,
) -> Tensor:
    """At most beta * classes outliers (M, D) in float32; all candidates if there are fewer.

    Noise and sample come from a generator on the CPU, so they are the same for every device. For
    more features than memory should hold, working files go to the folder. Several processes, each
    with all features, share the search and find the same.
    """
    features = features.detach()
    noise = npos.sigma * torch.randn(npos.noise, features.shape[1], generator=generator)
    noise = noise.to(features.device)
    outliers = [noise[:0]]
    with torch.autocast(features.device.type, enabled=False):  # distances need all of float32
        if npos.per_class:
            for label in sorted(set(labels.tolist())):
                numbers = (labels == label).nonzero().flatten()
                group = collected(gathered(features, numbers), folder)
                outliers.append(_outliers(group, noise, 1, npos, generator, folder, ranks))
        elif len(features):
            outliers.append(_outliers(features, noise, classes, npos, generator, folder, ranks))
    found = torch.cat(outliers)
    if npos.shuffle:
        order = torch.randperm(len(found), generator=generator)
        found = found[order.to(found.device)]
    return found


def _outliers(
    features: Points,
    noise: Tensor,
    classes: int,
    npos: Npos,
    generator: torch.Generator,
    folder: Path | None,
    ranks: Ranks,
) -> Tensor:
    """Alg. 2 for one set of features, farthest outlier first."""
    # Distances do not feel a shift, but float32 does: see knn.
    shift = mean(features) if npos.space == "raw" else torch.zeros_like(noise[0])
    index = collected((_seen(x.float(), shift, npos) for x in chunks(features)), folder)
    count, k, others = max(1, round(npos.alpha * classes)), npos.k, npos.k - npos.self_neighbor
    if 0 < npos.sample < len(index):
        sample = torch.randperm(len(index), generator=generator)[: npos.sample].to(index.device)
        # As many times nearer in rank as there are fewer: about the same distance.
        k, others = (max(1, round(x * npos.sample / len(index))) for x in (k, others))
        boundary = farthest_from_sample(index, sample, others, count)
        ranks.synchronize([boundary])
        index = index[sample]
    else:
        boundary = farthest_from_others(index, others, count, folder, ranks)
    # Released code: candidates are the noise alone, as often as there are boundary samples.
    origins = features[boundary].float() if npos.add_boundary else torch.zeros_like(noise[:1])
    copies = 1 if npos.add_boundary else len(boundary)
    wanted = npos.beta * classes
    unit = npos.space == "unit"
    candidates = Candidates.of(origins - shift, noise, index, unit, ranks)
    chosen = candidates.farthest(ceil(wanted / copies), min(k, len(index)))
    outliers = origins[chosen // len(noise)] + noise[chosen % len(noise)]
    return outliers.repeat_interleave(copies, dim=0)[:wanted]


def _seen(features: Tensor, shift: Tensor, npos: Npos) -> Tensor:
    """Features as points of the space that is searched."""
    return features - shift if npos.space == "raw" else F.normalize(features)


@dataclass
class Block:
    """What the distances of the grid v = u_i + n_j to some x of the index consist of.

    For a given v, |v - x|^2 is increasing in origin_terms[i, x] + noise_terms[j, x], so the K-th
    smallest sum belongs to the K-th nearest x.
    """

    origins: Tensor  # b, D: u
    noise: Tensor  # N, D: n
    points: Tensor  # n, D: x
    start: int = 0  # where they are in the index

    @cached_property
    def square_norms(self) -> Tensor:
        """|x|^2, as n."""
        return square_norms(self.points)

    @cached_property
    def origin_terms(self) -> Tensor:
        """|x|^2 - 2 u.x, as b, n."""
        return torch.addmm(self.square_norms, self.origins, self.points.T, alpha=-2)

    @cached_property
    def noise_terms(self) -> Tensor:
        """-2 n.x, as N, n."""
        return (-2 * self.noise) @ self.points.T


@dataclass(frozen=True)
class Blocks:
    """Those of this process's share of the index, made anew each time one goes through them."""

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
    """The grid v = u_i + n_j, numbered i * N + j."""

    origins: Tensor  # b, D: u
    noise: Tensor  # N, D: n
    index: Points  # n, D: x
    blocks: Iterable[Block]
    ranks: Ranks
    square_norms: Tensor  # b * N: |v|^2
    unit: bool  # scored as v / |v| against an index of unit vectors

    @classmethod
    def of(
        cls, origins: Tensor, noise: Tensor, index: Points, unit: bool, ranks: Ranks = ALONE
    ) -> "Candidates":
        norms = torch.addmm(square_norms(noise), origins, noise.T, alpha=2)
        norms += square_norms(origins)[:, None]
        ranks.synchronize([norms])  # distances, and so the number of exchanges, are made of them
        blocks: Iterable[Block] = Blocks(origins, noise, index, ranks)
        if (len(origins) + len(noise)) * len(index) <= KEPT_TABLES:
            blocks = list(blocks)  # and with them, their tables
        return cls(origins, noise, index, blocks, ranks, norms.flatten(), unit)

    def farthest(self, count: int, k: int) -> Tensor:
        """The `count` candidates with the largest K-th distance, largest first; of equals, the
        smaller number first.

        They are scored in order of an upper bound, until the bound falls below the last one kept:
        as many as are wanted, and then those that may be among them too.
        """
        bounds = self._bounds(k)
        self.ranks.synchronize([bounds])  # they say how much the processes will exchange
        order = bounds.argsort(descending=True, stable=True)
        best, best_squares = order[:0], bounds[:0]
        # Where each pass makes the tables anew, one is to do; bounds are tight, so it mostly does.
        kept = isinstance(self.blocks, list)
        at_once, later = (count, count // 8) if kept else (count + count // 4, SCORED // k)
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
        """Squared distance of some candidates to their K-th nearest.

        Each process has the K smallest sums of its blocks; the K smallest of those are everybody's.
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
        everybodys = [self.ranks.gather_columns(values, k, torch.inf) for values in kept]
        kth = torch.cat([smallest(values, k).amax(1) for values in everybodys])
        return self._square_distance(kth, self.square_norms[numbers])

    def _bounds(self, k: int) -> Tensor:
        """An upper bound of every candidate's squared distance to its K-th nearest.

        The K-th nearest among some x is no nearer than that among all. The nearest to u_i make it
        tight: few candidates but the outliers themselves are then left to score.
        """
        values, columns = self._near(min(3 * k // 2, len(self.index)))
        size = max(1, NEAR_TERMS // (len(self.noise) * values.shape[1]))
        parts = zip(*(torch.split(x, size) for x in (self.origins, values, columns)), strict=True)
        sums = torch.cat([self._bounds_of(k, *some) for some in parts])
        return self._square_distance(sums.flatten(), self.square_norms)

    def _bounds_of(self, k: int, origins: Tensor, values: Tensor, columns: Tensor) -> Tensor:
        """Upper bounds of the K-th sums of some origins with every noise, by what is near them."""
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
        """If the whole index is in one, and that is this process's."""
        if not isinstance(self.blocks, list) or len(self.blocks) != 1:
            return None
        block: Block = self.blocks[0]
        return block if len(block.points) == len(self.index) else None

    def _block_of(self, columns: Tensor) -> tuple[Block, Tensor]:
        """One that has these x, given by number, and their columns in it."""
        if self._only_block:
            return self._only_block, columns
        numbers, columns = torch.unique(columns, return_inverse=True)
        return Block(self.origins, self.noise, self.index[numbers]), columns

    def _near(self, count: int) -> tuple[Tensor, Tensor]:
        """The smallest origin terms of each origin, and the numbers of their x."""
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
        if self.unit:  # |v/|v| - x|^2 = 2 - 2 v.x / |v|, and the sums are 1 - 2 v.x
            return 2 + (sums - 1) / square_norms.sqrt()
        return sums + square_norms


def nearest(values: Tensor, columns: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest values of each row, and their columns; or all, if there are no more."""
    if values.shape[1] <= count:
        return values, columns
    values, places = values.topk(count, largest=False)
    return values, columns.gather(1, places)
