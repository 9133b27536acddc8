"""What does not change while a run or a lesson goes on, and how it is put together."""

import hashlib
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from ovor.config import Run
from ovor.data.base import Dataset, Items
from ovor.data.tasks import Part, Task
from ovor.distributed.ranks import ALONE, Ranks
from ovor.encoders import Backbone
from ovor.errors import OvorError
from ovor.events import Listener, silent
from ovor.learners import build_learner
from ovor.learners.base import Learner

COMPARED = 8  # images of a task that the processes of a run compare
PRECISION: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Context:
    """A run's settings, data, network and device, and whom it reports to."""

    run: Run
    dataset: Dataset
    tasks: tuple[Task, ...]
    backbone: Backbone
    fabric: Fabric
    checkpoint: Path
    order: tuple[int, ...] = ()
    """classes as they arrive, by their number in the data set"""
    listen: Listener = field(default=silent, repr=False)
    ranks: Ranks = ALONE
    about: dict[str, Any] = field(default_factory=dict)
    """what else the checkpoint says, to be compared when it is continued"""

    @property
    def ordered_names(self) -> list[str]:
        """The names of the classes in the order of the logits."""
        return [self.dataset.class_names[c] for c in self.order]


def prepare(
    run: Run,
    dataset: Dataset,
    tasks: tuple[Task, ...],
    backbone: Backbone,
    checkpoint: Path,
    *,
    order: tuple[int, ...] = (),
    listen: Listener = silent,
    ranks: Ranks = ALONE,
    device: torch.device | None = None,
) -> tuple[Context, Learner]:
    """Put together what a run or a lesson works with, and a learner that has learned nothing yet.

    The device is the one that the run asks for, unless another is given.
    """
    fabric = make_fabric(run, device)
    size = backbone.encoder.input_size(run.transform.size)
    run = replace(run, transform=replace(run.transform, size=size))
    context = Context(run, dataset, tasks, backbone, fabric, checkpoint, order, listen, ranks)
    learner = build_learner(run.method, run.options, backbone.encoder, fabric.autocast)
    if run.scenario == "repetition":
        learner.expect_returning()
    return context, learner.to(fabric.device)


def make_fabric(run: Run, device: torch.device | None = None) -> Fabric:
    """Return what places tensors and casts them, on the run's device or on the one given."""
    if run.device == "cuda" and not torch.cuda.is_available():
        raise OvorError("There is no CUDA device here: use cpu or auto.")
    if run.device == "mps" and not torch.backends.mps.is_available():
        raise OvorError("There is no Apple GPU here: use cpu or auto.")
    fabric = Fabric(
        accelerator=device.type if device else run.device,
        devices=1 if device is None or device.index is None else [device.index],
        precision=PRECISION[run.precision],
    )
    if run.precision == "bf16" and fabric.device.type == "cpu":
        # Slower than fp32 on most, and an illegal instruction on some that claim to have it.
        raise OvorError("bf16 needs a GPU: use --precision fp32 on a CPU.")
    torch.backends.cudnn.deterministic = True
    return fabric


def check_alike(context: Context) -> None:
    """Refuse processes with other images or weights, which would quietly learn a mixture."""
    if context.ranks.size == 1:
        return
    own = [version("ovor"), context.backbone.sha256, context.dataset.class_names]
    own += [digest(context.dataset.train, task.train) for task in context.tasks]
    own += [digest(context.dataset.test, task.test) for task in context.tasks]
    if context.ranks.broadcast(own) != own:
        raise OvorError(
            f"Process {context.ranks.rank + 1} has other images, another backbone or another "
            "version of ovor than the first: give every machine the same."
        )


def digest(items: Items, part: Part) -> str:
    """Return a hash of which items a part has, and of what a few of them hold."""
    found = hashlib.sha256(part.indices.tobytes() + part.labels.tobytes())
    for index in part.indices[:: max(1, len(part) // COMPARED)]:
        item = items.item(int(index))
        found.update(item.encode() if isinstance(item, str) else item.tobytes())
    return found.hexdigest()
