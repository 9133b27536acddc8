"""What a model of exact sums can do: take more images, take some back, correct, merge, undo.

All of it is adding and subtracting sums, so the model is the one that had learned what is left, in
any order and at once. Every change happens wholly or not at all.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ovor.classifier.calibration import Calibration
from ovor.classifier.collect import Collected, Work, collect
from ovor.classifier.digests import Digests
from ovor.classifier.estimator import Estimator
from ovor.classifier.exact import Exact, judged, solved
from ovor.classifier.file import Expected, TaskInfo
from ovor.data.base import Images
from ovor.data.class_names import as_name, check_name, listed
from ovor.data.images import Pictures, spread
from ovor.data.task_data import (
    Lesson,
    OnError,
    checked,
    from_folder,
    from_memory,
    labelled,
    renamed,
)
from ovor.errors import OvorError
from ovor.events import ImageChecked, Listener, silent
from ovor.learners import build_learner
from ovor.learners.analytic import Analytic
from ovor.learners.base import Learner
from ovor.learners.moments import FEATURE_STEPS, Moments, rounded_weights


@dataclass(frozen=True, eq=False)
class Past:
    """A model as it was before its last change."""

    moments: Moments
    head: tuple[Tensor, Tensor]
    tasks: tuple[TaskInfo, ...]
    exact: Exact
    expected: dict[str, Expected]
    lesson: str


class Memory(Estimator):
    """A classifier's exact sums, and all that changes them."""

    _learner: Learner | None = None
    _exact: Exact | None = None
    _past: Past | None = None
    _sums = True  # False in a model that is for predicting only
    _lesson = ""
    _erased = False  # was something taken out that no copy should keep?

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expected_: dict[str, Expected] = {}
        self.report_: dict[str, Any] | None = None

    # --- what can be done

    def unlearn(
        self,
        source: Any,
        labels: Iterable[Any] | None = None,
        *,
        rename: dict[str, str] | None = None,
        on_error: OnError = "stop",
        listen: Listener = silent,
    ) -> Self:
        """Take images back that were learned, from a folder of class folders, or with labels.

        A class whose last image goes is gone. Nothing can tell whether exactly these were learned,
        unless digests are kept (`once`): then others are refused.
        """
        learner = self.exact("unlearn")
        if isinstance(source, str | Path) and labels is None:
            groups, notes = from_folder(Path(source).expanduser())
        else:
            groups, notes = from_memory(source, labels), []
        lesson = labelled(renamed(groups, rename or {}), notes)
        if on_error == "skip":
            event = ImageChecked(total=len(lesson.images))
            lesson = checked(lesson, on_error, lambda images: listen(event))
        rows = self.rows_of(lesson.class_names)[lesson.images.labels]
        self.enough(rows)
        found = self.passed(learner, lesson.images, rows, listen)
        self.check_learned(found, rows, [str(item) for item in lesson.images.items])
        moments = minus(learner.moments, found.moments)
        digests = self.memory().digests
        if digests is not None:
            digests = digests.less(found.digests)
        self.change(moments, self.fewer(rows), digests=digests)
        self._past, self._erased = None, True
        return self

    def correct(
        self, images: Any, to: str, *, from_: str | None = None, listen: Listener = silent
    ) -> Self:
        """Count images as another class: those learned as `from_`, or new ones without it."""
        learner = self.exact("correct")
        to = as_name(to)
        check_name(to, "choose another name", "choose another name")
        items = spread(images)
        if not items:
            raise OvorError("There is no image to correct: give at least one.")
        names = self.classes_.tolist()
        pictures = Pictures(items, np.zeros(len(items), np.int64))
        old = np.zeros(0, np.int64)
        if from_ is not None:
            if as_name(from_) == to:
                raise OvorError(f"The images are {to!r} already: give another class by --to.")
            old = np.repeat(self.rows_of([as_name(from_)]), len(items))
            self.enough(old)
        row = names.index(to) if to in names else len(names)
        classes = max(row + 1, len(names))
        rows = np.full(len(items), row, np.int64)
        found = self.passed(learner, pictures, rows, listen, classes)
        moments = learner.moments.grown(classes - len(names)).plus(
            found.moments, torch.arange(classes)
        )
        digests = self.memory().digests
        if len(old):
            self.check_learned(found, old, [str(item) for item in items])
            taken = Moments(
                moments.counts.new_zeros(classes),
                moments.sums.new_zeros(moments.sums.shape),
                found.moments.second,
                torch.zeros_like(moments.gone),
            )
            taken.counts[old[0]] = found.moments.counts[row]
            taken.sums[old[0]] = found.moments.sums[row]
            moments = minus(moments, taken)
        if digests is not None:
            digests = Digests({**digests, **dict.fromkeys(found.digests, row)})
        tasks = self.more(self.fewer(old) if len(old) else self.tasks_, [to], [len(items)])
        self.change(moments, tasks, digests=digests)
        return self

    def forget_exactly(
        self, name: str, images: Any = None, on_error: OnError = "stop", listen: Listener = silent
    ) -> None:
        """Take a class out; with its images all of it goes, else how they scattered stays."""
        learner = self.exact("forget")
        row = int(self.rows_of([name])[0])
        if images is not None:
            items = spread(images)
            had = learner.moments.counts[row]
            if len(items) != had:
                raise OvorError(
                    f"{name!r} was learned from {had:g} images, and here are {len(items)}: give "
                    "all of them and no others, or forget it without them."
                )
            self.unlearn(items, [name] * len(items), on_error=on_error, listen=listen)
            return
        digests = self.memory().digests
        kept = None if digests is None else digests.without_row(row)
        self.change(learner.moments.without(row), self.dropped(self.tasks_, row), digests=kept)
        self._past, self._erased = None, True

    def rename(self, old: str, new: str) -> Self:
        """Give a class another name."""
        old, new = as_name(old), as_name(new)
        check_name(new, "choose another name", "choose another name")
        self.rows_of([old])
        if new in self.classes_:
            raise OvorError(f"There is a class {new!r} already: choose another name.")
        if self._exact:
            self.remember()
        swap = {old: new}
        self.tasks_ = tuple(
            replace(task, classes=tuple(swap.get(name, name) for name in task.classes))
            for task in self.tasks_
        )
        self.expected_ = {
            swap.get(name, name): replace(
                known, confused_with=tuple(swap.get(n, n) for n in known.confused_with)
            )
            for name, known in self.expected_.items()
        }
        return self

    def merge(self, *others: "Memory") -> Self:
        """Add what other models have learned with the same encoder; a class in several adds up."""
        learner = self.exact("merge")
        moments, tasks, memory = learner.moments, self.tasks_, self.memory()
        calibration, digests, expected = memory.calibration, memory.digests, dict(self.expected_)
        names = self.classes_.tolist()
        for other in others:
            theirs = other.exact("merge")
            self.check_alike(other)
            new = [name for name in other.classes_.tolist() if name not in names]
            names += new
            rows = [names.index(name) for name in other.classes_]
            moments = moments.grown(len(new)).plus(theirs.moments, torch.tensor(rows))
            counts = {n: k for t in other.tasks_ for n, k in zip(t.classes, t.images, strict=True)}
            tasks = self.more(tasks, list(counts), list(counts.values()))
            calibration = calibration.plus(other.memory().calibration)
            kept = other.memory().digests
            if digests is not None and kept is not None:
                digests = Digests({**kept.moved(rows), **digests})
            else:
                digests = None
            expected = {**other.expected_, **expected}
        self.change(moments, tasks, digests=digests, calibration=calibration)
        self.expected_ = expected
        return self

    # --- learning

    def learn_exactly(
        self,
        lesson: Lesson,
        checkpoint: Path | None,
        listen: Listener,
        *,
        once: bool = False,
        weights: Sequence[float] | None = None,
        past: str = "",
    ) -> None:
        """Add a lesson's images to the sums: new classes, and more of known ones."""
        learner = self.exact("learn") if self._learner else self.new_learner()
        known = self.classes_.tolist()
        new = [name for name in lesson.class_names if name not in known]
        names = known + new
        order = np.array([names.index(name) for name in lesson.class_names])
        rows = order[lesson.images.labels]
        digests = self._exact.digests if self._exact else None
        if once and digests is None:
            digests = Digests()
        identity = f"{past}-{lesson.fingerprint()}"
        work = Work(
            learner,
            lesson.images,
            rows,
            self.run(),
            self.transform(),
            len(names),
            None if weights is None else checked_weights(weights, len(rows)),
            len(self.tasks_),
            digests,
            {"past": past, "lesson": lesson.fingerprint()},
        )
        found = collect(work, checkpoint, listen)
        added = np.setdiff1d(np.arange(len(rows)), found.left_out)
        self.check_new(found, rows, names, len(added))
        moments = learner.moments.grown(len(new)).plus(found.moments, torch.arange(len(names)))
        if not bool((moments.counts > 0).all()):
            raise OvorError("A class has no weight at all: give its images more, or leave it out.")
        counts = np.bincount(rows[added], minlength=len(names))
        tasks = self.more(
            self.tasks_,
            [n for n in names if counts[names.index(n)]],
            [int(k) for k in counts if k],
        )
        if digests is not None:
            fresh = {found.digests[i]: int(rows[i]) for i in added}
            digests = Digests({**digests, **fresh})
        calibration = self._exact.calibration if self._exact else Calibration.empty()
        if self._exact:
            self.remember()
        now = solved(learner, moments)
        everything = torch.from_numpy(rows)
        calibration, report = judged(now, found, lesson, everything, names, calibration)
        report["left_out"] = [str(lesson.images.items[i]) for i in found.left_out]
        self._exact = Exact(now.novelty, calibration, digests)
        self.report_ = report
        self.expected_ = {**self.expected_, **expectations(report)}
        if new:
            tasks = (*tasks[:-1], with_judgement(tasks[-1], report))
        self._learner, self.tasks_, self._lesson = learner, tasks, identity
        self._transform = self.transform()

    # --- parts

    def new_learner(self) -> Analytic:
        """Return a learner of exact sums that has learned nothing."""
        run = self.run()
        learner = build_learner(run.method, run.options, self.network().vit, nullcontext)
        assert isinstance(learner, Analytic)
        return learner.to(self.torch_device()).eval()

    def exact(self, verb: str) -> Analytic:
        """Return the learner of exact sums, or say why the model has none."""
        if self._learner is None:
            raise OvorError("Nothing is learned yet: call learn first.")
        if not isinstance(self._learner, Analytic):
            raise OvorError(
                f"This model was made with {self.run().name}, which cannot {verb} like this: only "
                "models of the method analytic, the default, can. Learn one anew."
            )
        if not self._sums:
            raise OvorError(
                "This model is for predicting only, without the sums that learning needs: use the "
                "one that it was exported from."
            )
        return self._learner

    def memory(self) -> Exact:
        """Return what judges the answers of a model of exact sums."""
        assert self._exact is not None
        return self._exact

    def rows_of(self, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the rows of classes, or say which is not known."""
        known = self.classes_.tolist()
        strange = [name for name in names if name not in known]
        if strange:
            shown = ", ".join(map(repr, known[:10])) + (" and more" if known[10:] else "")
            raise OvorError(f"There is no class {listed(strange)}: there are {shown}.")
        return np.array([known.index(name) for name in names], np.int64)

    def enough(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Refuse to take back more images of a class than it has, or all that there are."""
        had = self.exact("unlearn").moments.counts
        taken = torch.bincount(torch.from_numpy(rows), minlength=len(had)).double()
        names = self.classes_.tolist()
        over = [names[i] for i in (taken > had).nonzero()[:, 0].tolist()]
        if over:
            row = names.index(over[0])
            raise OvorError(
                f"{over[0]!r} was learned from {had[row]:g} images, so {taken[row]:g} cannot be "
                "taken back: give only images that were learned."
            )
        if bool((taken == had).all()):
            raise OvorError("No class would be left: delete the model instead.")

    def check_learned(self, found: Collected, rows: Any, where: list[str]) -> None:
        """Refuse images that were not learned as these classes, where digests are kept."""
        digests = self.memory().digests
        if digests is None:
            return
        for key, row, name in zip(found.digests, rows.tolist(), where, strict=True):
            if digests.get(key) != row:
                raise OvorError(
                    f"{name} was not learned as {self.classes_[row]!r} (the model keeps digests): "
                    "give only images that were."
                )

    def check_new(self, found: Collected, rows: Any, names: list[str], added: int) -> None:
        """Refuse a lesson of which nothing, or nothing of a new class, is new."""
        if not added:
            raise OvorError("Every image here is learned already: there is nothing new to learn.")
        without = [
            name
            for row, name in enumerate(names)
            if row >= len(self.classes_) and not found.moments.counts[row] and row in rows
        ]
        if without and found.left_out:
            raise OvorError(
                f"All images of {listed(without)} were learned already, as another class: correct "
                "them (ovor correct), or leave the class out."
            )

    def check_alike(self, other: "Memory") -> None:
        """Refuse to merge with a model whose sums mean something else."""
        if self.network().sha256 != other.network().sha256:
            raise OvorError(
                f"The models have different backbones ({self.network().name} and "
                f"{other.network().name}), so their sums cannot be added: merge models that were "
                "made with the same one."
            )
        if (self.run().options, self.transform()) != (other.run().options, other.transform()):
            raise OvorError(
                "The models were made with different settings, so their sums cannot be added: "
                "merge models that were made with the same."
            )

    def passed(
        self, learner: Analytic, images: Images, rows: Any, listen: Listener, classes: int = 0
    ) -> Collected:
        """Return the sums of some images."""
        count = classes or len(self.classes_)
        work = Work(
            learner, images, rows, self.run(), self.transform(), count, task=len(self.tasks_)
        )
        return collect(work, None, listen, judge=False)

    def change(
        self,
        moments: Moments,
        tasks: tuple[TaskInfo, ...],
        *,
        digests: Digests | None,
        calibration: Calibration | None = None,
    ) -> None:
        """Take other sums, without the classes that have no image left."""
        learner, memory = self.exact("change"), self.memory()
        self.check_empty(moments)
        for row in reversed((moments.counts == 0).nonzero()[:, 0].tolist()):
            moments = moments.without(row)
            tasks = self.dropped(tasks, row)
            digests = None if digests is None else digests.without_row(row)
        self.remember()
        now = solved(learner, moments)
        self._exact = Exact(now.novelty, calibration or memory.calibration, digests)
        self.tasks_, self._lesson = tasks, ""
        kept = set(self.classes_)
        self.expected_ = {  # without what is gone: its name must not stay in the file
            name: replace(known, confused_with=tuple(n for n in known.confused_with if n in kept))
            for name, known in self.expected_.items()
            if name in kept
        }

    def check_empty(self, moments: Moments) -> None:
        """Refuse sums that are left of a class without images: others were learned."""
        empty = moments.counts == 0
        left = moments.sums[empty].abs().amax() if bool(empty.any()) else torch.zeros(())
        most = float(self.exact("change").moments.counts.max()) / FEATURE_STEPS
        scatter = moments.second.diagonal() - (
            moments.sums.square().T / moments.counts.clamp(min=1)
        ).sum(1)
        if float(left) > most or float(scatter.min()) < -most:
            raise OvorError(
                "These are not the images that were learned: give those, or forget the class "
                "without images."
            )

    def remember(self) -> None:
        """Keep the model as it is now, for undoing."""
        learner = self.exact("change")
        self._past = Past(
            learner.moments,
            (learner.weights, learner.bias),
            self.tasks_,
            self.memory(),
            self.expected_,
            self._lesson,
        )

    def recall(self) -> bool:
        """Go back to before the last change, if it is kept; tell whether it was."""
        if self._past is None:
            return False
        past, learner = self._past, self.exact("undo")
        learner.moments = past.moments
        learner.set_head(*past.head)
        self.tasks_, self._exact, self.expected_ = past.tasks, past.exact, past.expected
        self._lesson, self._past, self.report_ = past.lesson, None, None
        return True

    def more(
        self, tasks: tuple[TaskInfo, ...], names: Sequence[str], counts: Sequence[int]
    ) -> tuple[TaskInfo, ...]:
        """Return the tasks with more images of known classes; new ones are another task."""
        added = dict(zip(names, counts, strict=True))
        known = {name for task in tasks for name in task.classes}
        grown = tuple(
            replace(
                task,
                images=tuple(
                    count + added.get(name, 0)
                    for name, count in zip(task.classes, task.images, strict=True)
                ),
            )
            for task in tasks
        )
        new = [name for name in names if name not in known]
        if not new:
            return grown
        return (*grown, TaskInfo(tuple(new), tuple(added[n] for n in new), 0, 0.0))

    def fewer(self, rows: Any) -> tuple[TaskInfo, ...]:
        """Return the tasks with fewer images; a class without any keeps one until it is dropped."""
        taken = np.bincount(rows, minlength=len(self.classes_))
        names = self.classes_.tolist()
        return tuple(
            replace(
                task,
                images=tuple(
                    max(1, count - int(taken[names.index(name)]))
                    for name, count in zip(task.classes, task.images, strict=True)
                ),
            )
            for task in self.tasks_
        )

    def dropped(self, tasks: tuple[TaskInfo, ...], row: int) -> tuple[TaskInfo, ...]:
        """Return the tasks without the class of a row."""
        result, at = [], row
        for task in tasks:
            if 0 <= at < len(task.classes):
                keep = [i for i in range(len(task.classes)) if i != at]
                task = replace(
                    task,
                    classes=tuple(task.classes[i] for i in keep),
                    images=tuple(task.images[i] for i in keep),
                )
                at = -1
            elif at >= 0:
                at -= len(task.classes)
            result.append(task)
        return tuple(result)


def minus(moments: Moments, taken: Moments) -> Moments:
    """Return sums without those of some images."""
    return Moments(
        moments.counts - taken.counts,
        moments.sums - taken.sums,
        moments.second - taken.second,
        moments.gone,
    )


def expectations(report: dict[str, Any]) -> dict[str, Expected]:
    """Return what is kept of a lesson's report in the model."""
    return {
        found["class"]: Expected(
            found["expected"], tuple(other["class"] for other in found["confused_with"])
        )
        for found in report["classes"]
    }


def with_judgement(task: TaskInfo, report: dict[str, Any]) -> TaskInfo:
    """Return a task with what leave-one-out says of it."""
    return replace(task, accuracy=report["expected"])


def checked_weights(weights: Sequence[float], images: int) -> Tensor:
    """Return one weight an image, on the grid on which sums are exact."""
    found = torch.as_tensor(np.asarray(weights, dtype=np.float64))
    if found.shape != (images,):
        raise OvorError(f"There are {images} images and {found.numel()} weights: give one each.")
    if not bool((found.isfinite() & (found >= 0)).all()):
        raise OvorError("A weight is negative or no number: give numbers from 0 on.")
    return rounded_weights(found)
