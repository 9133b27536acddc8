"""Many runs over methods and seeds, each in a process of its own, as means over the seeds.

What is done is skipped and what was interrupted continues, so a grid can be stopped at any time.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ovor.config import OvorError, Run
from ovor.experiments.folder import Folder, read_run
from ovor.presets import VOR_PRESETS, settings

CORE_METHODS = ("oneprompt", "oneprompt-deep", "l2p", "dualprompt", "coda-p")


@dataclass(frozen=True)
class Row:
    """One line of a table: a label and the run that it stands for, whatever the seed."""

    label: str
    run: Run


def core(data: str) -> list[Row]:
    """The ten prompt methods of the paper's main table, and OVOR's controls."""
    rows = []
    for method in CORE_METHODS:
        for name in (method, f"{method}+vor"):
            rows.append(Row(name, settings(data, name)))
    for preset, label in VOR_PRESETS.items():
        if preset != "paper":
            rows.append(Row(f"oneprompt+vor: {label}", settings(data, "ovor", preset)))
    return rows


GRIDS: dict[str, Callable[[str], list[Row]]] = {"core": core}


def folder_of(out: Path, row: Row, seed: int) -> Folder:
    name = "".join(c if c.isalnum() or c in "+-" else "_" for c in row.label)
    return Folder(out / f"{name}-seed{seed}")


def run_of(row: Row, seed: int) -> Run:
    return replace(row.run, seed=seed, threads=1)


def run_grid(
    rows: list[Row], seeds: list[int], out: Path, jobs: int
) -> Iterator[tuple[Row, int, dict[str, Any]]]:
    """Yield every result, those that exist first; each job computes with one thread."""
    waiting: dict[Future[dict[str, Any]], tuple[Row, int]] = {}
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=die_quietly) as pool:
        for seed in seeds:
            for row in rows:
                folder, run = folder_of(out, row, seed), run_of(row, seed)
                if folder.run_file.exists() and read_run(folder.run_file) != run:
                    raise OvorError(
                        f"{folder.path} was started with other settings: remove it, or choose "
                        "another --out."
                    )
                if folder.finished:
                    yield row, seed, folder.result()
                else:
                    waiting[pool.submit(execute_one, run, folder.path)] = (row, seed)
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    row, seed = waiting.pop(future)
                    yield row, seed, future.result()
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
    """A worker has nothing to say about Ctrl-C: the parent does."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def execute_one(run: Run, path: Path) -> dict[str, Any]:
    from ovor.experiments.single import execute  # in the worker: the parent needs no torch

    return execute(run, Folder(path))


def collect(rows: list[Row], seeds: list[int], out: Path) -> list[dict[str, Any]]:
    """Label, seeds and metrics of each row, from the results that exist."""
    table = []
    for row in rows:
        folders = [folder_of(out, row, seed) for seed in seeds]
        results = [folder.result() for folder in folders if folder.finished]
        table.append(
            {
                "label": row.label,
                "seeds": [result["seed"] for result in results],
                "A_T": [round(result["metrics"]["A_T"], 3) for result in results],
                "F_T": [round(result["metrics"]["F_T"], 3) for result in results],
                "seconds": [result["seconds"] for result in results],
                "learnable_parameters": results[0]["learnable_parameters"] if results else None,
                "backbone": ", ".join({result["backbone"]["sha256"] for result in results}),
            }
        )
    backbones = {entry["backbone"] for entry in table if entry["backbone"]}
    if len(backbones) > 1:
        raise OvorError(f"The runs in {out} used different backbones: remove the older ones.")
    return table


def mean_std(values: list[float]) -> str:
    """Mean ± population standard deviation, the paper's convention."""
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}" if values else "not run yet"


def cells(entry: dict[str, Any]) -> tuple[str, str, str, str]:
    count = "" if entry["learnable_parameters"] is None else f"{entry['learnable_parameters']:,}"
    return entry["label"], mean_std(entry["A_T"]), mean_std(entry["F_T"]), count


HEADINGS = ("method", "A_T ↑", "F_T ↓", "learned parameters")


def as_table(entries: list[dict[str, Any]], title: str) -> Table:
    table = Table(*HEADINGS, title=title)
    for entry in entries:
        table.add_row(*cells(entry))
    return table


def as_markdown(entries: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(cells(entry)) + " |" for entry in entries]
    return "\n".join(lines) + "\n"


def as_json(entries: list[dict[str, Any]]) -> str:
    return json.dumps(entries, indent=1) + "\n"
