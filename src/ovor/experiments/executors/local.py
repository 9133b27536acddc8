"""Execute the runs of a grid in processes of this machine, each with one thread."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from ovor.children import Children
from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors.base import Executor, Outcome

Work = Callable[[Run, Path, Path | None], dict[str, Any]]


class LocalExecutor:
    jobs: int | None = None  # the pool has a queue

    def __init__(self, pool: ProcessPoolExecutor, work: Work) -> None:
        self.pool, self.work = pool, work
        self.running: dict[Future[dict[str, Any]], Path] = {}

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        self.running[self.pool.submit(self.work, run, path, vor_cache)] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        ready, _ = wait(self.running, seconds, FIRST_COMPLETED)
        for future in ready:
            yield self.running.pop(future), future.result()


@contextmanager
def on_this_machine(jobs: int, work: Work) -> Iterator[Executor]:
    """Start so many workers, each of which calls `work` for one run after another."""
    workers = Children()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            yield LocalExecutor(pool, work)
        except BrokenProcessPool as error:
            raise OvorError(
                "A run's process died, perhaps for lack of memory: the same command continues; "
                "--jobs 1 needs the least."
            ) from error
        except BaseException:
            # What still runs has its checkpoint: end it at once.
            pool.shutdown(wait=False, cancel_futures=True)
            workers.terminate()
            raise


def end_with_parent() -> None:
    """Let a worker end at Ctrl-C without a word, and when the parent is gone.

    Its checkpoint is whole at any moment.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    Thread(target=exit_without, args=(os.getppid(),), daemon=True).start()


def exit_without(parent: int) -> None:
    while os.getppid() == parent:
        sleep(1)
    os._exit(143)
