"""The points farthest from the others by the distance to the K-th nearest, exactly as if every
distance were measured (Alg. 2), but at about linear cost.

The K-th nearest among some of the points is no nearer than that among all. So distances within
small parts are upper bounds, and whoever's bound is below the distances of enough others is out.
The rest is measured in parts twice as large, and so on, at last among all.
"""

import torch
from torch import Tensor

from ovor.outliers.knn import kth_distance, kth_distance_to_others, kth_squares_to_others

FEW_POINTS = 8192  # up to here, measuring every distance is fast enough
PART = 8  # the smallest parts have 2 K to 8 K points
SAMPLE = 512  # so many points of a part decide where it is cut

Level = list[tuple[int, int]]  # parts that make up all points: from, and up to but without


def farthest_from_others(points: Tensor, k: int, count: int) -> Tensor:
    """The `count` points whose k-th nearest other is farthest, largest distance first; of equals,
    the earlier first."""
    if k < 1 or len(points) <= max(FEW_POINTS, PART * k):
        return _largest(kth_distance_to_others(points, k), count)
    order, levels = cut(points, PART * k)
    squares = _measure(points[order].sub_(points.mean(0)), levels, k, min(count, len(points)))
    distances = torch.empty_like(squares)
    distances[order] = squares.sqrt()
    return _largest(distances, count)


def farthest_from_sample(points: Tensor, sample: Tensor, k: int, count: int) -> Tensor:
    """The same by the k-th nearest other point of a sample, given by number."""
    distances = kth_distance(points, points[sample], k)
    distances[sample] = kth_distance_to_others(points[sample], k)
    return _largest(distances, count)


def _largest(distances: Tensor, count: int) -> Tensor:
    return distances.argsort(descending=True, stable=True)[:count]


def _measure(points: Tensor, levels: list[Level], k: int, count: int) -> Tensor:
    """Squared distances of the `count` farthest points to their k-th nearest others; of some other
    points too, and zero for the rest. All points are to be centred, and in the order of the parts.
    """
    # Float sums of d terms, in whatever order they were added, do not differ by more than this. So
    # no point is out for an error of rounding.
    square_norms = points.square().sum(1)
    rounding = points.shape[1] * torch.finfo(points.dtype).eps
    bounds = torch.full_like(square_norms, torch.inf)
    measured = torch.zeros_like(bounds, dtype=torch.bool)
    undecided = ~measured

    def tighten(numbers: Tensor, start: int, stop: int) -> None:
        part = points[start:stop]
        bounds[numbers] = kth_squares_to_others(points[numbers], part, numbers - start, k)

    done: Level = []
    for level in reversed(levels):
        for start, stop in level:
            if (start, stop) not in done:
                tighten(start + undecided[start:stop].nonzero().flatten(), start, stop)
        done = level
        # The most promising are measured at once: by them, most of the others are out.
        top = bounds.where(undecided, -torch.inf).topk(count).indices
        top = top[undecided[top]]
        tighten(top, 0, len(points))
        measured[top] = True
        least = bounds[measured].topk(count).values[-1]
        undecided &= ~measured & ~(bounds + rounding * (bounds + square_norms) < least)
    return bounds.where(measured | undecided, 0)  # what is undecided after the last level, is all


def cut(points: Tensor, size: int) -> tuple[Tensor, list[Level]]:
    """An order of the points, and in this order their parts: all points, then the parts of the
    level before cut in two, until none has more than `size` points.

    A part is cut across its direction of largest variance, at the widest gap of the middle half.
    So neighbours stay together, and no part is less than a quarter of the one before.
    """
    order = torch.arange(len(points), device=points.device)
    levels = [[(0, len(points))]]
    while any(stop - start > size for start, stop in levels[-1]):
        level = []
        for start, stop in levels[-1]:
            if stop - start <= size:
                level.append((start, stop))
                continue
            numbers = order[start:stop]
            members, quarter = points[numbers], len(numbers) // 4
            axis = _axis(members[:: -(-len(members) // SAMPLE)])
            places, by_place = (members @ axis).sort(stable=True)
            order[start:stop] = numbers[by_place]
            gaps = places[quarter : len(places) - quarter].diff()
            middle = start + quarter + 1 + int(gaps.argmax())
            level += [(start, middle), (middle, stop)]
        levels.append(level)
    return order, levels


def _axis(points: Tensor) -> Tensor:
    """About the direction of largest variance, by power iteration from the farthest point."""
    centered = points - points.mean(0)
    axis = centered[centered.square().sum(1).argmax()]
    for _ in range(6):
        axis = centered.T @ (centered @ axis)
        axis = axis / axis.norm().clamp(min=torch.finfo(axis.dtype).tiny)
    return axis
