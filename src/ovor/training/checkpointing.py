"""Where a run stands, saved after every epoch, and how it comes back from there."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ovor.errors import OvorError
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors, save_tensors
from ovor.training.context import Session

SCHEMA = 1  # of the checkpoint
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Position:
    """How far a run has come: the next task and epoch, and what was measured so far."""

    task: int = 0
    epoch: int = 0
    accuracy: Rows = ()
    accuracy_task_id_given: Rows = ()
    seconds: float = 0.0


def save(
    session: Session,
    learner: Learner,
    position: Position,
    optimizer: torch.optim.Optimizer | None,
) -> None:
    """All processes of a run stand at the same place; the first writes it down."""
    if session.ranks.rank:
        return
    meta = {
        "schema": SCHEMA,
        "backbone": session.backbone.sha256,
        "position": vars(position),
        "about": session.about,
    }
    save_tensors(session.checkpoint, state_of(learner, optimizer), meta)


def state_of(learner: Learner, optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    tensors = {f"learner.{k}": v for k, v in learner.learned_state().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{k}": v for k, v in state.items()}
    return tensors


def restore(session: Session, learner: Learner) -> tuple[Position, dict[str, Tensor]]:
    """Bring learner and position back from the checkpoint; without one, from the start.

    The first process reads it for all: the others may be on other machines.
    """
    first = session.ranks.rank == 0
    found = load_tensors(session.checkpoint) if first and session.checkpoint.exists() else None
    found = session.ranks.broadcast(found)
    if found is None:
        return Position(), {}
    tensors, meta = found
    if meta.get("schema") != SCHEMA:
        raise OvorError(
            f"{session.checkpoint} is of another version of ovor: finish it with that version, or "
            "delete it to start from the beginning."
        )
    if meta["backbone"] != session.backbone.sha256:
        raise OvorError(
            f"{session.checkpoint} was made with other weights than those of "
            f"{session.run.backbone} now: bring those back, or delete it to start again."
        )
    saved = meta["position"]
    for key in ("accuracy", "accuracy_task_id_given"):
        saved[key] = tuple(tuple(row) for row in saved[key])
    position = Position(**saved)
    begun = session.tasks[: position.task + (position.epoch > 0)]
    grow(learner, [len(task.classes) for task in begun], session.run.seed)
    learner.load_learned_state(select(tensors, "learner."))
    return position, select(tensors, "optimizer.")


def grow(learner: Learner, sizes: Sequence[int], seed: int) -> None:
    """Begin as many tasks as a learner had, so that its state fits."""
    for number, classes in enumerate(sizes):
        learner.begin_task(classes, (seed, number))


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def select(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
