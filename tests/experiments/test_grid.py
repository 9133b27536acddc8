"""A grid runs what is missing, skips what is done, and shares what runs have in common."""

import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pytest

from ovor.cli.grid import grid_command
from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments import grid
from ovor.experiments.executors.local import on_this_machine
from ovor.experiments.tables import Row, sections
from processes import end, start, wait_until


class Here:
    """An executor that does each run in this process, which need not load torch again."""

    jobs: int | None = 1

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        self.done = path, grid.execute_one(run, path, vor_cache)

    def ended(self, seconds: float) -> Iterator[tuple[Path, dict[str, Any]]]:
        yield self.done


def run_here(rows: list[Row], seeds: list[int], out: Path) -> list[tuple[Row, int, dict[str, Any]]]:
    return list(grid.run_on(nullcontext(Here()), rows, seeds, out))


def asleep(run: Run, path: Path, vor_cache: Path | None) -> dict[str, Any]:
    path.touch()
    time.sleep(100)
    return {}


def test_missing_runs_are_done_and_finished_ones_are_not_repeated(
    tiny_run: Run, tmp_path: Path
) -> None:
    rows = [Row("plain", replace(tiny_run, vor=None)), Row("with VOR", tiny_run)]
    first = list(grid.run_grid(rows, [0], tmp_path, jobs=2))
    assert {(row.label, seed) for row, seed, _ in first} == {("plain", 0), ("with VOR", 0)}
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(run_here(rows, [0, 1], tmp_path)) == 4
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
    ((_, _, result),) = run_here([Row("plain", tiny_run)], [0], tmp_path)
    assert run_here([quick], [0], tmp_path) == [(quick, 0, result)]
    long = Row("long", replace(tiny_run, data=f"folder:/{'long/' * 100}"))
    assert len(grid.folder_of(tmp_path, long, 0).path.name) < 200


def test_a_run_in_two_rows_is_done_once(tiny_run: Run, tmp_path: Path) -> None:
    rows = [Row("one", tiny_run), Row("two", tiny_run)]
    results = run_here(rows, [0], tmp_path)
    assert [row.label for row, _, _ in results] == ["one", "two"]
    events = grid.folder_of(tmp_path, rows[0], 0).events_file.read_text()
    assert events.count('"finished"') == 1


def test_runs_that_differ_in_vor_share_a_cache_and_leave_none(
    tiny_run: Run, tmp_path: Path
) -> None:
    assert tiny_run.vor is not None
    weights = (0.1, 0.2, 0.3)
    rows = [Row(f"{w}", replace(tiny_run, vor=replace(tiny_run.vor, weight=w))) for w in weights]
    todo = [(row, seed) for seed in (0, 1) for row in rows]
    planned = list(grid.in_order(todo, tmp_path))
    # The first of each seed before all others; each seed has a cache of its own.
    assert [(row.label, seed) for row, seed, _ in planned[:2]] == [("0.1", 0), ("0.1", 1)]
    assert len({cache for _, _, cache in planned}) == 2
    results = {row.label: result for row, _, result in run_here(rows, [0], tmp_path)}
    assert len(results) == 3
    assert not list((tmp_path / grid.VOR_CACHES).iterdir())
    ((_, _, alone),) = run_here(rows[2:], [0], tmp_path / "alone")
    assert alone["accuracy"] == results["0.3"]["accuracy"]


def test_the_vor_cache_of_a_stopped_grid_is_used_and_removed(tiny_run: Run, tmp_path: Path) -> None:
    row = Row("last of its family", tiny_run)
    name = grid.family(grid.run_of(row, 0))
    assert name is not None
    left = tmp_path / grid.VOR_CACHES / name
    left.mkdir(parents=True)
    assert list(grid.in_order([(row, 0)], left.parent)) == [(row, 0, left)]
    run_here([row], [0], tmp_path)
    assert not left.exists()


def test_a_run_without_family_has_no_vor_cache(tiny_run: Run, tmp_path: Path) -> None:
    rows = [Row("plain", replace(tiny_run, vor=None)), Row("with VOR", tiny_run)]
    planned = grid.in_order([(row, 0) for row in rows], tmp_path)
    assert [cache for _, _, cache in planned] == [None, None]


def test_results_of_other_settings_are_not_taken_for_these(tiny_run: Run, tmp_path: Path) -> None:
    row = Row("plain", replace(tiny_run, vor=None))
    folder = grid.folder_of(tmp_path, row, 0)
    folder.start(replace(grid.run_of(row, 0), lr=0.5))
    with pytest.raises(OvorError, match="other settings"):
        run_here([row], [0], tmp_path)


def test_a_grid_that_stops_ends_its_own_workers_alone(tmp_path: Path) -> None:
    other = get_context("fork").Process(target=time.sleep, args=(100,))
    other.start()
    before = set(active_children())  # of other tests too
    workers = set()

    def interrupted() -> None:
        with on_this_machine(1, asleep) as executor:
            executor.submit(Run(), tmp_path / "began", None)
            wait_until((tmp_path / "began").exists)
            workers.update(set(active_children()) - before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (worker,) = workers
    worker.join(60)
    assert worker.exitcode == -signal.SIGTERM
    other.join(1)  # a signal takes a moment
    assert other.is_alive()
    other.kill()
    other.join()


@pytest.mark.slow
def test_workers_go_when_the_grid_is_killed(tiny_run: Run, tmp_path: Path) -> None:
    """So do the processes that load images for them: as long as one lives, the pipes stay open."""
    images = ("--data", tiny_run.data, "--backbone", tiny_run.backbone, "--workers", "2")
    few = ("--methods", "oneprompt", "--tasks", "2", "--seeds", "0", "--epochs", "100000")
    parent = start(tmp_path, "ovor", "grid", *images, *few, "--jobs", "1", "--out", "o")
    wait_until(lambda: any('"epoch"' in f.read_text() for f in tmp_path.glob("o/*/events.jsonl")))
    parent.send_signal(signal.SIGKILL)
    assert end(parent)[0] == -signal.SIGKILL


def test_drawings_are_offered_where_data_are_missing_and_not_where_anything_else_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path / "nothing"))
    usual = ["main-table", "--methods", "simplecil", "--seeds", "0", "--jobs", "1", "--no-report"]
    with pytest.raises(OvorError, match=r"is not in .* With --data quickdraw"):
        grid_command([*usual, "--out", str(tmp_path)])

    (row,) = sections("main-table", ["quickdraw"], [], ["simplecil"])[1][0].rows
    folder = grid.folder_of(tmp_path, row, 0)
    with folder.locked(), pytest.raises(OvorError, match="Another process is at work") as busy:
        grid_command([*usual, "--data", "quickdraw", "--out", str(tmp_path)])
    assert "--data" not in str(busy.value)
