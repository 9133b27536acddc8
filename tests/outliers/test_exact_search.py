"""The points farthest from the others are those that measuring every distance finds."""

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ovor.distributed.ranks import Ranks
from ovor.outliers import exact_search as boundary
from ovor.outliers import knn
from ovor.outliers.exact_search import farthest_from_others, farthest_from_sample


@pytest.fixture(scope="module", autouse=True)
def _few_points_are_many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundary, "FEW_POINTS", 1)
        yield


def brute_force(points: Tensor, k: int, count: int) -> Tensor:
    distances = knn.kth_distance_to_others(points, k)
    return distances.argsort(descending=True, stable=True)[:count]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def clusters(count: int, width: int, seed: int = 0) -> Tensor:
    centers, scale = 3 * normal(7, width, seed=seed), torch.arange(1.0, width + 1).pow(-0.5)
    return (centers[torch.arange(count) % 7] + normal(count, width, seed=~seed)) * scale


def heavy_tails(count: int, width: int, seed: int = 0) -> Tensor:
    return normal(count, width, seed=seed) / normal(count, 1, seed=~seed).abs()


def twice(count: int, width: int, seed: int = 0) -> Tensor:
    return normal(-(-count // 2), width, seed=seed).repeat(2, 1)[:count]


def on_a_grid(count: int, width: int, seed: int = 0) -> Tensor:
    """Many equal distances, and many equal points."""
    return normal(count, width, seed=seed).round()


def all_equal(count: int, width: int, seed: int = 0) -> Tensor:
    return torch.full((count, width), float(seed))


Kind = Callable[..., Tensor]
KINDS: list[Kind] = [normal, clusters, heavy_tails, twice, on_a_grid, all_equal]


def assert_as_far(found: Tensor, points: Tensor, k: int, count: int) -> None:
    """The same points in the same order, but for distances that differ by rounding alone."""
    expected = brute_force(points, k, count)
    assert len(found.unique()) == len(found) == len(expected)
    distances = knn.kth_distance_to_others(points, k)
    scale = float(points.std()) if len(points) > 1 else 1.0
    torch.testing.assert_close(distances[found], distances[expected], rtol=1e-4, atol=2e-3 * scale)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.integers(1, 400),
    st.integers(1, 12),
    st.integers(0, 60),
    st.integers(1, 450),
    st.integers(0, 99),
)
def test_as_far_as_by_brute_force(
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
    found = farthest_from_others(points, k, count)
    assert found.tolist() == brute_force(points, k, count).tolist()


@pytest.mark.parametrize("kind", [normal, clusters, heavy_tails])
@pytest.mark.parametrize("k", [1, 20])
def test_the_same_points_in_the_same_order(kind: Kind, k: int) -> None:
    points = kind(3000, 48)
    expected = brute_force(points, k, 40)
    assert farthest_from_others(points, k, 40).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [clusters, heavy_tails])
def test_most_distances_are_never_measured(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def counting(
        numbers: Tensor, points: Tensor, norms: Tensor, k: int, among: range, ranks: Ranks
    ) -> Tensor:
        nonlocal measured
        measured += len(numbers) * len(among)
        return knn.kth_squares_to_others(numbers, points, norms, k, among, ranks)

    monkeypatch.setattr(boundary, "kth_squares_to_others", counting)
    points = kind(6000, 48)
    found = farthest_from_others(points, 10, 20)
    assert found.tolist() == brute_force(points, 10, 20).tolist()
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


def test_a_sample_of_all_is_all() -> None:
    points = clusters(300, 8)
    found = farthest_from_sample(points, torch.arange(300), 5, 30)
    assert found.tolist() == brute_force(points, 5, 30).tolist()


def test_a_sample_finds_most() -> None:
    points = clusters(4000, 32)
    sample = torch.randperm(4000, generator=torch.Generator().manual_seed(0))[:1000]
    found = farthest_from_sample(points, sample, 10, 100)
    expected = farthest_from_others(points, 40, 100)
    assert len(set(found.tolist()) & set(expected.tolist())) > 70
