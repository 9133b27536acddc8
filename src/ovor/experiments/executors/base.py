"""What a grid asks of an executor: of whatever does its runs, here or on a cluster."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ovor.config import Run


@dataclass(frozen=True)
class Died:
    """A run ended without a result or an error, because its process or its machine went."""

    why: str


Outcome = dict[str, Any] | Died


class Executor(Protocol):
    """Is entered as a context manager; leaving it by an error stops what still runs."""

    jobs: int | None  # runs to submit at a time; None for all of them, where there is a queue

    def submit(self, run: Run, path: Path, vor_cache: Path | None) -> None:
        """Have the run done in the result folder `path`."""

    def ended(self, seconds: float) -> Iterable[tuple[Path, Outcome]]:
        """Return runs that ended, by result folder, after waiting that long if none did.

        A run's own error is raised here.
        """
