"""The harness counts right, and `make bench` fails when a target is missed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as bench
from benchmarks.harness import Row, interleave, ratios
from benchmarks.table import as_json, as_markdown, from_json


def test_variants_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []
    ticks = iter(range(100))
    variants = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = interleave(variants, rounds=2, clock=lambda: next(ticks))
    assert "".join(order) == "abcabccba"
    assert seconds == {"a": [1, 1], "b": [1, 1], "c": [1, 1]}


def test_a_ratio_is_taken_round_by_round() -> None:
    assert ratios({"slow": [4.0, 9.0], "fast": [2.0, 3.0]}, "slow", "fast") == (2.0, 3.0)


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", "b", (1.5, 1.7, 1.6), at_least=1.6), True),
        (Row("a", "b", (1.5, 1.7, 1.59), at_least=1.6), False),
        (Row("a", "b", (0.5,), at_most=0.5), True),
        (Row("a", "b", (0.51,), at_most=0.5), False),
        (Row("a", "b", (79.0,), wish=80), None),
        (Row("a", "b", (1.0,)), None),
    ],
)
def test_the_median_is_held_against_the_target(row: Row, met: bool | None) -> None:
    assert row.met is met
    assert from_json(as_json(row)) == row


def test_the_spread_is_the_quartiles_or_the_extremes() -> None:
    assert Row("a", "b", (1.0, 2.0, 3.0, 4.0, 5.0)).spread == (2.0, 4.0)
    assert Row("a", "b", (3.0, 1.0, 2.0)).spread == (1.0, 3.0)


def test_the_table_shows_figure_target_and_verdict() -> None:
    table = as_markdown([Row("step", "released", (1.5,), at_least=1.6)])
    assert table.splitlines()[-1] == "| step | released | 1.5 x |  | at least 1.6 | **no** |"


@pytest.mark.parametrize(("figure", "code"), [(1.5, 1), (1.7, 0)])
def test_a_missed_target_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], figure: float, code: int
) -> None:
    def measure(quick: bool) -> Iterator[Row]:
        yield Row("step", "released", (figure,), at_least=1.6)

    monkeypatch.setattr(bench, "import_module", lambda _: SimpleNamespace(measure=measure))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "step"])
    assert bench.main() == code
    assert ("missed: step" in capsys.readouterr().out) == bool(code)


def test_figures_of_parts_are_joined_but_never_of_two_modes(tmp_path: Path) -> None:
    path, row = tmp_path / "figures.json", Row("a", "b", (1.0,))
    bench.write(path, {"memory": [row]}, quick=False)
    bench.write(path, {"step": [row]}, quick=False)
    assert list(json.loads(path.read_text())["parts"]) == ["step", "memory"]
    bench.write(path, {"input": [row]}, quick=True)
    assert list(json.loads(path.read_text())["parts"]) == ["input"]
