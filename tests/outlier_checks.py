"""Features to find outliers of, limits of the search, and its comparison with `ovor.outliers.npos`.

A comparison allows for the rounding of float32 in any order of additions, and for no more: so it
holds on every processor. Where two distances differ by less, either point is right.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from ovor.config import Npos
from ovor.outliers import boundary, candidates, feature_buffer, knn, npos, synthesize

SEED = 7
OWNERS = {
    name: module
    for module, names in {
        boundary: ("FEW_POINTS", "SAMPLE"),
        candidates: ("KEPT_TABLES", "NEAR_TERMS", "MEASURED"),
        feature_buffer: ("AT_ONCE", "IN_MEMORY", "GATHERED"),
        knn: ("CHUNK_ELEMENTS", "COLUMNS", "FEWEST_ROWS"),
    }.items()
    for name in names
}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def clusters(count: int, width: int, seed: int = 0) -> Tensor:
    """Return clusters of unequal spread, away from the origin, as the features of a network are."""
    centers, spread = 2 * normal(7, width, seed=seed) + 3, torch.linspace(0.5, 1.5, 7)[:, None]
    labels = torch.arange(count) % 7
    return centers[labels] + spread[labels] * normal(count, width, seed=~seed)


def run(features: Tensor, classes: int, settings: Npos, seed: int = SEED) -> Tensor:
    return synthesize(features, classes, settings, torch.Generator().manual_seed(seed))


@contextmanager
def limits(**values: int) -> Iterator[None]:
    """Set the named limits of the search, such as the bytes that stay in memory, for a while."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(OWNERS[name], name, value)
        yield


def rounding(width: int, reach: float) -> float:
    """Return by how much a squared distance in float32 is wrong at most.

    It is a sum of about `width` products whose sizes add up to no more than reach^2. In any order,
    with fused multiplications or without, each of the additions is wrong by half an eps of that at
    most; 8 more are for centring or normalising the points and for adding up the parts.
    """
    return (width + 8) * torch.finfo(torch.float32).eps / 2 * reach**2


def longest(vectors: Tensor) -> float:
    return float(vectors.norm(dim=1).max())


def boundary_is_clear(features: Tensor, classes: int, settings: Npos) -> bool:
    """Whether rounding cannot change which features are the boundary."""
    index = npos.as_searched(features.double(), settings)
    squares = npos.boundary_distances(index, settings).square().sort(descending=True).values
    size = npos.boundary_size(settings, classes)
    if not settings.add_boundary or size >= len(features):
        return True
    error = rounding(features.shape[1], 2 * longest(index - index.mean(0)))
    return float(squares[size - 1] - squares[size]) > 2 * error


def assert_farthest(outliers: Tensor, features: Tensor, classes: int, settings: Npos) -> None:
    """Check that the outliers are candidates of Alg. 2, no one more often than it occurs, in order
    of distance, and that no candidate left is farther: each but for rounding."""
    assert boundary_is_clear(features, classes, settings), "choose features without such a tie"
    generator = torch.Generator().manual_seed(SEED)
    noise = npos.draw_noise(settings, features.shape[1], generator).double()
    index = npos.as_searched(features.double(), settings)
    order = npos.topk(
        npos.boundary_size(settings, classes), npos.boundary_distances(index, settings)
    )
    points = npos.make_candidates(features.double()[order], noise, settings)
    squares = npos.candidate_distances(points, index, settings).square()
    wanted = min(settings.beta * classes, len(points))
    assert outliers.shape == (wanted, features.shape[1])
    rows, numbers = torch.cat([points.float(), outliers]).unique(dim=0, return_inverse=True)
    of_points, of_outliers = numbers[: len(points)], numbers[len(points) :]
    counts = (x.bincount(minlength=len(rows)) for x in (of_outliers, of_points))
    assert torch.le(*counts).all()
    of_row = squares.new_zeros(len(rows)).index_copy(0, of_points, squares)
    # A distance moves by one error, and what has its rank by another.
    error = candidate_rounding(features.double()[order], noise, points, index, settings)
    expected = squares[npos.topk(wanted, squares)]
    torch.testing.assert_close(of_row[of_outliers], expected, rtol=0, atol=2 * error)


def candidate_rounding(
    origins: Tensor, noise: Tensor, points: Tensor, index: Tensor, settings: Npos
) -> float:
    """Return by how much the squared distance of a candidate u + n to an x is wrong at most."""
    shift = index.mean(0) if settings.space == "raw" else torch.zeros_like(index[0])
    lengths = longest((origins if settings.add_boundary else 0 * origins) - shift) + longest(noise)
    if settings.space != "unit":
        return rounding(index.shape[1], longest(index - shift) + lengths)
    # |v/|v| - x|^2 = 2 - 2 v.x / |v|, and the products of u, n and x are divided by |v|.
    return rounding(index.shape[1], 2 + (1 + lengths) / float(points.norm(dim=1).min()))
