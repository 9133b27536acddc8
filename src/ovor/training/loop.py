"""The one loop: learn a task, evaluate, save; then the next (Alg. 1).

Every draw is a function of (seed, task, epoch), and the state is saved after every epoch, so a run
that was stopped anywhere continues to the result of an unbroken one, bit for bit.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Vor
from ovor.data.views import Pair, batch_lengths
from ovor.distributed.ranks import ALONE, Ranks
from ovor.learners.base import Learner
from ovor.losses import outlier_loss
from ovor.outliers import synthesize
from ovor.seeds import HEAD_ORDER, NOISE, generator
from ovor.training.checkpointing import Position, load_optimizer, restore, save, select, state_of
from ovor.training.context import (
    Session,
    augmented_images,
    batches,
    check_alike,
    features_of,
    images_at_once,
    looking_again,
    still_images,
    test_images,
)


def train(session: Session, learner: Learner) -> Position:
    """Learn all tasks in turn, from where the checkpoint left off."""
    check_alike(session)
    learner.to(session.fabric.device)
    position, optimizer_state = restore(session, learner)
    tell_beginning(session, learner, position)
    for number in range(position.task, len(session.tasks)):
        seconds = learn_one(session, learner, position, optimizer_state)
        start, optimizer_state = time.monotonic(), {}
        accuracy, task_id_given = evaluate(session, learner, number)
        position = Position(
            task=number + 1,
            accuracy=(*position.accuracy, accuracy),
            accuracy_task_id_given=(*position.accuracy_task_id_given, task_id_given),
            seconds=seconds + time.monotonic() - start,
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


def learn_one(
    session: Session, learner: Learner, position: Position, optimizer_state: dict[str, Tensor]
) -> float:
    """The next task, from the next epoch on, saved after each; returns the seconds so far."""
    start, number = time.monotonic(), position.task
    if position.epoch == 0:
        learner.begin_task(len(session.tasks[number].classes), (session.run.seed, number))
        session.ranks.agree(learner.learnable())
    optimizer = learner.optimizer(session.run)
    if optimizer_state:
        load_optimizer(optimizer, optimizer_state)
    for epoch, loss in learn_task(session, learner, optimizer, number, position.epoch):
        seconds = position.seconds + time.monotonic() - start
        event = {"event": "epoch", "task": number, "epoch": epoch, "loss": loss}
        session.listen({**event, "seconds": round(seconds, 3)})
        save(session, learner, replace(position, epoch=epoch + 1, seconds=seconds), optimizer)
    learner.end_task(still_images(session, number), (session.run.seed, number))
    return position.seconds + time.monotonic() - start


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
                stored = None  # the old ones go before the new ones come
                stored = features_and_outliers(session, learner, vor, task, fresh)
            # line 4: the head alone
            loss = head_epoch(session, learner, optimizer, vor, stored, task, epoch)
        yield epoch, loss


def train_epoch(
    session: Session, learner: Learner, optimizer: torch.optim.Optimizer, task: int, epoch: int
) -> float:
    learner.train()
    (run, ranks), start = (session.run, session.ranks), session.tasks[task].start
    rows = ranks.share if learner.separable else ranks.first_only
    counts = batch_lengths(len(session.tasks[task].train), run.batch_size)
    losses = []
    for count, (images, labels) in zip(
        counts, batches(session, task, epoch, run.batch_size, rows), strict=True
    ):
        size = images_at_once(session) if learner.separable else count
        backward = session.fabric.backward
        loss = descend(learner, optimizer, backward, images, labels - start, size, count, ranks)
        losses.append(tell(session, "train", task, epoch, count, loss))
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
            session, learner.features, augmented_images(session, task, epoch), event
        ),
    )
    noise = generator(session.run.seed, task, epoch, NOISE)
    target = labels - start
    folder = session.checkpoint.parent
    outliers = synthesize(features, classes, vor.npos, noise, folder, session.ranks)
    return features, target, outliers


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
    session.ranks.agree([p for p in learner.learnable() if p.grad is not None])
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
    count: int = 0,
    ranks: Ranks = ALONE,
) -> Tensor:
    """One step on a batch, in equal parts of at most `size`: gradients add up to the whole's.

    With several processes, the images are this one's share of `count`. A part counts by its size
    wherever it is, so what is no mean over images (a penalty on weights) counts once in all.
    """
    optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=images.device)
    parts, count = max(1, math.ceil(len(images) / size)), count or len(images)
    for some, of_some in zip(images.tensor_split(parts), labels.tensor_split(parts), strict=True):
        if len(some):
            loss = learner.loss(some, of_some) * (len(some) / count)
            backward(loss)
            total += loss.detach()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    total = ranks.sum_gradients(parameters, total)
    optimizer.step()
    return total


def tell(session: Session, event: str, task: int, epoch: int, images: int, loss: Tensor) -> float:
    value = loss.item()
    session.listen({"event": event, "task": task, "epoch": epoch, "images": images, "loss": value})
    return value


def tell_beginning(session: Session, learner: Learner, position: Position) -> None:
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
