"""Many runs over rows and seeds, each in a process of its own.

What is done is skipped and what was interrupted continues, so a grid can be stopped at any time.
"""

import hashlib
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from ovor.config import RUN, OvorError, Run
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.tables import Row


def run_of(row: Row, seed: int) -> Run:
    return replace(row.run, seed=seed, threads=1)


def folder_of(out: Path, row: Row, seed: int) -> Folder:
    """Named by all settings that are not the default, so that tables share their common runs."""
    run = run_of(row, seed)
    data = re.sub("[^a-z0-9-]", "_", run.data)[-40:]
    return Folder(out / f"{data}-{run.name}-seed{seed}-{digest(run)}")


def done(folder: Folder, run: Run) -> bool:
    return folder.finished and (run.keep == "last" or folder.drift_file.exists())


def digest(run: Run) -> str:
    return hashlib.sha256(RUN.dump_json(run.essence, exclude_defaults=True)).hexdigest()[:10]


def family(run: Run) -> str | None:
    """Equal for runs that differ in VOR's settings alone, and so share a stem; else None."""
    if run.vor is None:
        return None
    common = replace(type(run.vor)(), epochs=run.vor.epochs, refresh=run.vor.refresh)
    return digest(replace(run, vor=common))


def run_grid(
    rows: list[Row], seeds: list[int], out: Path, jobs: int, tensorboard: bool = False
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Yield every result, those that exist first; each job computes with one thread.

    A run that stands in several rows is done once.
    """
    todo: dict[Path, list[tuple[Row, int]]] = {}
    for seed in seeds:
        for row in rows:
            folder, run = folder_of(out, row, seed), run_of(row, seed)
            if folder.run_file.exists() and read_run(folder.run_file).essence != run.essence:
                raise OvorError(
                    f"{folder.path} was started with other settings: remove it, or choose "
                    "another --out."
                )
            if done(folder, run):
                yield row, seed, folder.result()
            else:
                todo.setdefault(folder.path, []).append((row, seed))
    used: set[Path] = set()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=die_quietly) as pool:
        waiting: dict[Future[dict[str, Any]], list[tuple[Row, int]]] = {}
        for row, seed, stem in in_order([same[0] for same in todo.values()], out / ".stems"):
            path = folder_of(out, row, seed).path
            used |= {stem} if stem else set()
            work = (run_of(row, seed), path, stem, tensorboard)
            waiting[pool.submit(execute_one, *work)] = todo[path]
        try:
            while waiting:
                ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ready:
                    result = future.result()
                    yield from ((row, seed, result) for row, seed in waiting.pop(future))
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
    for stem in used:
        shutil.rmtree(stem)


def in_order(todo: list[tuple[Row, int]], stems: Path) -> Iterator[tuple[Row, int, Path | None]]:
    """The first of each family before the others, which then find what it did."""
    families = [family(run_of(row, seed)) for row, seed in todo]
    sizes = Counter(families)
    seen: set[str | None] = set()
    later = []
    for (row, seed), name in zip(todo, families, strict=True):
        stem = stems / name if name else None
        if stem and sizes[name] == 1 and not stem.exists():  # what a stopped grid left is used up
            stem = None
        if stem and name in seen:
            later.append((row, seed, stem))
        else:
            seen.add(name)
            yield row, seed, stem
    yield from later


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


def execute_one(
    run: Run, path: Path, stem: Path | None, tensorboard: bool = False
) -> dict[str, Any]:
    # In the worker: the parent needs no torch.
    from ovor.experiments.closeup import measure_closeup
    from ovor.experiments.drift import measure_drift
    from ovor.experiments.single import execute, silent
    from ovor.experiments.tensorboard import Board

    folder = Folder(path)
    result = execute(run, folder, Board(folder, run) if tensorboard else silent, stem)
    if run.keep == "tasks":
        measure_drift(folder)
    with suppress(OvorError):  # the result stands; whoever makes a report is told
        measure_closeup(folder)
    return result
