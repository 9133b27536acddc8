"""Runs in processes of this machine, each with one thread."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.executors.base import Executor, Outcome

Work = Callable[[Run, Path, Path | None], dict[str, Any]]


class LocalExecutor:
    jobs: int | None = None  # the pool has a queue

    def __init__(self, pool: ProcessPoolExecutor, work: Work) -> None:
        self.pool, self.work = pool, work
        self.running: dict[Future[dict[str, Any]], Path] = {}

    def submit(self, run: Run, path: Path, stem: Path | None) -> None:
        self.running[self.pool.submit(self.work, run, path, stem)] = path

    def ended(self, seconds: float) -> Iterator[tuple[Path, Outcome]]:
        ready, _ = wait(self.running, seconds, FIRST_COMPLETED)
        for future in ready:
            yield self.running.pop(future), future.result()


@contextmanager
def on_this_machine(jobs: int, work: Work) -> Iterator[Executor]:
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=die_quietly) as pool:
        try:
            yield LocalExecutor(pool, work)
        except BrokenProcessPool as error:
            raise OvorError(
                "A run's process died, perhaps for lack of memory: the same command continues; "
                "--jobs 1 needs the least."
            ) from error
        except BaseException:
            # What runs has its checkpoint: do not wait for it.
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def die_quietly() -> None:
    """A worker leaves it to the parent to speak of Ctrl-C, and goes when the parent is gone.

    Its checkpoint is whole at any moment.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    Thread(target=follow, args=(os.getppid(),), daemon=True).start()


def follow(parent: int) -> None:
    while os.getppid() == parent:
        sleep(1)
    os._exit(143)
