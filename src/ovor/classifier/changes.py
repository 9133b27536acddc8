"""What a model of exact sums can do: take some images back, correct, forget, rename, merge.

All of it is adding and subtracting sums, so the model is the one that had learned what is left, in
any order and at once. Every change happens wholly or not at all.
"""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from ovor.classifier.digests import Digests
from ovor.classifier.memory import Memory, minus
from ovor.classifier.memory_checks import (
    check_alike,
    check_enough,
    check_learned,
    check_unknown,
)
from ovor.classifier.notes import tell
from ovor.classifier.task_list import with_fewer, with_more, without_class
from ovor.data.class_names import as_name, check_name, check_new_names
from ovor.data.labelled import Labels
from ovor.data.modality import Columns, Given
from ovor.data.task_data import OnError, check_kind, checked, labelled, renamed
from ovor.errors import OvorError
from ovor.events import ImageChecked, Listener, silent
from ovor.learners.moments import Moments


class Changes(Memory):
    """A classifier's exact sums, and all that changes what they are of."""

    def unlearn(
        self,
        source: Any,
        labels: Labels | None = None,
        *,
        rename: dict[str, str] | None = None,
        on_error: OnError = "stop",
        columns: Columns = (None, None),
        listen: Listener = silent,
    ) -> Self:
        """Take images back that were learned, given in any of the ways that `learn` takes them.

        A class whose last image goes is gone. Nothing can tell whether exactly these were learned,
        unless digests are kept (`once`): then others are refused.
        """
        learner = self.exact("unlearn")
        check_kind(source, self.reads, columns)
        groups, notes = self.reads.labelled(source, labels, "train", columns)
        lesson = labelled(renamed(groups, rename or {}), notes, self.reads)
        tell(lesson.notes)
        if on_error == "skip":
            event = ImageChecked(total=len(lesson.images))
            lesson = checked(lesson, on_error, lambda images: listen(event))
        rows = self.rows_of(lesson.class_names)[lesson.images.labels]
        check_enough(rows, learner.moments.counts, self.classes_, self.reads.many)
        found = self.passed(learner, lesson.images, rows, listen)
        where = list(map(self.reads.called, lesson.images.items))
        check_learned(self.memory().digests, found.digests, rows, where, self.classes_)
        moments = minus(learner.moments, found.moments)
        digests = self.memory().digests
        if digests is not None:
            digests = digests.less(found.digests)
        names = self.classes_.tolist()
        tasks = with_fewer(self.tasks_, [names[row] for row in rows])
        self.change(moments, tasks, digests=digests)
        self._past, self._erased = None, True
        return self

    def correct(
        self,
        images: Any,
        to: str,
        *,
        from_: str | None = None,
        yes: bool = False,
        listen: Listener = silent,
    ) -> Self:
        """Count images as another class: those learned as `from_`, or new ones without it.

        `yes` makes a new class whose name differs from another only by case or look.
        """
        learner = self.exact("correct")
        to = as_name(to)
        check_name(to, "choose another name", "choose another name")
        check_new_names([to], self.classes_, yes)
        items = self.reads.listed(images)
        if not items:
            raise OvorError(f"There is no {self.reads.one} to correct: give at least one.")
        names = self.classes_.tolist()
        given = Given(items, np.zeros(len(items), np.int64), self.reads)
        old = np.zeros(0, np.int64)
        if from_ is not None:
            if as_name(from_) == to:
                raise OvorError(f"The {self.reads.many} are {to!r} already: give another class.")
            old = np.repeat(self.rows_of([as_name(from_)]), len(items))
            check_enough(old, learner.moments.counts, names, self.reads.many)
        row = names.index(to) if to in names else len(names)
        classes = max(row + 1, len(names))
        rows = np.full(len(items), row, np.int64)
        found = self.passed(learner, given, rows, listen, classes)
        if len(set(found.digests)) < len(items):
            raise OvorError(f"The same {self.reads.one} is given twice: give each once.")
        moments = learner.moments.grown(classes - len(names)).plus(
            found.moments, torch.arange(classes)
        )
        digests = self.memory().digests
        if len(old):
            where = list(map(self.reads.called, items))
            check_learned(digests, found.digests, old, where, names)
            taken = Moments(
                moments.counts.new_zeros(classes),
                moments.sums.new_zeros(moments.sums.shape),
                found.moments.second,
                torch.zeros_like(moments.gone),
            )
            taken.counts[old[0]] = found.moments.counts[row]
            taken.sums[old[0]] = found.moments.sums[row]
            moments = minus(moments, taken)
        elif digests is not None:
            check_unknown(digests, found.digests, list(map(self.reads.called, items)), names)
        if digests is not None:
            digests = Digests({**digests, **dict.fromkeys(found.digests, row)})
        tasks = with_fewer(self.tasks_, [names[at] for at in old])
        tasks = with_more(tasks, [to], [len(items)])
        self.change(moments, tasks, digests=digests)
        return self

    def forget_exactly(self, name: str, images: Any = None, listen: Listener = silent) -> None:
        """Take a class out; with its images all of it goes, else how they scattered stays."""
        learner = self.exact("forget")
        row = int(self.rows_of([name])[0])
        if images is not None:
            items = self.reads.found(images, name)
            had = learner.moments.counts[row]
            if len(items) != had:
                raise OvorError(
                    f"{name!r} was learned from {had:g} {self.reads.many}, and here are "
                    f"{len(items)}: give all of them and no others, or forget it without them."
                )
            self.unlearn(items, [name] * len(items), listen=listen)
            return
        digests = self.memory().digests
        kept = None if digests is None else digests.without_row(row)
        self.change(learner.moments.without(row), without_class(self.tasks_, name), digests=kept)
        self._past, self._erased = None, True

    def rename(self, old: str, new: str, *, yes: bool = False) -> Self:
        """Give a class another name; `yes`: though it differs from one only by case or look."""
        old = old if old in self.classes_ else as_name(old)  # older versions did not trim
        new = as_name(new)
        check_name(new, "choose another name", "choose another name")
        self.rows_of([old])
        if new in self.classes_:
            raise OvorError(f"There is a class {new!r} already: choose another name.")
        check_new_names([new], [name for name in self.classes_ if name != old], yes)
        if self._exact:
            self.remember()
        self._saved = False
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

    def merge(self, *others: "Memory", yes: bool = False) -> Self:
        """Add what other models have learned with the same encoder; a class in several adds up.

        `yes`: classes of theirs may differ from one of this model's only by case or look.
        """
        learner = self.exact("merge")
        moments, tasks, memory = learner.moments, self.tasks_, self.memory()
        calibration, digests, expected = memory.calibration, memory.digests, dict(self.expected_)
        names = self.classes_.tolist()
        for other in others:
            theirs = other.exact("merge")
            check_alike(self, other)
            check_new_names(other.classes_, names, yes)
            new = [name for name in other.classes_.tolist() if name not in names]
            names += new
            rows = [names.index(name) for name in other.classes_]
            moments = moments.grown(len(new)).plus(theirs.moments, torch.tensor(rows))
            counts = {n: k for t in other.tasks_ for n, k in zip(t.classes, t.images, strict=True)}
            tasks = with_more(tasks, list(counts), list(counts.values()))
            judged = other.memory().calibration
            if other.memory().doubts != memory.doubts:  # distances of another kind
                judged = replace(judged, distances=0 * judged.distances)
            calibration = calibration.plus(judged)
            kept = other.memory().digests
            if digests is not None and kept is not None:
                digests = Digests({**kept.moved(rows), **digests})
            else:
                digests = None
            expected = {**other.expected_, **expected}
        self.change(moments, tasks, digests=digests, calibration=calibration)
        self.expected_ = expected
        return self
