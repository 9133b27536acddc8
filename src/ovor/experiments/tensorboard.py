"""Losses and accuracies of a run for TensorBoard, in a folder beside its results."""

from math import ceil
from typing import Any

from ovor.config import Run
from ovor.errors import OvorError
from ovor.events import EpochEnds, Event, HeadStep, RunBegins, TaskEnds, TrainStep
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
        self.epochs: tuple[int, ...] = ()
        self.batches: list[int] = []  # of an epoch, by task
        self.batch = (-1, -1, 0)  # task, epoch, batch

    def __call__(self, event: Event) -> None:
        match event:
            case RunBegins():
                self.begin(event)
            case TrainStep(task, epoch, loss=loss) | HeadStep(task, epoch, loss=loss):
                self.add("loss/step", loss, self.next_step(task, epoch))
            case EpochEnds(task, epoch, loss):
                self.add("loss/epoch", loss, sum(self.epochs[:task]) + epoch)
                self.writer.flush()  # the checkpoint follows, and what it has is not told again
            case TaskEnds(task, accuracy):
                self.end_task(task + 1, accuracy)

    def begin(self, event: RunBegins) -> None:
        """Open the writer; what it was told of epochs that are done again is taken back."""
        self.epochs = event.epochs
        self.batches = [ceil(n / self.run.batch_size) for n in event.train_images]
        first = self.first_step(event.task, event.epoch)
        self.writer = self.make_writer(str(self.path), purge_step=first or None)

    def first_step(self, task: int, epoch: int) -> int:
        """Return how many batches come before this epoch."""
        done = zip(self.batches[:task], self.epochs[:task], strict=True)
        current = epoch * self.batches[task] if task < len(self.batches) else 0
        return sum(batches * epochs for batches, epochs in done) + current

    def next_step(self, task: int, epoch: int) -> int:
        same = self.batch[:2] == (task, epoch)
        self.batch = (task, epoch, self.batch[2] + 1 if same else 0)
        return self.first_step(task, epoch) + self.batch[2]

    def end_task(self, tasks: int, accuracy: tuple[float, ...]) -> None:
        """Write the accuracy on each of so many tasks, and their mean."""
        for number, value in enumerate(accuracy, 1):
            self.add(f"accuracy/task {number:02}", value, tasks)
        self.add("A_t", sum(accuracy) / len(accuracy), tasks)
        self.writer.flush()
        if tasks == len(self.epochs):
            self.writer.close()

    def add(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)
