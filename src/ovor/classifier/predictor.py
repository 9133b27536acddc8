"""How a model answers: from images to classes, confidences, and the unknown."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ovor.classifier.answers import Answers
from ovor.classifier.changes import Changes
from ovor.classifier.prediction import Scores, batches, predict_images
from ovor.classifier.rejection import EnergyJudge, Judge
from ovor.data.class_names import as_name
from ovor.data.modality import View
from ovor.errors import OvorError
from ovor.learners.analytic import Analytic
from ovor.learners.base import Learner


class Predictor(Answers, Changes):
    """A classifier that can be asked."""

    _judge: tuple[tuple[float, object], Judge] | None = None  # and what it was made of

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of every class, in the order of `classes_`: images, classes."""
        rows = [found.probabilities for found in predict_images(self, self.reads.listed(X))]
        return np.array(rows).reshape(-1, len(self.classes_))

    def score(
        self,
        X: Any,  # noqa: N803
        y: Iterable[Any],
        sample_weight: Sequence[float] | None = None,
    ) -> float:
        """Return the share of right labels; being called unknown does not count as wrong."""
        found = self.classify(X).labels
        truth = np.array([as_name(str(label)) for label in y], dtype=object)
        if len(found) != len(truth) or not len(truth):
            raise OvorError(
                f"There are {len(found)} {self.reads.many} and {len(truth)} labels: give one label "
                "each."
            )
        return float(np.average(found == truth, weights=sample_weight))

    @torch.no_grad()
    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the head's outputs before they become probabilities: images, classes.

        With exact sums they depend on what was learned alone, not on its order; probabilities also
        depend, a little, on how the lessons' images were judged when they came.
        """
        rows = []
        for batch in batches(self.reads.listed(X), self.reads.at_once):
            views = np.stack([self.view(self.reads.decoded(item)) for item in batch])
            rows.append(as_array(self.learner().logits(self.features(views))))
        return np.concatenate(rows) if rows else np.zeros((0, len(self.classes_)))

    def view(self, decoded: Any) -> View:
        """Return what the network sees of an item: little, however large it was."""
        return self.reads.view(decoded, self.transform())

    @contextmanager
    def seeing_views(self) -> Iterator[None]:
        """Take the images given meanwhile for what `view` has made of them: they stay as they are.

        For those who must not decode files of strangers in the process of the model.
        """
        own = self.transform()
        self._transform = replace(own, crop_pct=1.0)  # nothing to scale, nothing to cut
        try:
            yield
        finally:
            self._transform = own

    @torch.no_grad()
    def scores(self, views: View) -> Scores:
        """Return the classes' probabilities and the margins of a stack of views."""
        return self.judged(self.features(views))

    @torch.no_grad()
    def judged(self, features: Tensor) -> Scores:
        """Return the same of images whose features are known."""
        logits, claimed = self.judge()(self.learner().logits(features), features)
        return Scores(as_array(logits.double().softmax(1)), as_array(claimed))

    @torch.no_grad()
    def features(self, views: View) -> Tensor:
        """Return the features of a stack of views, as many at once as the network likes."""
        learner, transform = self.learner(), self.transform()
        stack = torch.from_numpy(views).to(learner.device)
        at_once = len(stack)  # to others it may matter who else is there
        if isinstance(learner, Analytic) and learner.device.type == "cpu":
            at_once = max(1, learner.backbone.batch(transform.size))
        parts = torch.split(stack, at_once)
        encoder = self.network().encoder
        return torch.cat([learner.features(encoder.tensor(part, transform)) for part in parts])

    def judge(self) -> Judge:
        """Return what turns logits into probabilities and margins."""
        made_of = self.false_alarms, self._exact or self.tasks_  # neither is ever changed in place
        if (
            self._judge is None
            or self._judge[0][0] != made_of[0]
            or (self._judge[0][1] is not made_of[1])
        ):
            if self._exact:
                judge: Judge = self._exact.judge(self.false_alarms)
            else:
                judge = EnergyJudge(self.task_sizes_, [task.threshold for task in self.tasks_])
            self._judge = made_of, judge
        return self._judge[1]

    def learner(self) -> Learner:
        """Return what has learned, or say that nothing has."""
        if self._learner is None:
            raise OvorError("Nothing is learned yet: call learn first.")
        return self._learner


def as_array(tensor: Tensor) -> NDArray[np.float64]:
    """Return the tensor's numbers in double precision."""
    return tensor.double().cpu().numpy()
