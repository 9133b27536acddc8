"""One more task for a growing classifier: its epochs, then the threshold of its energies.

The loop is the one of `train.py`; instead of test images there are some held out of the lesson,
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

from ovor.classifier.file import TaskInfo
from ovor.classifier.rejection import recalibrated
from ovor.config import RUN, Run
from ovor.data.base import Dataset
from ovor.data.task_data import Lesson
from ovor.data.tasks import Part, Task
from ovor.encoders import Backbone
from ovor.errors import OvorError
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.tensor_file import load_tensors
from ovor.training.checkpointing import Position, grow, restore
from ovor.training.context import (
    Listener,
    Session,
    batches,
    check_input,
    features_of,
    images_at_once,
    make_fabric,
    test_images,
)
from ovor.training.loop import descend, learn_one, tell_beginning

HOLDS_OUT = 6  # images that a class must have to give one away
STEPS = 5  # of an epoch, at least, where there are images enough for batches of SMALLEST
SMALLEST = 8


@dataclass(frozen=True)
class Past:
    """A classifier before the lesson."""

    run: Run
    backbone: Backbone
    tasks: tuple[TaskInfo, ...]
    state: dict[str, torch.Tensor]
    digest: str


@dataclass(frozen=True)
class Estimate:
    seconds: float
    megabytes: float
    """of memory, at the most"""


def teach(
    past: Past,
    lesson: Lesson,
    checkpoint: Path,
    *,
    hold_out: float,
    false_alarms: float,
    listen: Listener,
) -> tuple[Learner, tuple[TaskInfo, ...]]:
    """The learner with the lesson's classes, and what to remember of all tasks; `past` stays."""
    session = prepare(past, lesson, checkpoint, hold_out, listen)
    learner, position, optimizer_state = begin(session, past)
    tell_beginning(session, learner, position)
    learn_one(session, learner, position, optimizer_state)
    number = len(past.tasks)
    task, event = session.tasks[number], {"event": "test", "task": number, "loss": None}
    learner.eval()
    with torch.no_grad():
        images = test_images(session, number)
        features, labels = features_of(session, learner.features, images, event)
        logits = learner.logits(features).cpu()
        if not logits.isfinite().all():
            raise OvorError(
                "Learning ran out of bounds, and the weights are no numbers any more: choose a "
                "smaller learning rate (--lr), and begin anew (--restart)."
            )
    held_out = len(task.test) if task.test is not task.train else 0
    right = (logits.argmax(1) == labels.cpu()).double().mean().item()
    accuracy = round(100 * right, 4) if held_out else None
    learned = TaskInfo(lesson.class_names, lesson.counts, held_out, 0.0, accuracy)
    tasks = (*past.tasks, learned)
    sizes = [len(known.classes) for known in tasks]
    limits = recalibrated([known.threshold for known in past.tasks], logits, sizes, false_alarms)
    return learner, tuple(
        replace(known, threshold=limit) for known, limit in zip(tasks, limits, strict=True)
    )


def prepare(
    past: Past, lesson: Lesson, checkpoint: Path, hold_out: float, listen: Listener
) -> Session:
    start, tasks = 0, []
    nothing = Part(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for learned in past.tasks:
        tasks.append(Task(tuple(range(len(learned.classes))), start, nothing, nothing))
        start += len(learned.classes)
    train, held = parted(lesson, hold_out, (past.run.seed, len(tasks)), start)
    tasks.append(Task(tuple(range(len(lesson.class_names))), start, train, held))
    size = past.run.transform.size or past.backbone.vit.arch.image_size
    check_input(past.backbone.vit.arch, size)
    run = replace(
        past.run,
        transform=replace(past.run.transform, size=size),
        batch_size=batch_size(past.run.batch_size, len(train)),
    )
    return Session(
        run=run,
        dataset=Dataset("lesson", lesson.class_names, lesson.images, lesson.images),
        order=[],
        tasks=tuple(tasks),
        backbone=past.backbone,
        fabric=make_fabric(run),
        checkpoint=checkpoint,
        listen=listen,
        about={
            "task": len(past.tasks),
            "classes": list(lesson.class_names),
            "lesson": lesson.fingerprint(),
            "past": past.digest,
            "run": RUN.dump_python(run.essence, mode="json"),
            "hold_out": hold_out,
        },
    )


def parted(lesson: Lesson, hold_out: float, seed: tuple[int, int], start: int) -> tuple[Part, Part]:
    """Images to train on and images held out: of each class a share, and one at least.

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
    """Smaller for few images: an epoch of one step would learn next to nothing."""
    return min(usual, max(SMALLEST, images // STEPS))


def begin(session: Session, past: Past) -> tuple[Learner, Position, dict[str, torch.Tensor]]:
    """A learner as it was before the lesson, or where an unfinished one had come to."""
    run = session.run
    learner = build_learner(run.method, run.options, past.backbone.vit, session.fabric.autocast)
    learner.to(session.fabric.device)
    if session.checkpoint.exists():
        check_same(session)
        return learner, *restore(session, learner)
    grow(learner, [len(learned.classes) for learned in past.tasks], run.seed)
    if past.tasks:
        learner.load_learned_state(past.state)
    return learner, Position(task=len(past.tasks)), {}


def already_learned(checkpoint: Path, tasks: Sequence[TaskInfo]) -> bool:
    """Was the model saved, and this process ended just before it could remove the checkpoint?"""
    about = load_tensors(checkpoint)[1].get("about", {})
    number = about.get("task", len(tasks))
    return bool(number < len(tasks) and list(tasks[number].classes) == about["classes"])


def check_same(session: Session) -> None:
    """A checkpoint continues one lesson only, begun with the same model and settings."""
    about: dict[str, Any] = load_tensors(session.checkpoint)[1].get("about", {})
    differs = {
        "past": "the model has changed since",
        "lesson": "the images are not the same",
        "hold_out": "another share of images was held out",
        "run": "it was begun with other settings",
    }
    for key, what in differs.items():
        if about.get(key) != session.about[key]:
            raise OvorError(
                f"The unfinished lesson in {session.checkpoint} cannot be continued, {what}: bring "
                "that back, or start again (--restart)."
            )


def estimate(past: Past, lesson: Lesson, hold_out: float) -> Estimate:
    """By one real step, after one that does not count; nothing is learned or written."""
    with tempfile.TemporaryDirectory() as folder:  # where no checkpoint is
        session = prepare(past, lesson, Path(folder, "none"), hold_out, lambda event: None)
        learner, _, _ = begin(session, past)
    run, number = session.run, len(past.tasks)
    learner.begin_task(len(lesson.class_names), (run.seed, number))
    epochs = learner.epochs(run, number)
    images, labels = next(batches(session, number, 0, run.batch_size))
    labels = labels - session.tasks[number].start
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        if epochs:
            size = images_at_once(session) if learner.separable else len(images)
            optimizer = learner.optimizer(run)
            descend(learner.train(), optimizer, session.fabric.backward, images, labels, size)
        else:
            with torch.no_grad():
                learner.eval().features(images)
        seconds = (time.perf_counter() - start) / len(images)
    head_phase = run.vor.epochs if run.vor else 0
    steps = max(1, epochs - head_phase) * len(session.tasks[number].train)
    looks = head_phase * len(session.tasks[number].train) + len(session.tasks[number].test)
    return Estimate(seconds * (steps + looks / 2), used_memory(session.fabric.device) / 2**20)


def used_memory(device: torch.device) -> float:
    """Bytes, at the most so far: of the GPU if there is one, else of this process."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)
