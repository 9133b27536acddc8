"""Intervals of paired differences and Student's t, against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import ttest_rel

from ovor.report.statistics import paired, student_t

VALUES = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 3))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_students_t_is_scipys(confidence: float) -> None:
    for freedom in (*range(1, 60), 99, 100, 999, 1000, 9999, 10_000):
        expected = stdtrit(freedom, (1 + confidence) / 2)
        assert student_t(confidence, freedom) == pytest.approx(expected, rel=1e-10)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=9))
def test_the_interval_is_that_of_a_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*pairs, strict=True)
    if np.ptp(np.subtract(ours, theirs)) < 1e-6:
        return  # scipy has no interval for differences that are all equal
    expected = ttest_rel(ours, theirs).confidence_interval(0.95)
    found = paired(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert found is not None
    assert found.low == pytest.approx(expected.low, abs=1e-8)
    assert found.high == pytest.approx(expected.high, abs=1e-8)
    assert found.mean == pytest.approx(np.mean(ours) - np.mean(theirs), abs=1e-8)
    assert found.clear is not (found.low <= 0 <= found.high)


def test_only_seeds_that_both_have_count() -> None:
    found = paired({0: 1.0, 1: 5.0, 7: 99.0}, {0: 0.0, 1: 3.0, 8: -99.0})
    assert found is not None
    assert (found.mean, found.seeds) == (1.5, 2)


def test_one_seed_has_a_difference_but_no_interval() -> None:
    found = paired({3: 2.0}, {3: 0.5})
    assert found is not None
    assert (found.mean, found.low, found.high, found.clear) == (1.5, None, None, None)


def test_without_a_common_seed_there_is_nothing_to_say() -> None:
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_equal_differences_are_certain() -> None:
    found = paired({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.0})
    assert found is not None
    assert (found.low, found.high, found.clear) == (1.0, 1.0, True)
