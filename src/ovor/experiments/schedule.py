"""Hands the runs of a grid to who does them, in an order that saves work, and follows them."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors.base import Died, Executor
from ovor.experiments.folder import Folder
from ovor.experiments.status import Standing, Tail

LOOK = 1.0  # seconds between looks at what runs
TRIES = 3  # for a run that comes no farther


@dataclass(frozen=True)
class Job:
    name: str
    run: Run
    path: Path
    stem: Path | None


class Watch(Protocol):
    """Who is told how it goes."""

    live: bool  # whether it shows what runs

    def running(self, standings: list[tuple[str, Standing]]) -> None: ...

    def say(self, sentence: str) -> None: ...


class Unwatched:
    live = False

    def running(self, standings: list[tuple[str, Standing]]) -> None:
        """Shows nothing."""

    def say(self, sentence: str) -> None:
        """Says nothing."""


UNWATCHED = Unwatched()


class Running:
    """A run that was handed over: where it was then, and how often it died there."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.tail = Tail(Folder(job.path).events_file)
        self.tail.read()
        self.began = False  # it may wait in a queue
        self.farthest = self.tail.standing.place
        self.deaths = 0

    def look(self) -> None:
        self.began |= self.tail.read()

    def died(self, why: str) -> str:
        """A sentence about it, or an error if trying again is no use.

        Time limits and preemption may end a long run many times, so what counts are deaths since
        it last came farther.
        """
        self.look()
        place, self.began = self.tail.standing.place, False
        self.deaths = 1 if place > self.farthest else self.deaths + 1
        self.farthest = max(place, self.farthest)
        if self.deaths == TRIES:
            raise OvorError(
                f"The worker of {self.job.name} died {TRIES} times at the same epoch ({why}), "
                "perhaps for lack of memory: the same command continues."
            )
        return f"{self.job.name}: its worker died ({why}), another one continues it"


def work_through(
    jobs: list[Job], executor: Executor, watch: Watch = UNWATCHED
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield each result as it comes."""
    waiting, held = first_of_families(jobs)
    handed: dict[Path, Running] = {}
    while waiting or handed:
        while waiting and (executor.jobs is None or len(handed) < executor.jobs):
            one = waiting.popleft()
            executor.submit(one.job.run, one.job.path, one.job.stem)
            handed[one.job.path] = one
        for path, outcome in executor.ended(LOOK):
            one = handed.pop(path)
            if isinstance(outcome, Died):
                watch.say(one.died(outcome.why))
                waiting.appendleft(one)
                continue
            if one.job.stem:
                waiting.extend(held.pop(one.job.stem, []))
            yield one.job, outcome
        if watch.live:
            watch.running(shown(handed))


def first_of_families(jobs: list[Job]) -> tuple[deque[Running], dict[Path, list[Running]]]:
    """What may run at once; and by stem what waits for the first of its family.

    Those find all that they have in common, so they never compute or write it at the same time.
    """
    now: deque[Running] = deque()
    held: dict[Path, list[Running]] = {}
    for job in jobs:
        if job.stem in held:
            held[job.stem].append(Running(job))
        else:
            now.append(Running(job))
            if job.stem:
                held[job.stem] = []
    return now, held


def shown(handed: dict[Path, Running]) -> list[tuple[str, Standing]]:
    for one in handed.values():
        one.look()
    return [(one.job.name, one.tail.standing) for one in handed.values() if one.began]
