"""The one loop: learn a task, evaluate, save; then the next (Alg. 1).

Every draw is a function of (seed, task, epoch), and the state is saved after every epoch, so a run
that was stopped anywhere continues to the result of an unbroken one, bit for bit.
"""

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor

from ovor.backbones import Architecture, Backbone
from ovor.checkpoint import load_tensors, save_tensors
from ovor.config import OvorError, Run, Vor
from ovor.data.base import Dataset, Images
from ovor.data.loader import Batch, test_batches, train_batches
from ovor.data.tasks import Part, Task
from ovor.data.transforms import normalised
from ovor.learners.base import Learner
from ovor.losses import outlier_loss
from ovor.outliers import synthesize
from ovor.seeds import HEAD_ORDER, NOISE, generator
from ovor.stem import Pair, Stem

SCHEMA = 1  # of the checkpoint
KEPT_VIEWS = 256 * 2**20  # bytes of test images kept in memory
KEPT_BLOCK = 31 * 2**20  # glibc keeps freed blocks of up to 32 MB
Listener = Callable[[dict[str, Any]], None]
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Position:
    """How far a run has come: the next task and epoch, and what was measured so far."""

    task: int = 0
    epoch: int = 0
    accuracy: Rows = ()
    accuracy_task_id_given: Rows = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Session:
    """What does not change while a run goes on."""

    run: Run
    dataset: Dataset
    order: list[int]
    tasks: tuple[Task, ...]
    backbone: Backbone
    fabric: Fabric
    checkpoint: Path
    listen: Listener = field(repr=False)
    stem: Stem | None = None
    # Of test images, by task, computed when first needed:
    queries: dict[int, list[Tensor | None]] = field(default_factory=lambda: defaultdict(list))
    settled: dict[int, Pair] = field(default_factory=dict)
    views: dict[int, Iterable[Batch]] = field(default_factory=dict)


def train(session: Session, learner: Learner) -> Position:
    """Learn all tasks in turn, from where the checkpoint left off."""
    learner.to(session.fabric.device)
    position, optimizer_state = restore(session, learner)
    session.listen(
        {
            "event": "begin",
            "task": position.task,
            "epoch": position.epoch,
            "train_images": [len(task.train) for task in session.tasks],
            "test_images": [len(task.test) for task in session.tasks],
            "epochs": [learner.epochs(session.run, t) for t in range(len(session.tasks))],
        }
    )
    for number in range(position.task, len(session.tasks)):
        if position.epoch == 0:
            learner.begin_task(len(session.tasks[number].classes), (session.run.seed, number))
        optimizer = learner.optimizer(session.run)
        if optimizer_state:
            load_optimizer(optimizer, optimizer_state)
            optimizer_state = {}
        start = time.monotonic()
        for epoch, loss in learn_task(session, learner, optimizer, number, position.epoch):
            seconds = position.seconds + time.monotonic() - start
            event = {"event": "epoch", "task": number, "epoch": epoch, "loss": loss}
            session.listen({**event, "seconds": round(seconds, 3)})
            save(session, learner, replace(position, epoch=epoch + 1, seconds=seconds), optimizer)
        learner.end_task(partial(still_images, session, number), (session.run.seed, number))
        accuracy, task_id_given = evaluate(session, learner, number)
        position = Position(
            task=number + 1,
            accuracy=(*position.accuracy, accuracy),
            accuracy_task_id_given=(*position.accuracy_task_id_given, task_id_given),
            seconds=position.seconds + time.monotonic() - start,
        )
        session.listen(
            {
                "event": "task",
                "task": number,
                "accuracy": accuracy,
                "accuracy_task_id_given": task_id_given,
                "seconds": round(position.seconds, 3),
            }
        )
        save(session, learner, position, None)
    return position


def learn_task(
    session: Session,
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    task: int,
    first_epoch: int,
) -> Iterator[tuple[int, float]]:
    """Algorithm 1 for one task; yields every epoch with its mean loss."""
    run, vor = session.run, session.run.vor
    epochs = learner.epochs(run, task)
    head_phase = epochs - (vor.epochs if vor else 0)
    stored: tuple[Tensor, Tensor, Tensor] | None = None
    if vor and first_epoch < head_phase and recall(session, learner, optimizer, task):
        first_epoch = head_phase
    for epoch, factor in enumerate(lr_factors(run.schedule, epochs)):
        if epoch < first_epoch:
            continue
        for group in optimizer.param_groups:
            group["lr"] = run.lr * factor * group.get("factor", 1.0)
        if vor is None or epoch < head_phase:  # line 2: prompt and head, cross-entropy
            loss = train_epoch(session, learner, optimizer, task, epoch)
            if session.stem and epoch + 1 == head_phase:
                session.stem.keep(task, state_of(learner, optimizer))
        else:
            if stored is None or vor.refresh == "epoch":  # line 3: features and their outliers
                fresh = epoch if vor.refresh == "epoch" else head_phase
                stored = features_and_outliers(session, learner, vor, task, fresh)
            # line 4: the head alone
            loss = head_epoch(session, learner, optimizer, vor, stored, task, epoch)
        yield epoch, loss


def train_epoch(
    session: Session, learner: Learner, optimizer: torch.optim.Optimizer, task: int, epoch: int
) -> float:
    learner.train()
    start = session.tasks[task].start
    losses = []
    for images, labels in batches(session, task, epoch, session.run.batch_size):
        size = images_at_once(session) if learner.separable else len(images)
        loss = descend(learner, optimizer, session.fabric.backward, images, labels - start, size)
        losses.append(tell(session, "train", task, epoch, len(images), loss))
    return fmean(losses)


@torch.no_grad()
def features_and_outliers(
    session: Session, learner: Learner, vor: Vor, task: int, epoch: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One pass over the augmented training images, as at inference, and Algorithm 2 on it."""
    learner.eval()
    classes, start = len(session.tasks[task].classes), session.tasks[task].start
    event = {"event": "features", "task": task, "epoch": epoch, "loss": None}
    features, labels = once(
        session,
        f"features-{task}-{epoch}",
        lambda: features_of(
            session, learner.features, batches(session, task, epoch, images_at_once(session)), event
        ),
    )
    noise = generator(session.run.seed, task, epoch, NOISE)
    target = labels - start
    return features, target, synthesize(features, target, classes, vor.npos, noise)


def head_epoch(
    session: Session,
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    vor: Vor,
    stored: tuple[Tensor, Tensor, Tensor],
    task: int,
    epoch: int,
) -> float:
    """Tighten the current head on stored features; the prompt gets no gradient and stays."""
    features, labels, outliers = stored
    order = torch.randperm(
        len(features), generator=generator(session.run.seed, task, epoch, HEAD_ORDER)
    ).to(features.device)
    parts = torch.split(order, session.run.batch_size)
    losses = []
    for index, outside in zip(parts, outliers.tensor_split(len(parts)), strict=True):
        logits = learner.current_logits(features[index])
        loss = F.cross_entropy(logits, labels[index])
        loss = loss + outlier_loss(logits, learner.current_logits(outside), vor)
        step(session, optimizer, loss)
        losses.append(tell(session, "head", task, epoch, len(index), loss))
    return fmean(losses)


@torch.no_grad()
def evaluate(
    session: Session, learner: Learner, last: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Accuracy on every task so far, class-incremental and with the task given, from one pass."""
    learner.eval()
    incremental, given = [], []
    for number, task in enumerate(session.tasks[: last + 1]):
        right = right_given = 0
        features_and_labels = tested(session, learner, last, number)
        parts = (torch.split(part, session.run.batch_size) for part in features_and_labels)
        for features, labels in zip(*parts, strict=True):
            logits = learner.logits(features)
            inside = logits[:, task.start : task.start + len(task.classes)]
            right += int((logits.argmax(1) == labels).sum())
            right_given += int((inside.argmax(1) + task.start == labels).sum())
        incremental.append(100 * right / len(task.test))
        given.append(100 * right_given / len(task.test))
    return tuple(incremental), tuple(given)


def tested(session: Session, learner: Learner, last: int, number: int) -> Pair:
    """Features and labels of the test images of a task, after task `last`."""
    event = {"event": "test", "task": last, "on": number, "loss": None}

    def compute() -> Pair:
        if number in session.settled:
            pair = session.settled[number]
            session.listen({**event, "images": len(pair[0])})
            return pair
        look = looking_again(learner, session.queries[number])
        pair = features_of(session, look, test_images(session, number), event)
        if learner.settled:
            session.settled[number] = pair
        return pair

    return once(session, f"test-{last}-{number}", compute)


def once(session: Session, name: str, compute: Callable[[], Pair]) -> Pair:
    """What is computed, or what a run with the same stem has computed already."""
    if session.stem is None:
        return compute()
    return session.stem.pair(name, session.fabric.device, compute)


def features_of(
    session: Session,
    look: Callable[[Tensor], Tensor],
    images: Iterator[tuple[Tensor, Tensor]],
    event: dict[str, Any],
) -> Pair:
    pairs = []
    for batch, labels in images:
        pairs.append((look(batch), labels))
        session.listen({**event, "images": len(batch)})
    return torch.cat([part for part, _ in pairs]), torch.cat([part for _, part in pairs])


def looking_again(learner: Learner, queries: list[Tensor | None]) -> Callable[[Tensor], Tensor]:
    """`learner.features` for batches that come in the same order every time.

    `queries` belong to them one by one; what is missing there is added.
    """
    count = itertools.count()

    def look(batch: Tensor) -> Tensor:
        number = next(count)
        if number == len(queries):
            queries.append(learner.query(batch))
        return learner.features_given(queries[number], batch)

    return look


def recall(session: Session, learner: Learner, optimizer: torch.optim.Optimizer, task: int) -> bool:
    """Take the epochs before the head phase from the stem, if they are there."""
    state = session.stem.trained(task) if session.stem else None
    if state is None:
        return False
    learner.load_learned_state({**learner.learned_state(), **select(state, "learner.")})
    load_optimizer(optimizer, select(state, "optimizer."))
    return True


def lr_factors(schedule: str, epochs: int) -> list[float]:
    """Learning rate of each epoch over the initial one: cosine to zero, or a tenth after 80 %.

    "paper" is the released code's quarter cosine, whose first value is used twice (methods.md, E).
    """
    if schedule == "step":
        return [1.0 if epoch < 0.8 * epochs else 0.1 for epoch in range(epochs)]
    if schedule == "cosine":
        return [0.5 + 0.5 * math.cos(math.pi * epoch / epochs) for epoch in range(epochs)]
    last = max(1, epochs - 1)
    return [math.cos(99 * math.pi * max(0, epoch - 1) / (200 * last)) for epoch in range(epochs)]


def step(session: Session, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    session.fabric.backward(loss)
    optimizer.step()


def descend(
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    backward: Callable[[Tensor], object],
    images: Tensor,
    labels: Tensor,
    size: int,
) -> Tensor:
    """One step on a batch, in equal parts of at most `size`: gradients add up to the whole's."""
    optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=images.device)
    parts = math.ceil(len(images) / size)
    for some, of_some in zip(images.tensor_split(parts), labels.tensor_split(parts), strict=True):
        loss = learner.loss(some, of_some) * (len(some) / len(images))
        backward(loss)
        total += loss.detach()
    optimizer.step()
    return total


def images_at_once(session: Session) -> int:
    """How many images of a batch go through the network together.

    All on a GPU. On a CPU so few that every activation is small enough for the C library to keep
    its memory for the next one; a larger one would be paid for anew each time, page by page.
    """
    if session.fabric.device.type != "cpu":
        return session.run.batch_size
    arch, size = session.backbone.vit.arch, session.run.transform.size
    return min(session.run.batch_size, small_batch(arch, size))


def small_batch(arch: Architecture, size: int) -> int:
    tokens = (size // arch.patch_size) ** 2 + 1 + arch.registers
    widest = 4 * tokens * max(arch.mlp_dim, 3 * arch.embed_dim)  # bytes of an image
    return max(1, KEPT_BLOCK // widest)


def batches(
    session: Session, task: int, epoch: int, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    run, part = session.run, session.tasks[task].train
    for batch in train_batches(
        session.dataset.train,
        part.indices,
        part.labels,
        run.transform,
        seed=run.seed,
        task=task,
        epoch=epoch,
        batch_size=batch_size,
        workers=run.workers,
    ):
        yield to_device(session, batch)


def test_images(session: Session, task: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Loaded once, if the test images of all tasks are few enough to be kept."""
    views = session.views.get(task)
    if views is None:
        views = as_tested(session, session.dataset.test, session.tasks[task].test)
        count = sum(len(task.test) for task in session.tasks)
        if 3 * session.run.transform.size**2 * count <= KEPT_VIEWS:
            views = session.views[task] = list(views)
    return (to_device(session, batch) for batch in views)


def still_images(session: Session, task: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The training images of a task as they are tested, with labels counted within it."""
    start = session.tasks[task].start
    for batch in as_tested(session, session.dataset.train, session.tasks[task].train):
        images, labels = to_device(session, batch)
        session.listen({"event": "means", "task": task, "images": len(images), "loss": None})
        yield images, labels - start


def as_tested(session: Session, images: Images, part: Part) -> Iterable[Batch]:
    return test_batches(
        images,
        part.indices,
        part.labels,
        session.run.transform,
        batch_size=images_at_once(session),
        workers=session.run.workers,
    )


def to_device(session: Session, batch: Batch) -> tuple[Tensor, Tensor]:
    pixels, labels = session.fabric.to_device(batch)
    return normalised(pixels, session.run.transform), labels


def tell(session: Session, event: str, task: int, epoch: int, images: int, loss: Tensor) -> float:
    value = loss.item()
    session.listen({"event": event, "task": task, "epoch": epoch, "images": images, "loss": value})
    return value


# --- saving and coming back ------------------------------------------------------------------


def save(
    session: Session,
    learner: Learner,
    position: Position,
    optimizer: torch.optim.Optimizer | None,
) -> None:
    meta = {"schema": SCHEMA, "backbone": session.backbone.sha256, "position": vars(position)}
    save_tensors(session.checkpoint, state_of(learner, optimizer), meta)


def state_of(learner: Learner, optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    tensors = {f"learner.{k}": v for k, v in learner.learned_state().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{k}": v for k, v in state.items()}
    return tensors


def restore(session: Session, learner: Learner) -> tuple[Position, dict[str, Tensor]]:
    """Bring learner and position back from the checkpoint; without one, from the start."""
    if not session.checkpoint.exists():
        return Position(), {}
    tensors, meta = load_tensors(session.checkpoint)
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
    begun = position.task + (position.epoch > 0)
    for number, task in enumerate(session.tasks[:begun]):
        learner.begin_task(len(task.classes), (session.run.seed, number))
    learner.load_learned_state(select(tensors, "learner."))
    return position, select(tensors, "optimizer.")


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def select(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
