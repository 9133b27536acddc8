"""Intervals of paired differences and of shares, and Student's t, against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binomtest, ttest_rel

from ovor.metrics import wilson
from ovor.report.statistics import Difference, paired, student_t

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


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        # Only seeds that both have count, and equal differences are certain.
        ({0: 2.0, 1: 3.5, 7: 99.0}, {0: 0.5, 1: 2.0, 8: -99.0}, (1.5, 1.5, 1.5, 2)),
        ({3: 2.0}, {3: 0.5}, (1.5, None, None, 1)),  # one seed has no interval
        ({0: 1.0}, {1: 1.0}, None),
    ],
)
def test_few_seeds(
    ours: dict[int, float],
    theirs: dict[int, float],
    expected: tuple[float, float | None, float | None, int] | None,
) -> None:
    found = paired(ours, theirs)
    assert found == (expected and Difference(*expected))
    if found is not None:
        assert found.clear is (True if found.seeds > 1 else None)


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_share_is_wilson_s(counts: tuple[int, int]) -> None:
    right, images = counts
    expected = binomtest(right, images).proportion_ci(0.95, method="wilson")
    assert wilson(right, images) == pytest.approx((100 * expected.low, 100 * expected.high))


def test_of_no_image_nothing_is_known() -> None:
    assert wilson(0, 0) == (0, 100)
