"""What goes to another machine, and what is done there: the same for Ray and SLURM.

An order is plain JSON, so that a worker with another version of ovor can still read that it is.
Result folders, stems and the folder that the grid was started in are on a file system that all
machines share; a machine that does not see it says so, and writes nothing.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from ovor.config import RUN, Run
from ovor.errors import OvorError
from ovor.events import WorkerStarts
from ovor.experiments.executors.base import PlaceError
from ovor.experiments.folder import Folder

# Where data and weights lie, unless the other machine knows better. No token goes along.
PASSED_ON = ("OVOR_DATA", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE")

Order = dict[str, Any]


@dataclass(frozen=True)
class Shared:
    """Where the grid was started, and a file that only those see who share its file system."""

    start: Path
    proof: Path
    patience: float = 60  # seconds until a network file system shows what others did

    def order(self, run: Run, path: Path, stem: Path | None) -> Order:
        return {
            "ovor": version("ovor"),
            "start": str(self.start),
            "proof": str(self.proof),
            "patience": self.patience,
            "environment": {name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "run": RUN.dump_python(run, mode="json"),
            "path": str(path.absolute()),
            "stem": str(stem.absolute()) if stem else None,
        }


@contextmanager
def shared(out: Path) -> Iterator[Shared]:
    out.mkdir(parents=True, exist_ok=True)
    proof = out.absolute() / f".grid-{uuid4().hex}"
    proof.touch()
    try:
        yield Shared(Path.cwd(), proof)
    finally:
        proof.unlink(missing_ok=True)


def carry_out(order: Order, node: str) -> dict[str, Any]:
    """In the worker. An error that a person can mend is returned, for nobody to try it again."""
    try:
        return {"result": do_the_run(order, node)}
    except OvorError as error:
        return {"error": type(error)(f"On {node}: {error}")}
    except OSError as error:
        return {"error": error}


def result_of(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise answer["error"]
    return answer["result"]  # type: ignore[no-any-return]


def do_the_run(order: Order, node: str) -> dict[str, Any]:
    if order["ovor"] != version("ovor"):
        raise PlaceError(
            f"There is ovor {version('ovor')} here, and {order['ovor']} where the grid was "
            "started: install the same on all machines."
        )
    end = time.monotonic() + order["patience"]
    see(Path(order["proof"]), end)
    for name, value in order["environment"].items():
        os.environ.setdefault(name, value)
    os.chdir(order["start"])  # data and weights may have paths from there
    folder = Folder(Path(order["path"]))
    if not folder.finished:
        folder.wait_for_others(max(0, end - time.monotonic()))
        folder.log(WorkerStarts(node, os.getpid()))

    from ovor.experiments.grid import execute_one

    stem = Path(order["stem"]) if order["stem"] else None
    return execute_one(RUN.validate_python(order["run"]), folder.path, stem)


def see(proof: Path, end: float) -> None:
    """A network file system may show a new file late, but a folder of this machine never does."""
    while not proof.exists():
        if time.monotonic() > end:
            raise PlaceError(
                f"{proof.parent} is not the folder that the grid was started with: choose an --out "
                "that all machines share under the same path."
            )
        time.sleep(0.5)
