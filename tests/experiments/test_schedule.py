"""A grid's runs are submitted in an order that saves work, followed, and tried again."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ovor.config import Run
from ovor.errors import OvorError
from ovor.events import EpochEnds, RunBegins, TaskEnds, WorkerStarts
from ovor.experiments.executors.base import Died
from ovor.experiments.folder import Folder
from ovor.experiments.progress import status_table
from ovor.experiments.schedule import Display, Job, run_jobs
from ovor.experiments.status import Status, StatusReader


class Sentences(Display):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


class Script:
    """An executor that ends runs with these outcomes, in the order that they come."""

    def __init__(self, *outcomes: dict[str, Any] | Died, jobs: int | None = None) -> None:
        self.jobs = jobs
        self.outcomes = deque(outcomes)
        self.submitted: deque[Path] = deque()
        self.at_once: list[int] = []

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        self.submitted.append(path)
        self.at_once.append(len(self.submitted))

    def ended(self, seconds: float) -> Iterator[tuple[Path, dict[str, Any] | Died]]:
        yield self.submitted.popleft(), self.outcomes.popleft()


def job(name: str, folder: Path, vor_cache: Path | None = None) -> Job:
    return Job(name, Run(), folder / name, vor_cache)


def test_the_others_of_a_family_wait_for_its_first(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    jobs = [job("first", tmp_path, cache), job("alone", tmp_path), job("second", tmp_path, cache)]
    script = Script({}, {}, {})
    assert [one.name for one, _ in run_jobs(jobs, script)] == ["first", "alone", "second"]
    assert script.at_once == [1, 2, 2]  # "second" came when "first" was done


def test_no_more_runs_at_a_time_than_asked_for(tmp_path: Path) -> None:
    script = Script({}, {}, {}, jobs=2)
    assert len(list(run_jobs([job(c, tmp_path) for c in "abc"], script))) == 3
    assert max(script.at_once) == 2


def test_a_run_whose_worker_died_is_submitted_again(tmp_path: Path) -> None:
    display = Sentences()
    script = Script(Died("killed"), {"A": 1})
    ((_, result),) = run_jobs([job("unlucky", tmp_path)], script, display)
    assert result == {"A": 1}
    assert display.said == ["unlucky: its worker died (killed), another one continues it"]


def test_a_run_that_always_dies_at_the_same_place_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(OvorError, match=r"died 3 times at the same epoch \(no memory\)"):
        list(run_jobs([job("hopeless", tmp_path)], Script(*[Died("no memory")] * 3)))


def test_a_run_that_comes_farther_each_time_may_die_often(tmp_path: Path) -> None:
    """As a long run does under a time limit."""

    class Limit(Script):
        def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
            super().submit(run, path, vor_cache)
            path.mkdir(exist_ok=True)
            Folder(path).log(EpochEnds(task=0, epoch=len(self.at_once)))

    script = Limit(*[Died("time limit")] * 8, {"A": 1})
    assert len(list(run_jobs([job("long", tmp_path)], script))) == 1


def test_events_tell_how_far_a_run_is(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    reader = StatusReader(folder.events_file)
    assert not reader.read()
    folder.log(WorkerStarts("there", 1))
    folder.log(RunBegins(epochs=(4, 4)))
    assert reader.read()
    assert not reader.read()
    folder.log(TaskEnds(0, (50.0, 70.0)))
    with folder.events_file.open("a") as file:
        file.write('{"event": "ep')  # killed here
    assert reader.read()
    assert reader.status == Status(1, 0, (4, 4), 60.0, "there")
    folder.log(EpochEnds(1, 1))  # on a line of its own
    assert reader.read()
    assert reader.status.position == (1, 2)
    cells = [next(iter(column.cells)) for column in status_table([("x", reader.status)]).columns]
    assert cells == ["x", "task 2/2", "epoch 3/4", "A_1 60.00", "there"]
