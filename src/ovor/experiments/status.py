"""Read how far a run has come from the events that it appends to its result folder.

So runs on this machine and on others are followed alike: files are the only channel.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from ovor.events import EpochEnds, Recorded, RunBegins, TaskEnds, WorkerStarts, from_json


@dataclass(frozen=True)
class Status:
    """The task and epoch that a run is at, counted from 0, and what is known of it."""

    task: int = 0
    epoch: int = 0
    epochs: tuple[int, ...] = ()  # by task
    accuracy: float | None = None  # A_t: the mean over the tasks so far
    node: str = ""

    @property
    def position(self) -> tuple[int, int]:
        return self.task, self.epoch


def after(status: Status, event: Recorded | None) -> Status:
    """Return where a run is once the event has happened."""
    match event:
        case WorkerStarts(node):
            return replace(status, node=node)
        case RunBegins(task, epoch, epochs=epochs):
            return replace(status, task=task, epoch=epoch, epochs=epochs)
        case EpochEnds(task, epoch):
            return replace(status, task=task, epoch=epoch + 1)
        case TaskEnds(task, accuracy) if accuracy:
            mean = sum(accuracy) / len(accuracy)
            return replace(status, task=task + 1, epoch=0, accuracy=mean)
    return status


class StatusReader:
    """Follows one events.jsonl, reading each time what was appended since the last."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.offset = 0
        self.status = Status()

    def read(self) -> bool:
        """Update the status, and return whether there was something new."""
        if not self.file.exists() or self.file.stat().st_size <= self.offset:
            return False
        with self.file.open("rb") as file:
            file.seek(self.offset)
            whole, newline, _ = file.read().rpartition(b"\n")  # a line may still be half written
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                self.status = after(self.status, from_json(json.loads(line)))
            except ValueError:  # a worker that was killed left half a line
                continue
        return bool(newline)
