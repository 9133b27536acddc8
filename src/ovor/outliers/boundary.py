"""The boundary of Algorithm 2: the points whose K-th nearest other is farthest. They are exactly
those that measuring every distance finds, at about linear cost.

The K-th nearest among some of the points is no nearer than that among all. So a distance within a
small part is an upper bound, and a point whose bound is below the distances of enough others is
out. The rest is measured in parts twice as large, and so on, at last among all points.
"""

from math import ceil
from pathlib import Path

import torch
from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks
from ovor.outliers.feature_buffer import Points, chunks, collected, gathered, whole
from ovor.outliers.knn import kth_distance_to_others, kth_squares_to_others, mean, square_norms
from ovor.outliers.npos import topk

FEW_POINTS = 8192  # up to here, measuring every distance is fast enough
PART = 8  # the smallest parts have 2 K to 8 K points
SAMPLE = 512  # so many points of a part decide where it is cut
AXES = 32  # directions that cuts are chosen among

Level = list[tuple[int, int]]  # parts that make up all points: from, and up to but without


def farthest_from_others(
    points: Points, k: int, count: int, folder: Path | None = None, ranks: Ranks = ALONE
) -> Tensor:
    """Return the numbers of the `count` points whose k-th nearest other is farthest, the largest
    distance first; of equals, the earlier first. A copy of many points goes to a file in the
    folder."""
    if k < 1 or len(points) <= max(FEW_POINTS, PART * k):
        return topk(count, kth_distance_to_others(points[:], k, ranks))
    order, levels = cut(points, PART * k, folder)
    ranks.synchronize([order])  # all must measure the same
    levels = ranks.broadcast(levels)
    center = mean(points)
    ordered = collected((some - center for some in gathered(points, order)), folder)
    squares = _measure(ordered, levels, k, min(count, len(points)), ranks)
    distances = torch.empty_like(squares)
    distances[order] = squares.sqrt()
    return topk(count, distances)


def _measure(
    points: Points, levels: list[Level], k: int, count: int, ranks: Ranks = ALONE
) -> Tensor:
    """Return the squared distances of at least the `count` farthest points to their k-th nearest
    others, and zero for all points that are not measured. The points must be centred and in the
    order of the parts.
    """
    norms = square_norms(points)
    ranks.synchronize([norms])
    # A bound and a distance are rounded apart, so a bound counts as higher by so much: of the order
    # of the worst case for sums of this length, and 75 times the largest error that was measured.
    rounding = points.shape[1] * torch.finfo(norms.dtype).eps
    bounds = torch.full_like(norms, torch.inf)
    measured = torch.zeros_like(bounds, dtype=torch.bool)
    undecided = ~measured

    def tighten(numbers: Tensor, start: int, stop: int) -> None:
        among = range(start, stop)
        bounds[numbers] = kth_squares_to_others(numbers, points, norms, k, among, ranks)

    done: set[tuple[int, int]] = set()
    promising = min(2 * count, len(points))  # at first; later bounds are better, and fewer will do
    for level in reversed(levels[1:]):
        for start, stop in level:
            if (start, stop) not in done:
                tighten(start + undecided[start:stop].nonzero().flatten(), start, stop)
        done = set(level)
        # Measuring the most promising at once shows that most of the others are out.
        top = bounds.where(undecided, -torch.inf).topk(promising).indices
        top = top[undecided[top]]
        tighten(top, 0, len(points))
        measured[top] = True
        promising = ceil(count / 2)
        least = bounds[measured].topk(count).values[-1]
        undecided &= ~measured & ~(bounds + rounding * (bounds + norms) < least)
    tighten(undecided.nonzero().flatten(), 0, len(points))
    return bounds.where(measured | undecided, 0)


def cut(points: Points, size: int, folder: Path | None = None) -> tuple[Tensor, list[Level]]:
    """Return an order of the points, and their parts in this order: all points, then parts of at
    most half as many, a quarter and so on, until none has more than `size`.

    A part is cut across its direction of largest variance, at the widest gap of the middle half.
    So neighbours stay together, and no part is small. Only speed depends on it, never the result.
    """
    axes = _axes(points, torch.arange(len(points)), AXES)
    points = whole(collected((chunk @ axes for chunk in chunks(points)), folder))  # n, AXES
    order = torch.arange(len(points), device=points.device)

    def halve(start: int, stop: int, target: int) -> Level:
        if stop - start <= target:
            return [(start, stop)]
        numbers, quarter = order[start:stop], (stop - start) // 4
        axis = _axes(points, numbers, 1)
        places = torch.cat([(some @ axis).flatten() for some in gathered(points, numbers)])
        places, by_place = places.sort(stable=True)
        order[start:stop] = numbers[by_place]
        gaps = places[quarter : len(places) - quarter].diff()
        middle = start + quarter + 1 + int(gaps.argmax())
        return halve(start, middle, target) + halve(middle, stop, target)

    levels, target = [[(0, len(points))]], len(points)
    while target > size:
        target = max(target // 2, size)
        levels.append([half for part in levels[-1] for half in halve(*part, target)])
    return order, levels


def _axes(points: Points, numbers: Tensor, count: int) -> Tensor:
    """Return the directions of largest variance (D, count) among some of the numbered points."""
    some = points[numbers[:: -(-len(numbers) // SAMPLE)]].cpu()
    centered = some - some.mean(0)
    covariance = (centered.T @ centered).nan_to_num(0, 0, 0)  # features of a diverged training
    vectors: Tensor = torch.linalg.eigh(covariance).eigenvectors
    return vectors[:, -count:].to(points.device)
