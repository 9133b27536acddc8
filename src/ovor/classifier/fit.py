"""One more task for a growing classifier: its epochs, then the threshold of its energies.

The loop is the one of runs (Alg. 1). Instead of test images there are some held out of the lesson,
which say how low the energies of the task's new images will be.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ovor.classifier.file import Snapshot, TaskInfo
from ovor.classifier.lesson_report import (
    NOTHING_OLDER,
    UNTESTED,
    By,
    lesson_report,
    with_verdict,
)
from ovor.classifier.rejection import recalibrated
from ovor.config import RUN
from ovor.data.base import Dataset
from ovor.data.task_data import Lesson
from ovor.data.tasks import Part, Task
from ovor.errors import OvorError
from ovor.events import Listener, silent
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors
from ovor.training import context as training
from ovor.training.checkpointing import Checkpoints, Clock, Position, grow
from ovor.training.context import Context
from ovor.training.features import Features, images_at_once, training_batches
from ovor.training.loop import beginning, learn_task, train_step

HOLDS_OUT = 6  # images that a class must have to give one away
STEPS = 5  # of an epoch, at least, where there are images enough for batches of SMALLEST
SMALLEST = 8
PATIENCE = 2.0  # seconds that are enough to tell how long all images will take


@dataclass(frozen=True)
class Estimate:
    """What learning would take."""

    seconds: float
    megabytes: float
    """of memory, at the most"""


def fit_task(
    past: Snapshot,
    lesson: Lesson,
    checkpoint: Path,
    *,
    hold_out: float,
    false_alarms: float,
    listen: Listener,
) -> tuple[Learner, tuple[TaskInfo, ...], dict[str, Any]]:
    """Return a learner that knows the lesson's classes too, what to remember of all tasks, and
    how well the lesson went.
    """
    context, learner = prepare(past, lesson, checkpoint, hold_out, listen)
    features, checkpoints = Features(context), Checkpoints(context)
    position = begin(context, learner, checkpoints, past)
    context.listen(beginning(context, learner, position))
    learn_task(context, learner, features, checkpoints, position, Clock(position))
    number = len(past.tasks)
    task = context.tasks[number]
    learner.eval()
    with torch.no_grad():
        tested, labels = features.of_test(learner, number, number)
        logits = learner.logits(tested).cpu()
        if not logits.isfinite().all():
            raise OvorError(
                "Learning ran out of bounds, and the weights are no numbers any more: choose a "
                "smaller learning rate (lr=...), and begin anew."
            )
    held_out = len(task.test) if task.test is not task.train else 0
    right = (logits.argmax(1) == labels.cpu()).double().mean().item()
    accuracy = round(100 * right, 4) if held_out else None
    learned = TaskInfo(lesson.class_names, lesson.counts, held_out, 0.0, accuracy)
    tasks = (*past.tasks, learned)
    sizes = [len(known.classes) for known in tasks]
    limits = recalibrated([known.threshold for known in past.tasks], logits, sizes, false_alarms)
    tasks = tuple(
        replace(known, threshold=limit) for known, limit in zip(tasks, limits, strict=True)
    )
    return learner, tasks, told(logits, labels.cpu(), tasks, lesson.images.reads.many)


def told(logits: Tensor, labels: Tensor, tasks: tuple[TaskInfo, ...], reads: str) -> dict[str, Any]:
    """Return how well the last task was learned, by the images that were held out of it."""
    names = [name for task in tasks for name in task.classes]
    counts = [count for task in tasks for count in task.images]
    taught = range(len(names) - len(tasks[-1].classes), len(names))
    by: By = "held-out" if tasks[-1].held_out else "taught"
    found = lesson_report(logits.softmax(1), labels, names, counts, [], taught, by)
    found["reads"] = reads
    older = {**NOTHING_OLDER, "how": "untested", "note": UNTESTED} if tasks[1:] else NOTHING_OLDER
    found["left_out"] = []
    if by == "taught":  # which says nothing of new images
        unknown = {"judged": 0, "expected": None, "interval": None}
        found |= {**unknown, "of_taught": found["expected"]}
        found["classes"] = [known | unknown for known in found["classes"]]
    return with_verdict(found, older, len(names), exact=False)


def prepare(
    past: Snapshot, lesson: Lesson, checkpoint: Path, hold_out: float, listen: Listener = silent
) -> tuple[Context, Learner]:
    """Put together what the lesson works with; known tasks are there without their images."""
    start, tasks = 0, []
    nothing = Part(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for learned in past.tasks:
        tasks.append(Task(tuple(range(len(learned.classes))), start, nothing, nothing))
        start += len(learned.classes)
    train, held = split_validation(lesson, hold_out, (past.run.seed, len(tasks)), start)
    tasks.append(Task(tuple(range(len(lesson.class_names))), start, train, held))
    context, learner = training.prepare(
        replace(past.run, batch_size=batch_size(past.run.batch_size, len(train))),
        Dataset("lesson", lesson.class_names, lesson.images, lesson.images),
        tuple(tasks),
        past.backbone,
        checkpoint,
        listen=listen,
    )
    about = {
        "task": len(past.tasks),
        "classes": list(lesson.class_names),
        "lesson": lesson.fingerprint(),
        "past": past.digest,
        "run": RUN.dump_python(context.run.essence, mode="json"),
        "hold_out": hold_out,
    }
    return replace(context, about=about), learner


def split_validation(
    lesson: Lesson, hold_out: float, seed: tuple[int, int], start: int
) -> tuple[Part, Part]:
    """Return images to train on and images held out: of each class a share, and one at least.

    Classes of few images give none; if none gives any, the same images are used twice.
    """
    labels, chosen = lesson.images.labels, []
    draw = np.random.default_rng(seed)
    for number in range(len(lesson.class_names)):
        own = draw.permutation(np.flatnonzero(labels == number))
        count = max(1, round(len(own) * hold_out)) if hold_out and len(own) >= HOLDS_OUT else 0
        chosen.append(own[: min(count, len(own) - 1)])  # one at least is learned from
    held = np.sort(np.concatenate(chosen))
    rest = np.setdiff1d(np.arange(len(labels)), held)
    train = Part(rest, labels[rest] + start)
    return train, Part(held, labels[held] + start) if len(held) else train


def batch_size(usual: int, images: int) -> int:
    """Return a smaller one for few images: an epoch of one step would learn next to nothing."""
    return min(usual, max(SMALLEST, images // STEPS))


def begin(context: Context, learner: Learner, checkpoints: Checkpoints, past: Snapshot) -> Position:
    """Bring the learner to where it was before the lesson, or in an unfinished one."""
    if context.checkpoint.exists():
        check_same(context)
        return checkpoints.restore(learner)
    grow(learner, [len(learned.classes) for learned in past.tasks], context.run.seed)
    if past.tasks:
        learner.load_learned_state(past.state)
    return Position(task=len(past.tasks))


def already_learned(checkpoint: Path, tasks: Sequence[TaskInfo], lesson: str = "") -> bool:
    """Tell whether the model has the lesson of a checkpoint that nobody came to remove.

    `lesson` identifies the last one of a model of exact sums.
    """
    about = load_tensors(checkpoint)[1].get("about", {})
    if lesson and lesson == f"{about.get('past')}-{about.get('lesson')}":
        return True
    number = about.get("task", len(tasks))
    return bool(number < len(tasks) and list(tasks[number].classes) == about["classes"])


def check_same(context: Context) -> None:
    """Refuse a checkpoint of another lesson, or one begun with another model or settings."""
    about: dict[str, Any] = load_tensors(context.checkpoint)[1].get("about", {})
    differs = {
        "past": "the model has changed since",
        "lesson": "what is learned is not the same",
        "run": "it was begun with other settings",
        "hold_out": "another share was held out",
    }
    if "run" in about:  # as this version writes it: an older one may have had more options
        about["run"] = RUN.dump_python(RUN.validate_python(about["run"]), mode="json")
    for key, what in differs.items():
        if about.get(key) != context.about[key]:
            raise OvorError(
                f"The unfinished lesson in {context.checkpoint} cannot be continued, {what}: bring "
                "that back, or start again (remove the file)."
            )


def estimate(past: Snapshot, lesson: Lesson, hold_out: float) -> Estimate:
    """Return what learning would take, by one real step after one that does not count."""
    with tempfile.TemporaryDirectory() as folder:  # where no checkpoint is
        context, learner = prepare(past, lesson, Path(folder, "none"), hold_out)
        begin(context, learner, Checkpoints(context), past)
    run, number = context.run, len(past.tasks)
    learner.begin_task(len(lesson.class_names), (run.seed, number))
    epochs = learner.epochs(run, number)
    seconds = seconds_per_image(context, learner, number, training=epochs > 0)
    head_phase = run.vor.epochs if run.vor else 0
    steps = max(1, epochs - head_phase) * len(context.tasks[number].train)
    looks = head_phase * len(context.tasks[number].train) + len(context.tasks[number].test)
    return Estimate(seconds * (steps + looks / 2), used_memory(context.fabric.device) / 2**20)


def seconds_per_image(context: Context, learner: Learner, task: int, *, training: bool) -> float:
    """Return how long an image takes to be read and learned from.

    Of methods that train, by a whole step; else by ever more images, for as long as one waits.
    """
    run, at_once, start = context.run, images_at_once(context), time.perf_counter()
    images, labels = next(
        training_batches(context, task, 0, run.batch_size if training else at_once)
    )
    # Other processes read while this one computes.
    reading = 0.0 if run.workers else (time.perf_counter() - start) / len(images)
    labels = labels - context.tasks[task].start

    def timed(count: int) -> float:
        start = time.perf_counter()
        if training:
            size, optimizer = at_once if learner.separable else count, learner.optimizer(run)
            train_step(learner.train(), optimizer, context.fabric.backward, images, labels, size)
        else:
            with torch.no_grad():
                learner.eval().features(images[:count])
        return time.perf_counter() - start

    count, spent = len(images) if training else 1, 0.0
    took = timed(count)  # does not count: much is set up
    while not spent or (count < len(images) and spent < PATIENCE):
        count = min(2 * count, len(images))
        took = timed(count)
        spent += took
    return reading + took / count


def used_memory(device: torch.device) -> float:
    """Return the bytes used at the most so far: of the GPU if there is one, else of the process."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)
