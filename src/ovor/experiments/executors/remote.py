"""Send a run to another machine, and do it there: the same for Ray and SLURM.

A request is plain JSON, so that a worker with another version of ovor can read that it is one.
Result folders, VOR caches and the folder that the grid was started in are on a file system that
all machines share; a machine that does not see it says so, and writes nothing.
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
from ovor.experiments.folder import Folder
from ovor.experiments.grid import execute_one

# Variables that say where data and weights are, used where the other machine has none. No token
# goes along.
PASSED_ON = ("OVOR_DATA", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE")

Request = dict[str, Any]
Response = dict[str, Any] | Exception  # what result.json holds, or what is wrong


@dataclass(frozen=True)
class SharedFolder:
    """The folder that the grid was started in, and a file of its --out to recognise that by."""

    start: Path
    marker: Path
    patience: float = 60  # seconds until a network file system shows what others did

    def request(self, run: Run, path: Path, vor_cache: Path | None) -> Request:
        """Return all that another machine needs to know to do the run."""
        return {
            "ovor": version("ovor"),
            "start": str(self.start),
            "marker": str(self.marker),
            "patience": self.patience,
            "environment": {name: os.environ[name] for name in PASSED_ON if name in os.environ},
            "run": RUN.dump_python(run, mode="json"),
            "path": str(path.absolute()),
            "vor_cache": str(vor_cache.absolute()) if vor_cache else None,
        }


@contextmanager
def sharing(out: Path) -> Iterator[SharedFolder]:
    """Mark `out` with a file that only machines see that share its file system."""
    out.mkdir(parents=True, exist_ok=True)
    marker = out.absolute() / f".grid-{uuid4().hex}"
    marker.touch()
    try:
        yield SharedFolder(Path.cwd(), marker)
    finally:
        marker.unlink(missing_ok=True)


def serve(request: Request, node: str) -> Response:
    """Do the requested run in the worker.

    An error that a person can mend is returned, so that the cluster does not try again.
    """
    try:
        return execute_request(request, node)
    except OvorError as error:
        return type(error)(f"On {node}: {error}")
    except OSError as error:
        return error


def result_of(response: Response) -> dict[str, Any]:
    """Return the result that a worker has sent, or raise the error."""
    if isinstance(response, Exception):
        raise response
    return response


def execute_request(request: Request, node: str) -> dict[str, Any]:
    if request["ovor"] != version("ovor"):
        raise OvorError(
            f"There is ovor {version('ovor')} here, and {request['ovor']} where the grid was "
            "started: install the same on all machines."
        )
    end = time.monotonic() + request["patience"]
    wait_for_marker(Path(request["marker"]), end)
    for name, value in request["environment"].items():
        os.environ.setdefault(name, value)
    os.chdir(request["start"])  # data and weights may have paths from there
    folder = Folder(Path(request["path"]))
    if not folder.finished:
        # A killed worker's lock: on a network, the file server must notice first.
        with folder.locked(max(0, end - time.monotonic())):
            folder.log(WorkerStarts(node, os.getpid()))
    vor_cache = Path(request["vor_cache"]) if request["vor_cache"] else None
    return execute_one(RUN.validate_python(request["run"]), folder.path, vor_cache)


def wait_for_marker(marker: Path, end: float) -> None:
    """Refuse a machine that does not see the marker by then: file systems show new files late."""
    while not marker.exists():
        if time.monotonic() > end:
            raise OvorError(
                f"{marker.parent} is not the folder that the grid was started with: choose an "
                "--out that all machines share under the same path."
            )
        time.sleep(0.5)
