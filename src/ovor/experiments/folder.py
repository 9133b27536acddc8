"""A result folder: run.json, events.jsonl, checkpoint, learned weights, result.json."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from ovor.atomic import write_atomically
from ovor.config import RUN, Run
from ovor.errors import OvorError, explain
from ovor.events import Recorded, as_json


class Folder:
    """The files of one run's result folder, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_file = path / "run.json"
        self.events_file = path / "events.jsonl"
        self.checkpoint = path / "checkpoint.safetensors"
        self.weights = path / "weights.safetensors"
        self.result_file = path / "result.json"
        self.drift_file = path / "drift.json"  # where the weights of every task are kept
        self.closeup_file = path / "closeup.json"
        self.report_file = path / "report.html"

    def weights_after(self, task: int) -> Path:
        """Return the file of the weights after a task, counted from 0, if a run keeps them."""
        return self.path / f"weights-{task + 1}.safetensors"

    @contextmanager
    def locked(self, patience: float = 0) -> Iterator[None]:
        """Keep other processes out; refuse if one is in after `patience` seconds."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path / ".lock", timeout=patience):
                yield
                (self.path / ".lock").unlink()
        except Timeout:
            raise OvorError(
                f"Another process is at work in {self.path}: wait for it, or choose another folder."
            ) from None

    @property
    def finished(self) -> bool:
        return self.result_file.exists()

    def start(self, run: Run) -> None:
        """Write the run's configuration, and remove what was measured of an earlier result."""
        self.path.mkdir(parents=True, exist_ok=True)
        for file in (self.closeup_file, self.drift_file):
            file.unlink(missing_ok=True)
        write_atomically(self.run_file, RUN.dump_json(run, indent=2) + b"\n")

    def log(self, event: Recorded) -> None:
        """Append an event, on a line of its own."""
        with self.events_file.open("ab+") as file:
            if file.tell():  # a process that was killed may have left half a line
                file.seek(-1, os.SEEK_END)
                file.write(b"" if file.read(1) == b"\n" else b"\n")
            file.write(json.dumps(as_json(event)).encode() + b"\n")

    def finish(self, result: dict[str, Any]) -> None:
        write_atomically(self.result_file, json.dumps(result, indent=2).encode() + b"\n")

    def result(self) -> dict[str, Any]:
        return json.loads(self.result_file.read_text())  # type: ignore[no-any-return]


def read_run(path: Path) -> Run:
    """Return the configuration in a run.json, checked."""
    try:
        return RUN.validate_json(path.read_bytes())
    except FileNotFoundError:
        raise OvorError(f"There is no file {path}; give the run.json of a result folder.") from None
    except ValidationError as error:
        raise OvorError(f"{path} is not a run that this version knows: {explain(error)}.") from None


def new_folder(parent: Path, name: str) -> Folder:
    """Return the first of the folders name, name-2, name-3 … that does not exist."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return Folder(path)


def unfinished_folder(parent: Path, name: str) -> Folder:
    """Return the newest folder of that name whose run was started and not finished."""
    found = [Folder(p) for p in [parent / name, *parent.glob(f"{name}-*")]]
    found = [f for f in found if f.run_file.exists() and not f.finished]
    if not found:
        raise OvorError(
            f"There is no unfinished run in {parent / name}: name its folder with --out."
        )
    return max(found, key=lambda f: f.run_file.stat().st_mtime)
