"""What a grid prints: means and deviations, the paper's figures, and what was not run yet."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments import summary
from ovor.experiments.grid import execute_one, folder_of, run_of
from ovor.experiments.tables import Row, Section, sections
from ovor.paper import paper


def finish(out: Path, row: Row, seed: int, accuracy: float, **more: Any) -> None:
    folder = folder_of(out, row, seed)
    folder.start(run_of(row, seed))
    result = {
        "seed": seed,
        "metrics": {"A_T": accuracy, "F_T": 2 * accuracy},
        "seconds": 30,
        "learnable_parameters": 1234,
        "backbone": {"sha256": "same"},
    }
    folder.finish(result | more)


@pytest.fixture
def pair(tiny_run: Run) -> Section:
    plain = Row("oneprompt", replace(tiny_run, vor=None), (73.34, 5.36))
    rows = [plain, Row("oneprompt+vor", tiny_run, (75.61, 5.77)), Row("l2p", tiny_run)]
    return Section("imagenet-r, 10 tasks", rows, "imagenet-r/10", True)


def test_means_gains_and_differences_by_hand(pair: Section, tmp_path: Path) -> None:
    for seed, accuracy in ((0, 70.0), (1, 72.0)):
        finish(tmp_path, pair.rows[0], seed, accuracy)
    finish(tmp_path, pair.rows[1], 1, 75.0)
    pair = replace(pair, rows=pair.rows[:2])
    found = summary.collect([pair], "accuracy", [0, 1], tmp_path)
    headings, (plain, vor) = summary.accuracy_lines(found[0])
    assert headings == ("", "A_T ↑", "F_T ↓", "VOR's gain", "paper", "difference", "parameters")
    assert plain[:3] == ("oneprompt", "71.00 ± 1.00", "142.00 ± 2.00")  # population deviation
    assert plain[3:] == ("", "73.34 / 5.36", "-2.34 / +136.64", "1,234")
    # The gain is over the seeds that both have: 75 - 72.
    assert dict(zip(headings, vor, strict=True))["VOR's gain"] == "+3.00"  # one has no deviation
    assert "3 runs, 2 minutes" in summary.as_markdown(found, "accuracy")


def test_the_std_tables_show_the_papers_deviations(tmp_path: Path) -> None:
    _, parts = sections("std-tables", [], [10], ["ovor", "simplecil", "linear"])
    found = summary.collect(parts[:1], "accuracy", [0], tmp_path)
    headings, lines = summary.accuracy_lines(found[0])
    column = {line[0]: line[headings.index("paper")] for line in lines}
    assert column["oneprompt+vor"] == "75.61 ± 0.45 / 5.77 ± 0.53"
    assert column["simplecil"] == "61.28"  # quoted there without any
    assert column["linear"] == ""


def test_other_data_have_no_difference_to_the_paper(pair: Section, tmp_path: Path) -> None:
    finish(tmp_path, pair.rows[0], 0, 70.0)
    elsewhere = replace(pair, comparable=False, title="quickdraw, 10 tasks")
    (found,) = summary.collect([elsewhere], "accuracy", [0], tmp_path)
    headings, _ = summary.accuracy_lines(found)
    assert "difference" not in headings
    text = summary.as_markdown([found], "accuracy")
    assert "*quickdraw, 10 tasks (paper: imagenet-r/10)*" in text


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("main-table", ["quickdraw"], "oneprompt-deep+vor "),
        ("ablation", ["quickdraw"], "(default)"),
        ("vor-table", [], "difference"),
    ],
)
def test_nothing_is_cut_off_in_a_narrow_terminal(
    name: str, data: list[str], words: str, tmp_path: Path
) -> None:
    table, parts = sections(name, data, [], [])
    for row in [row for part in parts for row in part.rows]:
        for seed in (0, 1):
            finish(tmp_path, row, seed, 70.0)
    found = summary.collect(parts, table.measure, [0, 1], tmp_path)
    for width in (80, 100, 120):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(summary.as_tables(found, table.measure, width))
        text = console.export_text()
        assert "…" not in text
        assert text.count("70.00 ± 0.00") >= len(parts[0].rows)
        assert "paper" in text
        assert words in text


def test_rows_not_run_yet_say_so(pair: Section, tmp_path: Path) -> None:
    text = summary.as_markdown(summary.collect([pair], "accuracy", [0], tmp_path), "accuracy")
    assert "| oneprompt | not run yet | not run yet |" in text
    assert "0 runs" in text


def test_results_of_two_backbones_do_not_make_one_table(pair: Section, tmp_path: Path) -> None:
    finish(tmp_path, pair.rows[0], 0, 1.0)
    finish(tmp_path, pair.rows[1], 0, 1.0, backbone={"sha256": "other"})
    with pytest.raises(OvorError, match="different backbones"):
        summary.collect([pair], "accuracy", [0], tmp_path)


def test_change_with_the_task_given_is_last_minus_first(pair: Section, tmp_path: Path) -> None:
    given = [[90.0, None, None], [88.0, 80.0, None], [91.5, 77.0, 60.0]]
    for seed in (0, 1):
        finish(tmp_path, pair.rows[0], seed, 1.0, accuracy_task_id_given=given)
    pair = replace(pair, rows=pair.rows[:1])
    (found,) = summary.collect([pair], "task-id-given", [0, 1], tmp_path)
    assert found["rows"][0]["by_task"]["change"] == [[1.5, -3.0]] * 2
    printed = paper()["task_id_given_change_oneprompt_imagenet-r/10"]
    elsewhere = {**found, "comparable": False}
    _, lines = summary.task_lines(elsewhere, "task-id-given")
    assert lines[0] == ("1", "1.50 ± 0.00", f"{printed[0]:.2f}")
    assert lines[1] == ("2", "-3.00 ± 0.00", f"{printed[1]:.2f}")


def test_drift_is_measured_and_shown_by_task(tiny_run: Run, tmp_path: Path) -> None:
    row = Row("oneprompt", replace(tiny_run, vor=None, keep="tasks"))
    folders = [folder_of(tmp_path, row, seed) for seed in (0, 1)]
    for seed, folder in enumerate(folders):
        execute_one(run_of(row, seed), folder.path, None)  # as the workers of a grid do
    both = [json.loads(folder.drift_file.read_text()) for folder in folders]
    drift = both[0]
    assert all(len(values) == 2 for values in drift.values())  # tasks 2 and 3 of 3
    assert all(0 < value <= 100.001 for name in drift for value in drift[name])
    assert drift["cosine"][0] < 100  # the prompt moved
    part = Section("somewhere, 3 tasks", [row], "imagenet-r/10", False)
    (found,) = summary.collect([part], "representation-drift", [0, 1], tmp_path)
    headings, lines = summary.task_lines(found, "representation-drift")
    assert headings == ("task", "cosine", "paper", "CKA (linear)", "paper", "CKA (kernel)", "paper")
    mean = np.mean([one["cosine"][0] for one in both])
    assert lines[0][:2] == ("2", summary.mean_std([one["cosine"][0] for one in both]))
    assert lines[0][1].startswith(f"{mean:.2f}")
