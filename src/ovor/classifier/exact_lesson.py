"""One more lesson for a model of exact sums: new classes, and more images of known ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ovor.classifier.calibration import Calibration
from ovor.classifier.collect import Collected, Work, collect
from ovor.classifier.digests import Digests
from ovor.classifier.exact import Exact, judged, solved
from ovor.classifier.file import Expected, TaskInfo
from ovor.classifier.lesson_report import estimated, with_verdict
from ovor.classifier.memory import Memory
from ovor.classifier.older import older_classes
from ovor.classifier.repeats import repeated
from ovor.classifier.task_list import with_more
from ovor.config import RUN
from ovor.data.class_names import listed
from ovor.data.task_data import Lesson
from ovor.errors import OvorError
from ovor.events import Listener
from ovor.learners.analytic import Analytic
from ovor.learners.moments import rounded_weights
from ovor.tensor_file import digest


def learn_exactly(
    model: Memory,
    lesson: Lesson,
    checkpoint: Path | None,
    listen: Listener,
    *,
    once: bool = False,
    weights: Sequence[float] | None = None,
    past: str = "",
) -> None:
    """Add a lesson's images to the sums of a model.

    `past` identifies the model before the lesson, which an unfinished one must have begun with.
    """
    learner = model.exact("learn") if model._learner else model.new_learner()
    learner.to(model.torch_device())
    known, reads = model.classes_.tolist(), model.reads
    new = [name for name in lesson.class_names if name not in known]
    names = known + new
    order = np.array([names.index(name) for name in lesson.class_names])
    rows = order[lesson.images.labels]
    digests = model._exact.digests if model._exact else None
    if once and digests is None:
        digests = Digests()
    counted = None if weights is None else checked_weights(weights, len(rows), reads.many)
    about = {
        "past": past,
        "lesson": lesson.fingerprint() if checkpoint else "",
        "run": RUN.dump_python(model.settled().essence, mode="json"),
        "once": digests is not None,
        "weights": None if counted is None else digest({"weights": counted}, {}),
    }
    work = Work(
        learner,
        lesson.images,
        rows,
        model.run(),
        model.transform(),
        len(names),
        counted,
        len(model.tasks_),
        digests,
        about,
        f'Or leave such {reads.many} out (on_error="skip").',
    )
    found = collect(work, checkpoint, listen)
    added = np.setdiff1d(np.arange(len(rows)), found.left_out)
    check_new(model, found, rows, names, len(added))
    moments = learner.moments.grown(len(new)).plus(found.moments, torch.arange(len(names)))
    if not bool((moments.counts > 0).all()):
        raise OvorError(
            f"A class has no weight at all: give its {reads.many} more, or leave it out."
        )
    counts = np.bincount(rows[added], minlength=len(names))
    tasks = with_more(
        model.tasks_,
        [n for n in names if counts[names.index(n)]],
        [int(k) for k in counts if k],
    )
    if digests is not None:
        fresh = {found.digests[i]: int(rows[i]) for i in added}
        digests = Digests({**digests, **fresh})
    calibration = model._exact.calibration if model._exact else Calibration.empty()
    if model._exact:
        model.remember()
    again = repeated(found, rows, added, learner.moments)
    now = solved(learner, moments, model._exact)
    everything = torch.from_numpy(rows)
    calibration, report = judged(now, found, lesson, everything, names, calibration, again)
    report["shortened"] = found.shortened
    report["left_out"] = [lesson.images.called(i) for i in found.left_out]
    older = estimated(lost_to(learner, names, len(new), report) if known and new else [])
    report = with_verdict(report, older, len(names), exact=True)
    model._exact = Exact(now.novelty, calibration, digests)
    model.report_ = report
    model.expected_ = {**model.expected_, **expectations(report, model.expected_)}
    if new:
        tasks = (*tasks[:-1], with_judgement(tasks[-1], report))
    model._learner, model.tasks_ = learner, tasks
    model._lesson = f"{past}-{about['lesson']}" if checkpoint else ""
    model._transform = model.transform()


def lost_to(
    learner: Analytic, names: list[str], new: int, report: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return what classes that are not of the lesson lost to those that are new."""
    taught = {names.index(found["class"]): found["expected"] for found in report["classes"]}
    shares = {row: known / 100 for row, known in taught.items() if known is not None}
    rest = [row for row in range(len(names) - new) if row not in taught]
    return older_classes(learner, names, new, shares, rest)


def check_new(model: Memory, found: Collected, rows: Any, names: list[str], added: int) -> None:
    """Refuse a lesson of which nothing, or nothing of a new class, is new."""
    if not added:
        raise OvorError(
            f"Every {model.reads.one} here is learned already: there is nothing new to learn."
        )
    without = [
        name
        for row, name in enumerate(names)
        if row >= len(model.classes_) and not found.moments.counts[row] and row in rows
    ]
    if without and found.left_out:
        raise OvorError(
            f"All {model.reads.many} of {listed(without)} were learned already, as another class: "
            "correct them (ovor correct), or leave the class out."
        )


def expectations(report: dict[str, Any], past: Mapping[str, Expected]) -> dict[str, Expected]:
    """Return what is kept of a lesson's report; of a class that it could not judge, what was."""
    return {
        found["class"]: Expected(
            found["expected"], tuple(other["class"] for other in found["confused_with"])
        )
        for found in report["classes"]
        if found["judged"] or found["class"] not in past
    }


def with_judgement(task: TaskInfo, report: dict[str, Any]) -> TaskInfo:
    """Return a task with what leave-one-out says of it."""
    return replace(task, accuracy=report["expected"])


def checked_weights(weights: Sequence[float], images: int, many: str) -> Tensor:
    """Return one weight an item, on the grid on which sums are exact."""
    found = torch.as_tensor(np.asarray(weights, dtype=np.float64))
    if found.shape != (images,):
        raise OvorError(f"There are {images} {many} and {found.numel()} weights: give one each.")
    if not bool((found.isfinite() & (found >= 0)).all()):
        raise OvorError("A weight is negative or no number: give numbers from 0 on.")
    return rounded_weights(found)
