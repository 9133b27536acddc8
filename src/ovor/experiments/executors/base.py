"""What a grid asks of those who do its runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ovor.config import Run
from ovor.errors import OvorError


class PlaceError(OvorError):
    """The cluster cannot be used as it was asked for; the runs themselves are not to blame."""


@dataclass(frozen=True)
class Died:
    """How a run ended that left no result and no error: its process or its machine went."""

    why: str


Outcome = dict[str, Any] | Died


class Executor(Protocol):
    """Entered as a context manager; leaving it with an error stops what still runs."""

    jobs: int | None  # runs to hand over at a time; None: all, it has a queue of its own

    def submit(self, run: Run, path: Path, stem: Path | None) -> None: ...

    def ended(self, seconds: float) -> Iterable[tuple[Path, Outcome]]:
        """What ended, by its result folder; waits this long if nothing did.

        A run's own error is raised here.
        """
