"""A lesson as it was asked for, and as it goes on: what GET /tasks/{task} tells."""

import asyncio
import secrets
import time
from asyncio.subprocess import Process
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ovor.web.failures import Fault
from ovor.web.schemas import State

FINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Wanted:
    """A lesson as a client has asked for it, checked."""

    folder: Path
    images: tuple[Path, ...]
    labels: tuple[str, ...]
    epochs: int | None
    keep_set_aside: bool
    left_out: tuple[Fault, ...] = ()

    @property
    def classes(self) -> dict[str, int]:
        return {name: self.labels.count(name) for name in sorted(set(self.labels))}


@dataclass(eq=False)
class Job:
    """A lesson as it goes on."""

    wanted: Wanted
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    state: State = "waiting"
    progress: float = 0.0
    doing: str = "waiting"
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    accuracy: float | None = None
    task: int | None = None
    aside: list[int] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    learning_since: float | None = None
    over: float | None = None
    cancelling: bool = False
    process: Process | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, report: dict[str, Any]) -> None:
        """Of the process."""
        self.progress = report.get("progress", self.progress)
        self.doing = report.get("doing", self.doing)
        self.notes += report.get("notes", [])
        self.error = report.get("error", self.error)
        self.state = report.get("state", self.state)
        if "saved" in report:
            self.task, self.accuracy, self.aside = (
                report[key] for key in ("saved", "accuracy", "aside")
            )
        if self.state == "learning" and self.learning_since is None:
            self.learning_since = time.monotonic()

    def end(self, state: State, error: str | None = None) -> None:
        self.state, self.error, self.doing = state, error, state
        self.progress = 1.0 if state == "done" else self.progress
        self.over = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        if self.state in FINAL or self.learning_since is None or self.progress < 0.02:
            return None
        spent = time.monotonic() - self.learning_since
        return round(spent * (1 - self.progress) / self.progress, 1)

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state,
            "classes": [{"name": n, "images": k} for n, k in self.wanted.classes.items()],
            "progress": self.progress,
            "doing": self.doing,
            "seconds": round((self.over or time.monotonic()) - self.begun, 1),
            "seconds_left": self.seconds_left,
            "notes": self.notes,
            "images": [
                {"index": f.index, "name": f.name, "error": f.error} for f in self.wanted.left_out
            ],
            "error": self.error,
            "accuracy": self.accuracy,
            "task": self.task,
        }
