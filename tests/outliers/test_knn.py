"""The distance to the K-th nearest other point is that of sorting all distances."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from outlier_checks import limits, longest, normal, rounding
from ovor.outliers import knn, npos


def assert_as_sorted(points: Tensor, k: int) -> None:
    found, exact = knn.kth_distance_to_others(points, k), points.double()
    expected = npos.delta(exact, exact, k + 1)  # the nearest is the point itself
    error = rounding(points.shape[1], 2 * longest(exact - exact.mean(0)))
    torch.testing.assert_close(found.double().square(), expected.square(), rtol=1e-6, atol=error)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(2, 40),
    width=st.integers(1, 20),
    k=st.integers(1, 60),
    offset=st.sampled_from([0.0, 1.0, -50.0]),
    seed=st.integers(0, 99),
    chunk=st.sampled_from([1, 30, 400, 2**20]),
    columns=st.sampled_from([1, 7, 2**13]),
)
def test_equals_sorting_all_distances_in_any_tiles(
    count: int, width: int, k: int, offset: float, seed: int, chunk: int, columns: int
) -> None:
    points = normal(count, width, seed=seed) + offset
    with limits(CHUNK_ELEMENTS=chunk, COLUMNS=columns, FEWEST_ROWS=1):
        assert_as_sorted(points, k)


def test_identical_points_are_neighbours_of_each_other() -> None:
    points = torch.tensor([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]])
    assert knn.kth_distance_to_others(points, 1).tolist() == pytest.approx([0, 0, 5], abs=1e-3)
    assert knn.kth_distance_to_others(points, 2).tolist() == pytest.approx([5, 5, 5], abs=1e-3)


def test_no_other_is_at_distance_zero() -> None:
    assert knn.kth_distance_to_others(torch.ones(1, 3), 5).tolist() == [0]
    assert knn.kth_distance_to_others(torch.eye(3), 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_answers_in_float32(dtype: torch.dtype) -> None:
    assert knn.kth_distance_to_others(normal(9, 4).to(dtype), 2).dtype == torch.float32


def test_kth_smallest_counts_from_one() -> None:
    rows = torch.tensor([[3.0, 1.0, 2.0], [5.0, 5.0, 4.0]])
    assert [knn.kth_smallest(rows, k).tolist() for k in (1, 2, 3)] == [[1, 4], [2, 5], [3, 5]]
