"""Algorithm 1: learn a task, evaluate, save; then the next.

Every draw is a function of (seed, task, epoch), and the state is saved after every epoch, so a run
that was stopped anywhere continues to the result of an unbroken one, bit for bit.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Vor
from ovor.data.batches import batch_lengths
from ovor.distributed.ranks import ALONE, Ranks
from ovor.errors import OvorError
from ovor.events import EpochEnds, HeadStep, RunBegins, TaskEnds, TrainStep
from ovor.learners.base import Learner
from ovor.losses import outlier_loss
from ovor.outliers import synthesize
from ovor.seeds import HEAD_ORDER, NOISE, generator
from ovor.training.checkpointing import Checkpoints, Clock, Position
from ovor.training.context import Context, check_alike
from ovor.training.features import Features, images_at_once, still_images, training_batches

Stored = tuple[Tensor, Tensor, Tensor]  # features (n, D), labels within the task, outliers (M, D)


def train(
    context: Context, learner: Learner, features: Features, checkpoints: Checkpoints
) -> Position:
    """Learn all tasks in turn, from where the checkpoint left off."""
    check_alike(context)
    position = checkpoints.restore(learner)
    context.listen(beginning(context, learner, position))
    clock = Clock(position)
    for number in range(position.task, len(context.tasks)):
        learn_task(context, learner, features, checkpoints, position, clock)
        accuracy, task_id_given, class_right = evaluate(context, learner, features, number)
        reached = Position(
            task=number + 1,
            accuracy=(*position.accuracy, accuracy),
            accuracy_task_id_given=(*position.accuracy_task_id_given, task_id_given),
            class_right=(*position.class_right, class_right),
        )
        position = clock.on(reached)
        context.listen(TaskEnds(number, accuracy, task_id_given, round(position.seconds, 3)))
        checkpoints.save(learner, position)
    return position


def learn_task(
    context: Context,
    learner: Learner,
    features: Features,
    checkpoints: Checkpoints,
    position: Position,
    clock: Clock,
) -> None:
    """Learn the next task from the next epoch on."""
    number, run = position.task, context.run
    if position.epoch == 0:
        learner.begin_task(len(context.tasks[number].classes), (run.seed, number))
        context.ranks.synchronize(learner.learnable())
    optimizer = learner.optimizer(run)
    first_epoch = checkpoints.first_epoch(learner, optimizer, position)
    for epoch, loss in learn_epochs(context, learner, features, optimizer, number, first_epoch):
        check_bounds(learner, loss)
        now = clock.on(replace(position, epoch=epoch + 1))
        context.listen(EpochEnds(number, epoch, loss, round(now.seconds, 3)))
        checkpoints.save(learner, now, optimizer)
    try:
        learner.end_task(still_images(context, number), (run.seed, number))
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise OvorError(
            "The equations of the method have no solution in numbers of this precision: choose a "
            "smaller --lr if it trains, else more of its ridge or shrinkage, and begin anew."
        ) from error


def check_bounds(learner: Learner, loss: float) -> None:
    """Refuse to go on with what is no number: all that follows would be guesses."""
    parts = [part for part in learner.learnable() if not part.isfinite().all()]
    if parts or not math.isfinite(loss):
        raise OvorError(
            "Training ran out of bounds: what is learned are no numbers any more. Choose a smaller "
            "--lr, and begin anew."
        )


def learn_epochs(
    context: Context,
    learner: Learner,
    features: Features,
    optimizer: torch.optim.Optimizer,
    task: int,
    first_epoch: int,
) -> Iterator[tuple[int, float]]:
    """Do the epochs of one task (Alg. 1); yield the number of each and its mean loss."""
    run, vor = context.run, context.run.vor
    epochs = learner.epochs(run, task)
    head_phase = epochs - (vor.epochs if vor else 0)
    stored: Stored | None = None
    for epoch, factor in enumerate(lr_factors(run.schedule, epochs)):
        if epoch < first_epoch:
            continue
        for group in optimizer.param_groups:
            group["lr"] = run.lr * factor * group.get("factor", 1.0)
        if vor is None or epoch < head_phase:  # line 2: prompt and head, cross-entropy
            yield epoch, train_epoch(context, learner, optimizer, task, epoch)
            continue
        if stored is None or vor.refresh == "epoch":  # line 3: features and their outliers
            fresh = epoch if vor.refresh == "epoch" else head_phase
            stored = None  # the old ones go before the new ones come
            stored = features_and_outliers(context, learner, features, vor, task, fresh)
        # line 4: the head alone
        yield epoch, head_epoch(context, learner, optimizer, vor, stored, task, epoch)


def train_epoch(
    context: Context, learner: Learner, optimizer: torch.optim.Optimizer, task: int, epoch: int
) -> float:
    """Train once on every image of the task, and return the mean loss of the batches."""
    learner.train()
    learner.begin_epoch(epoch)
    (run, ranks), start = (context.run, context.ranks), context.tasks[task].start
    rows = ranks.shard if learner.separable else ranks.all_on_first
    counts = batch_lengths(len(context.tasks[task].train), run.batch_size)
    losses = []
    for count, (images, labels) in zip(
        counts, training_batches(context, task, epoch, run.batch_size, rows), strict=True
    ):
        size = images_at_once(context) if learner.separable else count
        backward = context.fabric.backward
        loss = train_step(learner, optimizer, backward, images, labels - start, size, count, ranks)
        losses.append(loss.item())
        context.listen(TrainStep(task, epoch, count, losses[-1]))
    return fmean(losses)


def train_step(
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    backward: Callable[[Tensor], object],
    images: Tensor,
    labels: Tensor,
    size: int,
    count: int = 0,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Take one step on a batch, in equal parts of at most `size`: their gradients add up.

    With several processes, the images are this one's shard of `count`. A part counts by its size
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
    total = ranks.all_reduce_gradients(parameters, total)
    optimizer.step()
    return total


@torch.no_grad()
def features_and_outliers(
    context: Context, learner: Learner, features: Features, vor: Vor, task: int, epoch: int
) -> Stored:
    """Extract the features of the task's augmented images, and make outliers of them (Alg. 2)."""
    learner.eval()
    found, labels = features.of_training(learner, task, epoch)
    labels = labels - context.tasks[task].start
    noise = generator(context.run.seed, task, epoch, NOISE)
    classes, folder = len(context.tasks[task].classes), context.checkpoint.parent
    outliers = synthesize(found, classes, vor.npos, noise, folder, context.ranks)
    return found, labels, outliers


def head_epoch(
    context: Context,
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    vor: Vor,
    stored: Stored,
    task: int,
    epoch: int,
) -> float:
    """Tighten the current head on stored features; the prompt gets no gradient and stays."""
    features, labels, outliers = stored
    order = torch.randperm(
        len(features), generator=generator(context.run.seed, task, epoch, HEAD_ORDER)
    ).to(features.device)
    parts = torch.split(order, context.run.batch_size)
    losses = []
    for index, outside in zip(parts, outliers.tensor_split(len(parts)), strict=True):
        logits = learner.current_logits(features[index])
        loss = F.cross_entropy(logits, labels[index])
        loss = loss + outlier_loss(logits, learner.current_logits(outside), vor)
        optimizer.zero_grad(set_to_none=True)
        context.fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
        context.listen(HeadStep(task, epoch, len(index), losses[-1]))
    context.ranks.synchronize([p for p in learner.learnable() if p.grad is not None])
    return fmean(losses)


@torch.no_grad()
def evaluate(
    context: Context, learner: Learner, features: Features, last: int
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...]]:
    """Return the accuracy on every task so far, class-incremental and with the task given.

    And of every class so far, by its new label, how many test images are named right.
    """
    learner.eval()
    incremental, given = [], []
    class_right: Counter[int] = Counter()
    for number, task in enumerate(context.tasks[: last + 1]):
        right = right_given = 0
        pair = features.of_test(learner, last, number)
        parts = (torch.split(part, context.run.batch_size) for part in pair)
        for some, labels in zip(*parts, strict=True):
            logits = learner.logits(some)
            inside = logits[:, task.start : task.start + len(task.classes)]
            named_right = labels[logits.argmax(1) == labels].tolist()
            class_right.update(named_right)
            right += len(named_right)
            right_given += int((inside.argmax(1) + task.start == labels).sum())
        incremental.append(100 * right / len(task.test))
        given.append(100 * right_given / len(task.test))
    seen = context.tasks[last].labels.stop
    return tuple(incremental), tuple(given), tuple(class_right[label] for label in range(seen))


def lr_factors(schedule: str, epochs: int) -> list[float]:
    """Return each epoch's learning rate over the initial one: cosine, or a tenth after 80 %.

    "paper" is the released code's quarter cosine, whose first value is used twice
    (docs/methods.md, schedule).
    """
    if schedule == "step":
        return [1.0 if epoch < 0.8 * epochs else 0.1 for epoch in range(epochs)]
    if schedule == "cosine":
        return [0.5 + 0.5 * math.cos(math.pi * epoch / epochs) for epoch in range(epochs)]
    last = max(1, epochs - 1)
    return [math.cos(99 * math.pi * max(0, epoch - 1) / (200 * last)) for epoch in range(epochs)]


def beginning(context: Context, learner: Learner, position: Position) -> RunBegins:
    """Return how much there is to do, and where it begins."""
    return RunBegins(
        task=position.task,
        epoch=position.epoch,
        train_images=tuple(len(task.train) for task in context.tasks),
        test_images=tuple(len(task.test) for task in context.tasks),
        epochs=tuple(learner.epochs(context.run, t) for t in range(len(context.tasks))),
        reads=context.backbone.encoder.reads.many,
    )
