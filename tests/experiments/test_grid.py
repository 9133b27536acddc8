"""A grid runs what is missing, skips what is done, and shares what runs have in common."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ovor.config import RUN, Run
from ovor.errors import OvorError
from ovor.experiments import grid
from ovor.experiments.tables import Row


def test_missing_runs_are_done_and_finished_ones_are_not_repeated(
    tiny_run: Run, tmp_path: Path
) -> None:
    rows = [Row("plain", replace(tiny_run, vor=None)), Row("with VOR", tiny_run)]
    first = list(grid.run_grid(rows, [0], tmp_path, jobs=2))
    assert {(row.label, seed) for row, seed, _ in first} == {("plain", 0), ("with VOR", 0)}
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(list(grid.run_grid(rows, [0, 1], tmp_path, jobs=2))) == 4
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())


def test_a_run_of_two_tables_has_one_folder(tiny_run: Run, tmp_path: Path) -> None:
    one, other = Row("in one table", tiny_run), Row("in another", tiny_run)
    assert grid.folder_of(tmp_path, one, 3).path == grid.folder_of(tmp_path, other, 3).path
    changed = Row("in one table", replace(tiny_run, lr=0.5))
    folders = [grid.folder_of(tmp_path, row, seed) for row in (one, changed) for seed in (0, 1)]
    assert len({folder.path for folder in folders}) == 4


def test_what_changes_the_time_alone_does_not_make_another_run(
    tiny_run: Run, tmp_path: Path
) -> None:
    quick = Row("quick", replace(tiny_run, workers=2, cache=0.1))
    ((_, _, result),) = grid.run_grid([Row("plain", tiny_run)], [0], tmp_path, jobs=1)
    found = list(grid.run_grid([quick], [0], tmp_path, jobs=1))
    assert found == [(quick, 0, result)]
    long = Row("long", replace(tiny_run, data=f"folder:/{'long/' * 100}"))
    assert len(grid.folder_of(tmp_path, long, 0).path.name) < 200


def test_a_run_in_two_rows_is_done_once(tiny_run: Run, tmp_path: Path) -> None:
    rows = [Row("one", tiny_run), Row("two", tiny_run)]
    results = list(grid.run_grid(rows, [0], tmp_path, jobs=2))
    assert [row.label for row, _, _ in results] == ["one", "two"]
    events = grid.folder_of(tmp_path, rows[0], 0).events_file.read_text()
    assert events.count('"finished"') == 1


def test_runs_that_differ_in_vor_share_a_stem_and_leave_none(tiny_run: Run, tmp_path: Path) -> None:
    assert tiny_run.vor is not None
    weights = (0.1, 0.2, 0.3)
    rows = [Row(f"{w}", replace(tiny_run, vor=replace(tiny_run.vor, weight=w))) for w in weights]
    todo = [(row, seed) for seed in (0, 1) for row in rows]
    planned = list(grid.in_order(todo, tmp_path / ".stems"))
    # The first of each seed before all others; each seed has a stem of its own.
    assert [(row.label, seed) for row, seed, _ in planned[:2]] == [("0.1", 0), ("0.1", 1)]
    assert len({stem for _, _, stem in planned}) == 2
    results = {
        (row.label, seed): result for row, seed, result in grid.run_grid(rows, [0], tmp_path, 1)
    }
    assert len(results) == 3
    assert not list((tmp_path / ".stems").iterdir())
    alone = next(iter(grid.run_grid(rows[2:], [0], tmp_path / "alone", 1)))
    assert alone[2]["accuracy"] == results["0.3", 0]["accuracy"]


def test_the_stem_of_a_stopped_grid_is_used_and_removed(tiny_run: Run, tmp_path: Path) -> None:
    row = Row("last of its family", tiny_run)
    name = grid.family(grid.run_of(row, 0))
    assert name is not None
    (tmp_path / ".stems" / name).mkdir(parents=True)
    ((_, _, stem),) = grid.in_order([(row, 0)], tmp_path / ".stems")
    assert stem == tmp_path / ".stems" / name
    list(grid.run_grid([row], [0], tmp_path, jobs=1))
    assert not stem.exists()


def test_a_run_without_family_has_no_stem(tiny_run: Run, tmp_path: Path) -> None:
    rows = [Row("plain", replace(tiny_run, vor=None)), Row("with VOR", tiny_run)]
    assert [stem for _, _, stem in grid.in_order([(row, 0) for row in rows], tmp_path)] == [
        None
    ] * 2


def test_results_of_other_settings_are_not_taken_for_these(tiny_run: Run, tmp_path: Path) -> None:
    row = Row("plain", replace(tiny_run, vor=None))
    folder = grid.folder_of(tmp_path, row, 0)
    folder.start(replace(grid.run_of(row, 0), lr=0.5))
    with pytest.raises(OvorError, match="other settings"):
        list(grid.run_grid([row], [0], tmp_path, jobs=1))


SCRIPT = """
import sys
from pathlib import Path
from ovor.config import RUN
from ovor.experiments import grid
from ovor.experiments.tables import Row

if __name__ == "__main__":
    run = RUN.validate_json(Path(sys.argv[1]).read_bytes())
    list(grid.run_grid([Row("long", run)], [0], Path(sys.argv[2]), 1))
"""


def test_workers_go_when_the_grid_is_killed(tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "go.py").write_text(SCRIPT)
    run = replace(tiny_run, epochs=100_000)
    (tmp_path / "run.json").write_bytes(RUN.dump_json(run))
    out = tmp_path / "out"
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "go.py", tmp_path / "run.json", out], stderr=subprocess.DEVNULL
    )
    events = grid.folder_of(out, Row("long", run), 0).events_file
    wait_until(lambda: events.exists() and "epoch" in events.read_text())
    children = subprocess.run(
        ["pgrep", "-P", str(parent.pid)], capture_output=True, text=True, check=True
    )
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not any(alive(int(pid)) for pid in children.stdout.split()))


def wait_until(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")
