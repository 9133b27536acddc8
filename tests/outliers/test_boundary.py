"""The points farthest from the others are those that measuring every distance finds."""

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from outlier_checks import clusters, limits, longest, normal, rounding
from ovor.distributed.ranks import Ranks
from ovor.outliers import boundary, knn, npos
from ovor.outliers.boundary import farthest_from_others


@pytest.fixture(scope="module", autouse=True)
def _few_points_are_many() -> Iterator[None]:
    with limits(FEW_POINTS=1):
        yield


def heavy_tails(count: int, width: int, seed: int = 0) -> Tensor:
    return normal(count, width, seed=seed) / normal(count, 1, seed=~seed).abs()


def twice(count: int, width: int, seed: int = 0) -> Tensor:
    return normal(-(-count // 2), width, seed=seed).repeat(2, 1)[:count]


def on_a_grid(count: int, width: int, seed: int = 0) -> Tensor:
    """Return points with many equal distances, and many equal points."""
    return normal(count, width, seed=seed).round()


def all_equal(count: int, width: int, seed: int = 0) -> Tensor:
    return torch.full((count, width), float(seed))


Kind = Callable[..., Tensor]
KINDS: list[Kind] = [normal, clusters, heavy_tails, twice, on_a_grid, all_equal]


def exact_squares(points: Tensor, k: int) -> Tensor:
    return npos.delta(points.double(), points.double(), k + 1).square()  # the nearest is itself


def assert_as_far(found: Tensor, points: Tensor, k: int, count: int) -> None:
    """Check for the same points in the same order, but for distances that rounding may change."""
    squares, center = exact_squares(points, k), points.double().mean(0)
    expected = npos.topk(count, squares)
    assert len(found.unique()) == len(found) == len(expected)
    error = rounding(points.shape[1], 2 * longest(points - center))
    # A distance moves by one error, and what has its rank by another.
    torch.testing.assert_close(squares[found], squares[expected], rtol=0, atol=2 * error)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 400),
    st.integers(1, 12),
    st.integers(0, 60),
    st.integers(1, 450),
    st.integers(0, 99),
)
def test_as_far_as_by_every_distance(
    kind: Kind, size: int, width: int, k: int, count: int, seed: int
) -> None:
    points = kind(size, width, seed=seed)
    assert_as_far(farthest_from_others(points, k, count), points, k, count)


@settings(max_examples=100, deadline=None)
@given(st.integers(20, 400), st.integers(1, 4), st.integers(1, 6), st.integers(1, 50))
def test_of_equals_the_earlier(size: int, width: int, k: int, count: int) -> None:
    """Whole numbers with a mean of zero: every distance is exact, and many are the same."""
    half = (2 * normal(size, width, seed=size)).round()
    points = torch.cat([half, -half])
    expected = npos.topk(count, exact_squares(points, k))
    assert farthest_from_others(points, k, count).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [clusters, heavy_tails])
@pytest.mark.parametrize("k", [1, 10])
def test_most_distances_are_never_measured(
    kind: Kind, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = 0

    def counting(
        numbers: Tensor, points: Tensor, norms: Tensor, k: int, among: range, ranks: Ranks
    ) -> Tensor:
        nonlocal measured
        measured += len(numbers) * len(among)
        return knn.kth_squares_to_others(numbers, points, norms, k, among, ranks)

    monkeypatch.setattr(boundary, "kth_squares_to_others", counting)
    points = kind(3000, 48)
    assert_as_far(farthest_from_others(points, k, 20), points, k, 20)
    assert measured < len(points) ** 2 / 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [9, 17, 1000])
def test_parts_are_all_points_and_none_is_small(kind: Kind, size: int) -> None:
    points = kind(1000, 6)
    order, levels = boundary.cut(points, size)
    assert order.sort().values.tolist() == list(range(1000))
    for level in levels:
        assert [start for start, _ in level] == [0, *(stop for _, stop in level[:-1])]
        assert level[-1][1] == 1000
    lengths = [stop - start for start, stop in levels[-1]]
    assert size / 4 <= min(lengths) <= max(lengths) <= size


def test_features_of_a_diverged_training_do_not_stop_it() -> None:
    points = normal(500, 8)
    points[7] = torch.nan
    points[9] = torch.inf
    assert len(farthest_from_others(points, 3, 5).unique()) == 5
