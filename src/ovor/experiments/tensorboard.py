"""Losses and accuracies of a run for TensorBoard, in a folder beside its results."""

from math import ceil
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.folder import Folder


class Board:
    """Listens to a run.

    Every number has its place by task, epoch and batch, so that a run that was stopped goes on
    where it was: what it told of an epoch that is done again is taken back.
    """

    def __init__(self, folder: Folder, run: Run) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise OvorError(
                "TensorBoard is not installed: pip install 'ovor[tensorboard]'."
            ) from error
        self.make_writer, self.path, self.run = SummaryWriter, folder.path / "tensorboard", run
        self.writer: Any = None
        self.epochs: list[int] = []
        self.batches: list[int] = []  # of an epoch, by task
        self.batch = (-1, -1, 0)  # task, epoch, batch

    def __call__(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "begin":
                self.begin(event)
            case "train" | "head":
                self.add("loss/step", event["loss"], self.next_step(event["task"], event["epoch"]))
            case "epoch":
                before = sum(self.epochs[: event["task"]])
                self.add("loss/epoch", event["loss"], before + event["epoch"])
                self.writer.flush()  # the checkpoint follows, and what it has is not told again
            case "task":
                self.task_done(event)

    def begin(self, event: dict[str, Any]) -> None:
        self.epochs = event["epochs"]
        self.batches = [ceil(n / self.run.batch_size) for n in event["train_images"]]
        first = self.first_step(event["task"], event["epoch"])
        self.writer = self.make_writer(str(self.path), purge_step=first or None)

    def first_step(self, task: int, epoch: int) -> int:
        """Batches before this epoch."""
        done = zip(self.batches[:task], self.epochs[:task], strict=True)
        current = epoch * self.batches[task] if task < len(self.batches) else 0
        return sum(batches * epochs for batches, epochs in done) + current

    def next_step(self, task: int, epoch: int) -> int:
        same = self.batch[:2] == (task, epoch)
        self.batch = (task, epoch, self.batch[2] + 1 if same else 0)
        return self.first_step(task, epoch) + self.batch[2]

    def task_done(self, event: dict[str, Any]) -> None:
        accuracy, after = event["accuracy"], event["task"] + 1
        for number, value in enumerate(accuracy, 1):
            self.add(f"accuracy/task {number:02}", value, after)
        self.add("A_t", sum(accuracy) / len(accuracy), after)
        self.writer.flush()
        if after == len(self.epochs):
            self.writer.close()

    def add(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)
