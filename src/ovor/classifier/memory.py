"""The exact sums of a model: what they are kept with, changing them as one, and going back.

A change happens wholly or not at all.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError
from torch import Tensor

from ovor.classifier.calibration import Calibration
from ovor.classifier.collect import Collected, Work, collect
from ovor.classifier.digests import Digests
from ovor.classifier.estimator import Estimator
from ovor.classifier.exact import Exact, solved
from ovor.classifier.file import BackboneInfo, Description, Expected, TaskInfo
from ovor.classifier.memory_checks import (
    check_left,
)
from ovor.classifier.task_list import names_of, without_class
from ovor.data.base import Items
from ovor.data.class_names import listed
from ovor.errors import OvorError, explain
from ovor.events import Listener
from ovor.learners import build_learner
from ovor.learners.analytic import Analytic
from ovor.learners.base import Learner
from ovor.learners.moments import Moments


@dataclass(frozen=True, eq=False)
class Past:
    """A model as it was before its last change."""

    moments: Moments
    head: tuple[Tensor, Tensor]
    tasks: tuple[TaskInfo, ...]
    exact: Exact
    expected: dict[str, Expected]
    lesson: str
    saved: bool


class Memory(Estimator):
    """A classifier's exact sums, and what is kept with them."""

    _learner: Learner | None = None
    _exact: Exact | None = None
    _past: Past | None = None
    _sums = True  # False in a model that is for predicting only
    _lesson = ""
    _saved = True  # is it as its file is, if it has one?
    _erased = False  # was something taken out that no copy should keep?

    def __post_init__(self) -> None:
        super().__post_init__()
        self.expected_: dict[str, Expected] = {}
        self.report_: dict[str, Any] | None = None

    def new_learner(self) -> Analytic:
        """Return a learner of exact sums that has learned nothing."""
        run = self.run()
        learner = build_learner(run.method, run.options, self.network().encoder, nullcontext)
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

    def about(self) -> Description:
        """Return all that a model file says in words."""
        run, network = self.settled(), self.network()
        try:
            return Description(
                run=run,
                backbone=BackboneInfo(
                    network.name,
                    network.source,
                    network.sha256,
                    self._bundled,
                    network.num_heads,
                    self.reads.many,
                ),
                tasks=self.tasks_,
                false_alarms=self.false_alarms,
                hold_out=self.hold_out,
                expected=self.expected_,
                once=self._exact is not None and self._exact.digests is not None,
                lesson=self._lesson,
                sums=self._sums,
            )
        except ValidationError as error:
            raise OvorError(f"This cannot be learned with: {explain(error)}.") from error

    def adopt(self, learner: Learner, tasks: tuple[TaskInfo, ...]) -> None:
        """Predict with this learner from now on; what that takes is computed here, once."""
        self._learner, self.tasks_, self._transform = learner, tasks, self.transform()

    def memory(self) -> Exact:
        """Return what judges the answers of a model of exact sums."""
        assert self._exact is not None
        return self._exact

    def usual_distance(self) -> float | None:
        """Return the mean squared distance of the features of two images of one class.

        It follows from the sums, if the model has them and a class has more than one image.
        """
        if not isinstance(self._learner, Analytic) or not self._sums:
            return None
        known = self._learner.moments
        within = known.second.trace() - (known.sums.square().sum(1) / known.counts).sum()
        freedom = float(known.counts.sum()) - len(known.counts)
        return 2 * float(within) / freedom if freedom > 0 and within > 0 else None

    def rows_of(self, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the rows of classes, or say which is not known."""
        known = self.classes_.tolist()
        strange = [name for name in names if name not in known]
        if strange:
            shown = ", ".join(map(repr, known[:10])) + (" and more" if known[10:] else "")
            raise OvorError(f"There is no class {listed(strange)}: there are {shown}.")
        return np.array([known.index(name) for name in names], np.int64)

    def passed(
        self, learner: Analytic, images: Items, rows: Any, listen: Listener, classes: int = 0
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
        check_left(moments, float(learner.moments.counts.max()), self.reads.many)
        for row in reversed((moments.counts == 0).nonzero()[:, 0].tolist()):
            moments = moments.without(row)
            tasks = without_class(tasks, names_of(tasks)[row])
            digests = None if digests is None else digests.without_row(row)
        self.remember()
        now = solved(learner, moments, memory)
        self._exact = Exact(now.novelty, calibration or memory.calibration, digests)
        self.tasks_, self._lesson = tasks, ""
        kept = set(self.classes_)
        self.expected_ = {  # without what is gone: its name must not stay in the file
            name: replace(known, confused_with=tuple(n for n in known.confused_with if n in kept))
            for name, known in self.expected_.items()
            if name in kept
        }

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
            self._saved,
        )
        self._saved = False

    def drop_past(self) -> None:
        """Keep nothing in memory to go back to; what is beside the file stays."""
        self._past = None

    def recall(self) -> bool:
        """Go back to before the last change, if it is kept; tell whether it was."""
        if self._past is None:
            return False
        past, learner = self._past, self.exact("undo")
        learner.moments = past.moments
        learner.set_head(*past.head)
        self.tasks_, self._exact, self.expected_ = past.tasks, past.exact, past.expected
        self._lesson, self._past, self.report_ = past.lesson, None, None
        self._saved = past.saved
        return True


def minus(moments: Moments, taken: Moments) -> Moments:
    """Return sums without those of some images."""
    return Moments(
        moments.counts - taken.counts,
        moments.sums - taken.sums,
        moments.second - taken.second,
        moments.gone,
    )
