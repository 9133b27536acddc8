"""One lesson: as a client has asked for it, and as it goes on."""

import asyncio
import secrets
import time
from asyncio.subprocess import Process
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ovor.web.errors import ImageFault
from ovor.web.schemas import State

FINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class LessonRequest:
    """A lesson as a client has asked for it, checked."""

    folder: Path
    images: tuple[Path, ...]
    """files of the folder, called by their position in the request"""
    labels: tuple[str, ...]
    epochs: int | None
    keep_validation: bool
    """whether the server may keep the validation images, to evaluate later models on them"""
    left_out: tuple[ImageFault, ...] = ()
    names: tuple[str, ...] = ()
    """what the client calls the images"""
    yes: bool = False
    """whether names that differ from known ones only by case or look are meant"""
    inbox: tuple[str, ...] = ()
    """images of the inbox that leave it when they are learned"""

    @cached_property
    def classes(self) -> dict[str, int]:
        """how many images each class has"""
        return dict(sorted(Counter(self.labels).items()))


@dataclass(eq=False)
class Lesson:
    """A lesson as it goes on."""

    wanted: LessonRequest
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    state: State = "waiting"
    progress: float = 0.0
    doing: str = "waiting"
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    accuracy: float | None = None
    report: dict[str, Any] | None = None
    lesson: int | None = None
    detail: str = ""
    """what the log says of an error"""
    validation: list[int] = field(default_factory=list)
    """positions in the request of the images that were held out for validation"""
    mark: str = ""
    """identifies the lesson in the file of a model that may learn more of known classes"""
    begun: float = field(default_factory=time.monotonic)
    learning_since: float | None = None
    over: float | None = None
    cancelling: bool = False
    listeners: int = 0
    process: Process | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, report: dict[str, Any]) -> None:
        """Set the fields that a line of the lesson's process reports."""
        vars(self).update(self.in_their_words(report))
        if self.state == "learning" and self.learning_since is None:
            self.learning_since = time.monotonic()

    def in_their_words(self, said: Any) -> Any:
        """Return a report with the client's names of images, where it has those of files here."""
        if isinstance(said, dict):
            return {key: self.in_their_words(value) for key, value in said.items()}
        if isinstance(said, list):
            return [self.in_their_words(value) for value in said]
        path = Path(said) if isinstance(said, str) else None
        if path is not None and path.parent == self.wanted.folder and path in self.wanted.images:
            return self.wanted.names[self.wanted.images.index(path)]
        return said

    def end(self, state: State, error: str | None = None) -> None:
        self.state, self.error, self.doing = state, error, state
        if state == "done":
            self.progress = 1.0
        else:
            self.lesson = self.accuracy = self.report = (
                None  # which were reported before the model was saved
            )
        self.over = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        if self.state in FINAL or self.learning_since is None or self.progress < 0.02:
            return None
        spent = time.monotonic() - self.learning_since
        return round(spent * (1 - self.progress) / self.progress, 1)

    def as_json(self) -> dict[str, Any]:
        """Return what GET /lessons/{lesson} responds."""
        return {
            "id": self.id,
            "state": self.state,
            "classes": [{"name": n, "images": k} for n, k in self.wanted.classes.items()],
            "progress": self.progress,
            "doing": self.doing,
            "seconds": round((self.over or time.monotonic()) - self.begun, 1),
            "seconds_left": self.seconds_left,
            "notes": self.notes,
            "images": [fault.as_json() for fault in self.wanted.left_out],
            "error": self.error,
            "accuracy": self.accuracy,
            "report": self.report,
            "lesson": self.lesson,
        }
