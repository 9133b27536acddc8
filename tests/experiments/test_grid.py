"""A grid runs what is missing, skips what is done, and shows means over seeds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ovor.config import OvorError, Run
from ovor.experiments import grid
from ovor.presets import VOR_PRESETS, settings
from ovor.prompts import PROMPTS


def test_missing_runs_are_done_and_finished_ones_are_not_repeated(
    tiny_run: Run, tmp_path: Path
) -> None:
    rows = [grid.Row("plain", replace(tiny_run, vor=None)), grid.Row("with VOR", tiny_run)]
    first = list(grid.run_grid(rows, [0], tmp_path, jobs=2))
    assert {(row.label, seed) for row, seed, _ in first} == {("plain", 0), ("with VOR", 0)}
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(list(grid.run_grid(rows, [0, 1], tmp_path, jobs=2))) == 4
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())
    entries = grid.collect(rows, [0, 1], tmp_path)
    values = [grid.folder_of(tmp_path, rows[0], s).result()["metrics"]["A_T"] for s in (0, 1)]
    assert grid.cells(entries[0])[1] == f"{np.mean(values):.2f} ± {np.std(values):.2f}"


def test_results_of_other_settings_are_not_taken_for_these(tiny_run: Run, tmp_path: Path) -> None:
    row = grid.Row("plain", replace(tiny_run, vor=None))
    folder = grid.folder_of(tmp_path, row, 0)
    folder.start(grid.run_of(row, 0))
    folder.finish({"metrics": {}})
    other = grid.Row("plain", replace(row.run, lr=0.5))
    with pytest.raises(OvorError, match="other settings"):
        list(grid.run_grid([other], [0], tmp_path, jobs=1))


def test_results_of_two_backbones_do_not_make_one_table(tiny_run: Run, tmp_path: Path) -> None:
    rows = [grid.Row(name, tiny_run) for name in ("one", "two")]
    for row in rows:
        result = {
            "seed": 0,
            "metrics": {"A_T": 1.0, "F_T": 0.0},
            "seconds": 1,
            "learnable_parameters": 1,
            "backbone": {"sha256": row.label},
        }
        folder = grid.folder_of(tmp_path, row, 0)
        folder.start(grid.run_of(row, 0))
        folder.finish(result)
    with pytest.raises(OvorError, match="different backbones"):
        grid.collect(rows, [0], tmp_path)


def test_rows_not_run_yet_say_so(tiny_run: Run, tmp_path: Path) -> None:
    entries = grid.collect([grid.Row("plain", tiny_run)], [0], tmp_path)
    assert "| plain | not run yet | not run yet |" in grid.as_markdown(entries)


def test_the_core_grid_has_every_method_and_the_controls() -> None:
    rows = {row.label: row.run for row in grid.core("quickdraw")}
    assert set(PROMPTS) <= set(rows)
    assert all(rows[f"{method}+vor"].vor is not None for method in PROMPTS)
    assert len(rows) == 2 * len(PROMPTS) + len(VOR_PRESETS) - 1
    assert len({repr(run) for run in rows.values()}) == len(rows)


def test_released_preset_is_the_released_behaviour() -> None:
    vor = settings("quickdraw", "ovor", "released").vor
    assert vor is not None
    assert not vor.npos.add_boundary
    assert (vor.npos.space, vor.npos.self_neighbor, vor.npos.shuffle) == ("mixed", True, False)
