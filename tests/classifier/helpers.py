"""What the tests of serving call: the command line, in a process of its own or not."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

TASKS = (["banana", "candle", "fish"], ["owl", "sun"], ["teapot"])
CLASSES = [name for task in TASKS for name in task]
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def in_new_process(*arguments: object, code: str | None = None, **environment: str) -> Ended:
    """The command line, or with `code` Python."""
    start = ["-c", code] if code else ["-m", "ovor"]
    done = subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
