"""The distance to the K-th nearest neighbour equals that of sorting all distances."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ovor.outliers import knn


def points_of(count: int, width: int, seed: int, offset: float = 0.0) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)) + offset


def sorted_distances(queries: Tensor, points: Tensor) -> Tensor:
    return (queries.double()[:, None] - points.double()).norm(dim=2).sort(dim=1).values


sizes = st.integers(1, 40)
offsets = st.sampled_from([0.0, 1.0, -50.0])


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, st.integers(1, 20), st.integers(1, 60), offsets, st.integers(0, 99))
def test_equals_brute_force(
    queries: int, points: int, width: int, k: int, offset: float, seed: int
) -> None:
    query, point = points_of(queries, width, seed, offset), points_of(points, width, ~seed, offset)
    expected = sorted_distances(query, point)[:, min(k, points) - 1].float()
    torch.testing.assert_close(knn.kth_distance(query, point, k), expected, rtol=1e-4, atol=5e-3)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 20), st.integers(1, 60), offsets, st.integers(0, 99))
def test_to_others_skips_exactly_the_point_itself(
    count: int, width: int, k: int, offset: float, seed: int
) -> None:
    points = points_of(count, width, seed, offset)
    expected = sorted_distances(points, points)[:, min(k, count - 1)].float()  # column 0 is itself
    actual = knn.kth_distance_to_others(points, k)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=5e-3)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 12), st.integers(1, 400))
def test_chunks_change_nothing(count: int, width: int, k: int, budget: int) -> None:
    points = points_of(count, width, seed=count)
    expected = knn.kth_distance(points, points, k), knn.kth_distance_to_others(points, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "CHUNK_ELEMENTS", budget)
        patch.setattr(knn, "FEWEST_ROWS", 1)
        chunked = knn.kth_distance(points, points, k), knn.kth_distance_to_others(points, k)
    torch.testing.assert_close(chunked, expected, rtol=1e-5, atol=2e-3)


def test_identical_points_are_neighbours_of_each_other() -> None:
    points = torch.tensor([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]])
    assert knn.kth_distance_to_others(points, 1).tolist() == pytest.approx([0, 0, 5], abs=1e-3)
    assert knn.kth_distance_to_others(points, 2).tolist() == pytest.approx([5, 5, 5], abs=1e-3)


def test_no_query_has_no_distance() -> None:
    assert knn.kth_distance(torch.ones(0, 3), torch.eye(3), 1).shape == (0,)


def test_nobody_is_at_distance_zero() -> None:
    assert knn.kth_distance_to_others(torch.ones(1, 3), 5).tolist() == [0]
    assert knn.kth_distance_to_others(torch.eye(3), 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_answers_in_float32(dtype: torch.dtype) -> None:
    points = points_of(9, 4, seed=0).to(dtype)
    assert knn.kth_distance(points, points, 2).dtype == torch.float32
    assert knn.kth_distance_to_others(points, 2).dtype == torch.float32


def test_kth_smallest_counts_from_one() -> None:
    rows = torch.tensor([[3.0, 1.0, 2.0], [5.0, 5.0, 4.0]])
    assert [knn.kth_smallest(rows, k).tolist() for k in (1, 2, 3)] == [[1, 4], [2, 5], [3, 5]]
