"""Each metric by hand on one small matrix, and what must hold on any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovor import metrics

MATRIX = metrics.accuracy_matrix([[90.0], [70.0, 80.0], [60.0, 85.0, 50.0]])
percent = st.floats(0, 100)


def test_by_hand() -> None:
    found = metrics.all_metrics(MATRIX, [10, 10, 20])
    assert found == {
        "A_T": pytest.approx((60 + 85 + 50) / 3),
        "F_T": pytest.approx(((90 - 60) + (80 - 85)) / 2),
        "average_incremental_accuracy": pytest.approx((90 + 75 + 65) / 3),
        "pooled_accuracy": pytest.approx((600 + 850 + 1000) / 40),
        "coda_forgetting": pytest.approx((20 + (10 - 5) / 2) / 2),
        "backward_transfer": pytest.approx((-30 + 5) / 2),
    }


def test_best_accuracy_may_come_after_the_task_was_learned() -> None:
    matrix = metrics.accuracy_matrix([[50.0], [70.0, 80.0], [60.0, 80.0, 90.0]])
    assert metrics.forgetting(matrix) == pytest.approx((10 + 0) / 2)


def test_one_task_forgets_nothing() -> None:
    found = metrics.all_metrics(metrics.accuracy_matrix([[40.0]]), [7])
    assert found["A_T"] == 40
    assert found["F_T"] == found["coda_forgetting"] == found["backward_transfer"] == 0


@given(st.lists(percent, min_size=1, max_size=6))
def test_where_nothing_is_lost_nothing_is_forgotten(column: list[float]) -> None:
    rows = [column[: t + 1] for t in range(len(column))]
    found = metrics.all_metrics(metrics.accuracy_matrix(rows), [1] * len(rows))
    assert found["F_T"] == found["coda_forgetting"] == found["backward_transfer"] == 0
    assert found["pooled_accuracy"] == pytest.approx(found["A_T"])


@given(st.integers(2, 5).flatmap(lambda n: st.lists(percent, min_size=n * n, max_size=n * n)))
def test_forgetting_from_the_best_is_no_less_than_from_the_start(values: list[float]) -> None:
    side = int(len(values) ** 0.5)
    rows = [values[t * side : t * side + t + 1] for t in range(side)]
    matrix = metrics.accuracy_matrix(rows)
    assert metrics.forgetting(matrix) >= -metrics.backward_transfer(matrix) - 1e-9


def test_matrix_has_nothing_above_the_diagonal() -> None:
    assert np.isnan(MATRIX[np.triu_indices(3, 1)]).all()
    assert not np.isnan(MATRIX[np.tril_indices(3)]).any()
