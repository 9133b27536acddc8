"""What runs that differ in VOR's settings alone have in common, kept in files for all of them.

The head phase changes the current head and nothing else (Alg. 1, line 4), so prompts, features and
the head before the phase are the same for all: an ablation trains the network once. It wraps the
features and the checkpoints of a run; the loop knows nothing of it.
"""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import torch
from torch import Tensor

from ovor.data.batches import Pair
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors, save_tensors
from ovor.training.checkpointing import Checkpoints, Position, load_optimizer, select, state_of
from ovor.training.context import Context
from ovor.training.features import Features


class CachedFeatures(Features):
    """Features that another run of the family may have computed already."""

    def __init__(self, context: Context, folder: Path) -> None:
        super().__init__(context)
        self.folder = folder

    def of_training(self, learner: Learner, task: int, epoch: int) -> Pair:
        compute = super().of_training
        return self.once(f"features-{task}-{epoch}", lambda: compute(learner, task, epoch))

    def of_test(self, learner: Learner, last: int, task: int) -> Pair:
        compute = super().of_test
        return self.once(f"test-{last}-{task}", lambda: compute(learner, last, task))

    def once(self, name: str, compute: Callable[[], Pair]) -> Pair:
        """Return the features and labels of the file of that name, made if it is not there."""
        path = self.folder / f"{name}.safetensors"
        if path.exists():
            tensors, _ = load_tensors(path)
            device = self.context.fabric.device
            return tensors["features"].to(device), tensors["labels"].to(device)
        features, labels = compute()
        put(path, {"features": features, "labels": labels})
        return features, labels


class CachedCheckpoints(Checkpoints):
    """Checkpoints that also keep, and take, the epochs before the head phase."""

    def __init__(self, context: Context, folder: Path) -> None:
        super().__init__(context)
        self.folder = folder

    def head_phase(self, learner: Learner, task: int) -> int:
        run = self.context.run
        return learner.epochs(run, task) - (run.vor.epochs if run.vor else 0)

    def first_epoch(
        self, learner: Learner, optimizer: torch.optim.Optimizer, position: Position
    ) -> int:
        first = super().first_epoch(learner, optimizer, position)
        head_phase, path = self.head_phase(learner, position.task), self.path(position.task)
        if first >= head_phase or not path.exists():
            return first
        state, _ = load_tensors(path)
        learner.load_learned_state({**learner.learned_state(), **select(state, "learner.")})
        load_optimizer(optimizer, select(state, "optimizer."))
        return head_phase

    def save(
        self, learner: Learner, position: Position, optimizer: torch.optim.Optimizer | None = None
    ) -> None:
        super().save(learner, position, optimizer)
        task = position.task
        if optimizer and position.epoch == self.head_phase(learner, task):
            old = tuple(f"learner.head.tasks.{number}." for number in range(task))
            state = state_of(learner, optimizer).items()
            put(self.path(task), {k: v for k, v in state if not k.startswith(old)})

    def path(self, task: int) -> Path:
        return self.folder / f"trained-{task}.safetensors"


def put(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a file unless it is there: two runs, on two machines even, may come to this at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = path.with_name(f"{uuid4().hex}-{path.name}")
    save_tensors(mine, tensors, {})
    if path.exists():  # the first one stays: another run may be reading it
        mine.unlink()
    else:
        mine.replace(path)
