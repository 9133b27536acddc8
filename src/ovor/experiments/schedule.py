"""Submit the runs of a grid to an executor, in an order that saves work, and follow them."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors.base import Died, Executor
from ovor.experiments.folder import Folder
from ovor.experiments.status import Status, StatusReader

POLL_SECONDS = 1.0
MAX_DEATHS = 3  # of a run's workers at the same epoch


@dataclass(frozen=True)
class Job:
    """A run of the grid, its result folder, and the VOR cache that it shares with its family."""

    name: str
    run: Run
    path: Path
    vor_cache: Path | None


class Display:
    """Shows a person how a grid goes; this one shows nothing."""

    live = False  # whether to call `running`

    def running(self, statuses: list[tuple[str, Status]]) -> None:
        """Show how far each of these runs is, by name."""

    def say(self, sentence: str) -> None:
        """Show a sentence."""


NO_DISPLAY = Display()


class Attempt:
    """A job, how far its run is, and how often its worker died there."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.reader = StatusReader(Folder(job.path).events_file)
        self.reader.read()
        self.began = False  # a submitted run may wait in a queue
        self.farthest = self.reader.status.position
        self.deaths = 0

    def look(self) -> None:
        """Read what the run has appended to its events."""
        self.began |= self.reader.read()

    def worker_died(self, why: str) -> str:
        """Return a sentence about it, or raise an error if another try is of no use.

        Time limits and preemption may end a long run many times, so only deaths since it last came
        farther count.
        """
        self.look()
        position, self.began = self.reader.status.position, False
        self.deaths = 1 if position > self.farthest else self.deaths + 1
        self.farthest = max(position, self.farthest)
        if self.deaths == MAX_DEATHS:
            raise OvorError(
                f"The worker of {self.job.name} died {MAX_DEATHS} times at the same epoch ({why}), "
                "perhaps for lack of memory: the same command continues."
            )
        return f"{self.job.name}: its worker died ({why}), another one continues it"


def run_jobs(
    jobs: list[Job], executor: Executor, display: Display = NO_DISPLAY
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield each job's result as it comes; a run whose worker died is submitted again."""
    waiting, held = hold_families(jobs)
    submitted: dict[Path, Attempt] = {}
    while waiting or submitted:
        while waiting and (executor.jobs is None or len(submitted) < executor.jobs):
            attempt = waiting.popleft()
            job = attempt.job
            executor.submit(job.run, job.path, job.vor_cache)
            submitted[job.path] = attempt
        for path, outcome in executor.ended(POLL_SECONDS):
            attempt = submitted.pop(path)
            if isinstance(outcome, Died):
                display.say(attempt.worker_died(outcome.why))
                waiting.appendleft(attempt)
                continue
            if attempt.job.vor_cache:
                waiting.extend(held.pop(attempt.job.vor_cache, []))
            yield attempt.job, outcome
        if display.live:
            display.running(statuses(submitted))


def hold_families(jobs: list[Job]) -> tuple[deque[Attempt], dict[Path, list[Attempt]]]:
    """Return what may run at once and, by VOR cache, what waits for the first of its family.

    The later ones then find in the cache all that they have in common, so no two runs of a family
    ever compute or write it at the same time.
    """
    now: deque[Attempt] = deque()
    held: dict[Path, list[Attempt]] = {}
    for job in jobs:
        if job.vor_cache in held:
            held[job.vor_cache].append(Attempt(job))
        else:
            now.append(Attempt(job))
            if job.vor_cache:
                held[job.vor_cache] = []
    return now, held


def statuses(submitted: dict[Path, Attempt]) -> list[tuple[str, Status]]:
    """Return how far each run is that has begun, by name."""
    for attempt in submitted.values():
        attempt.look()
    return [(one.job.name, one.reader.status) for one in submitted.values() if one.began]
