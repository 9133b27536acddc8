"""Where a run stands, saved after every epoch, and how it comes back from there."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ovor.errors import OvorError
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors, save_tensors
from ovor.training.context import Context

SCHEMA = 1  # of the checkpoint
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Position:
    """How far a run has come: the next task and epoch, and what was measured so far."""

    task: int = 0
    epoch: int = 0
    accuracy: Rows = ()
    accuracy_task_id_given: Rows = ()
    class_right: tuple[tuple[int, ...], ...] = ()  # older checkpoints lack it
    seconds: float = 0.0
    core_seconds: float = 0.0  # of the first process; older checkpoints lack it


class Clock:
    """Counts a run's seconds on from where it stood, and those that a core worked for it."""

    def __init__(self, position: Position) -> None:
        self.begun = time.monotonic() - position.seconds
        self.core_begun = time.process_time() - position.core_seconds

    def on(self, position: Position) -> Position:
        """Return the position with the time that it was reached at."""
        return replace(
            position,
            seconds=time.monotonic() - self.begun,
            core_seconds=time.process_time() - self.core_begun,
        )


class Checkpoints:
    """Saves and restores the state of one run, in one file that is replaced every time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.optimizer_state: dict[str, Tensor] = {}  # restored, and not yet put back

    def restore(self, learner: Learner) -> Position:
        """Bring the learner back from the checkpoint, if there is one, and return the position.

        The first process reads it for all: the others may be on other machines.
        """
        context = self.context
        path, first = context.checkpoint, context.ranks.rank == 0
        found = context.ranks.broadcast(load_tensors(path) if first and path.exists() else None)
        if found is None:
            return Position()
        tensors, meta = found
        if meta.get("schema") != SCHEMA:
            raise OvorError(
                f"{path} is of another version of ovor: finish it with that version, or delete it "
                "to start from the beginning."
            )
        if meta["backbone"] != context.backbone.sha256:
            raise OvorError(
                f"{path} was made with other weights than those of {context.run.backbone} now: "
                "bring those back, or delete it to start again."
            )
        saved = meta["position"]
        for key in ("accuracy", "accuracy_task_id_given", "class_right"):
            saved[key] = tuple(tuple(row) for row in saved.get(key, ()))
        position = Position(**saved)
        begun = context.tasks[: position.task + (position.epoch > 0)]
        grow(learner, [len(task.classes) for task in begun], context.run.seed)
        learner.load_learned_state(select(tensors, "learner."))
        self.optimizer_state = select(tensors, "optimizer.")
        return position

    def first_epoch(
        self, learner: Learner, optimizer: torch.optim.Optimizer, position: Position
    ) -> int:
        """Return the epoch to go on with, learner and optimizer being as they were before it."""
        if self.optimizer_state:
            load_optimizer(optimizer, self.optimizer_state)
            self.optimizer_state = {}
        return position.epoch

    def save(
        self, learner: Learner, position: Position, optimizer: torch.optim.Optimizer | None = None
    ) -> None:
        """Write where the run stands: the first process does, as all stand at the same place."""
        if self.context.ranks.rank:
            return
        meta = {
            "schema": SCHEMA,
            "backbone": self.context.backbone.sha256,
            "position": vars(position),
            "about": self.context.about,
        }
        save_tensors(self.context.checkpoint, state_of(learner, optimizer), meta)


def state_of(learner: Learner, optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """Return all tensors that learner and optimizer need to go on, by name."""
    tensors = {f"learner.{k}": v for k, v in learner.learned_state().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{k}": v for k, v in state.items()}
    return tensors


def grow(learner: Learner, sizes: Sequence[int], seed: int) -> None:
    """Begin as many tasks as a learner had, so that its state fits."""
    for number, classes in enumerate(sizes):
        learner.begin_task(classes, (seed, number))


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back the optimizer's part of what `state_of` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def select(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names have the prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
