"""Do the runs of a table: rows times seeds, on this machine or on others.

Finished runs are skipped and interrupted ones continue, so a grid can be stopped at any time.
"""

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ovor.config import RUN, Run
from ovor.errors import OvorError
from ovor.experiments.executors.base import Executor
from ovor.experiments.executors.local import on_this_machine
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.schedule import NO_DISPLAY, Display, Job, run_jobs
from ovor.experiments.tables import Row

VOR_CACHES = ".vor-cache"  # in the grid's folder, while it runs


def run_of(row: Row, seed: int) -> Run:
    return replace(row.run, seed=seed, threads=1)


def folder_of(out: Path, row: Row, seed: int) -> Folder:
    """Return the run's folder, named by its settings, so that tables share their common runs."""
    run = run_of(row, seed)
    data = re.sub("[^a-z0-9-]", "_", run.data)[-40:]
    name = "-".join((data, *run.arrival, run.name)).replace(" ", "-")
    return Folder(out / f"{name}-seed{seed}-{digest(run)}")


def done(folder: Folder, run: Run) -> bool:
    return folder.finished and (run.keep == "last" or folder.drift_file.exists())


def digest(run: Run) -> str:
    return hashlib.sha256(RUN.dump_json(run.essence, exclude_defaults=True)).hexdigest()[:10]


def family(run: Run) -> str | None:
    """Return a name that runs have in common that differ in VOR's settings alone; None without VOR.

    The head phase alone is theirs; what comes before, they share through a VOR cache.
    """
    if run.vor is None:
        return None
    common = replace(type(run.vor)(), epochs=run.vor.epochs, refresh=run.vor.refresh)
    return digest(replace(run, vor=common))


def run_grid(
    rows: list[Row], seeds: list[int], out: Path, jobs: int
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Do the runs in `jobs` processes of this machine, and yield every result."""
    return run_on(on_this_machine(jobs, execute_one), rows, seeds, out)


def run_on(
    place: AbstractContextManager[Executor],
    rows: list[Row],
    seeds: list[int],
    out: Path,
    display: Display = NO_DISPLAY,
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Yield every result, those that exist first; a run that is in several rows is done once."""
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
    if not todo:
        return
    jobs = [
        Job(f"{row.label}, seed {seed}", run_of(row, seed), folder_of(out, row, seed).path, cache)
        for row, seed, cache in in_order([same[0] for same in todo.values()], out / VOR_CACHES)
    ]
    with place as executor:
        for job, result in run_jobs(jobs, executor, display):
            yield from ((row, seed, result) for row, seed in todo[job.path])
    for used in {job.vor_cache for job in jobs if job.vor_cache}:
        shutil.rmtree(used, ignore_errors=True)


def in_order(todo: list[tuple[Row, int]], caches: Path) -> Iterator[tuple[Row, int, Path | None]]:
    """Yield the first run of each family before the others, each with the family's VOR cache.

    A run that is the only one of its family has none, unless a stopped grid has left one to use up.
    """
    families = [family(run_of(row, seed)) for row, seed in todo]
    sizes = Counter(families)
    seen: set[str | None] = set()
    later = []
    for (row, seed), name in zip(todo, families, strict=True):
        cache = caches / name if name else None
        if cache and sizes[name] == 1 and not cache.exists():
            cache = None
        if cache and name in seen:
            later.append((row, seed, cache))
        else:
            seen.add(name)
            yield row, seed, cache
    yield from later


def execute_one(run: Run, path: Path, vor_cache: Path | None) -> dict[str, Any]:
    """Do one run of a grid, in the worker; the parent needs no torch."""
    from ovor.experiments.drift import measure_drift
    from ovor.experiments.runner import execute

    folder = Folder(path)
    result = execute(run, folder, vor_cache=vor_cache, diagnostics=True)
    if run.keep == "tasks":
        measure_drift(folder)
    return result
