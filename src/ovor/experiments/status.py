"""How far runs have come, read from the events that they append to their result folders.

The same for runs on this machine and on others: files are the only channel.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from ovor.events import EpochEnds, Recorded, RunBegins, TaskEnds, WorkerStarts, from_json


@dataclass(frozen=True)
class Standing:
    """Task and epoch that a run is at, counted from 0, and what is known of it."""

    task: int = 0
    epoch: int = 0
    epochs: tuple[int, ...] = ()  # by task
    accuracy: float | None = None  # A_t: the mean over the tasks so far
    node: str = ""

    @property
    def place(self) -> tuple[int, int]:
        return self.task, self.epoch


def after(standing: Standing, event: Recorded | None) -> Standing:
    """Return where a run is once the event has happened."""
    match event:
        case WorkerStarts(node):
            return replace(standing, node=node)
        case RunBegins(task, epoch, epochs=epochs):
            return replace(standing, task=task, epoch=epoch, epochs=epochs)
        case EpochEnds(task, epoch):
            return replace(standing, task=task, epoch=epoch + 1)
        case TaskEnds(task, accuracy):
            mean = sum(accuracy) / len(accuracy)
            return replace(standing, task=task + 1, epoch=0, accuracy=mean)
    return standing


class Tail:
    """Reads what was appended since it last did."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.offset = 0
        self.standing = Standing()

    def read(self) -> bool:
        """Whether there was something new."""
        if not self.file.exists() or self.file.stat().st_size <= self.offset:
            return False
        with self.file.open("rb") as file:
            file.seek(self.offset)
            whole, newline, _ = file.read().rpartition(b"\n")  # a line may still be half written
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                self.standing = after(self.standing, from_json(json.loads(line)))
            except ValueError:  # a worker that was killed left half a line
                continue
        return bool(newline)
