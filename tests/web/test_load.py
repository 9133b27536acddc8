"""Sixteen clients ask while a task is taught: no request is lost, and none is answered wrong."""

from pathlib import Path

import pytest

from benchmarks.serving import measure, too_small, under_load


def test_a_few_seconds_of_load(tmp_path: Path) -> None:
    load, wrong = under_load(5, tmp_path, epochs=4, each=12)
    assert load.states == ["done"]
    assert {answer.status for answer in load.answers} == {200}
    assert wrong == 0
    assert {answer.version for answer in load.answers} == {1, 2}
    assert load.part("while")


def test_a_queue_that_is_too_small(tmp_path: Path) -> None:
    load = too_small(2, tmp_path)
    assert {answer.status for answer in load.answers} == {200, 429}
    assert all(a.retry_after.isdecimal() for a in load.answers if a.status == 429)


@pytest.mark.slow
def test_a_minute_of_load() -> None:
    assert all(row.met is not False for row in measure(quick=False))
