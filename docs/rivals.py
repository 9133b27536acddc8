"""What docs/alternatives.py compares: each learns a lesson of features, and names others.

`add` takes the images of new classes with their labels, and which labels those are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from docs.features import Encoded, learner_of, summed
from ovor.classifier.exact import solved, without_each
from ovor.learners.analytic import Analytic
from ovor.learners.moments import FEATURE_STEPS


class Exact:
    """Exact sums, and the head and the distances that follow from them."""

    def __init__(self) -> None:
        self.learner: Analytic = learner_of({})
        self.order: list[int] = []

    def add(self, lesson: Encoded, labels: list[int]) -> None:
        """Learn a lesson of new classes; `labels` says which they are."""
        known, learner = len(self.learner.moments.counts), self.learner
        places = {label: known + place for place, label in enumerate(labels)}
        rows = torch.tensor([places[int(label)] for label in lesson.labels])
        added = summed(learner, Encoded(lesson.features, rows), known + len(labels))
        both = learner.moments.grown(len(labels)).plus(added, torch.arange(known + len(labels)))
        now = solved(learner, both)
        without_each(now, lesson.features * FEATURE_STEPS, rows)  # what a lesson's report asks for
        self.order += labels

    def predict(self, features: torch.Tensor) -> Any:
        return np.array(self.order)[self.learner.logits(features).argmax(1).numpy()]


class AllAtOnce:
    """An estimator of scikit-learn that is fitted anew on all that it has seen."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.seen = make, Encoded(torch.zeros(0), torch.zeros(0))

    def add(self, lesson: Encoded, labels: list[int]) -> None:
        self.see(lesson)
        self.model = self.make().fit(self.seen.features.numpy(), self.seen.labels.numpy())

    def see(self, lesson: Encoded) -> None:
        """Keep a lesson until the next fit."""
        self.seen = self.seen.and_of(lesson, 0) if len(self.seen.labels) else lesson

    def predict(self, features: torch.Tensor) -> Any:
        return self.model.predict(features.numpy())


class Partial:
    """SGDClassifier.partial_fit, lesson by lesson; it must be told of all classes beforehand."""

    def __init__(self, classes: int, alpha: float, epochs: int, seed: int) -> None:
        from sklearn.linear_model import SGDClassifier

        self.model = SGDClassifier(loss="log_loss", alpha=alpha, random_state=seed)
        self.classes, self.epochs, self.draw = classes, epochs, np.random.default_rng(seed)

    def add(self, lesson: Encoded, labels: list[int]) -> None:
        for _ in range(self.epochs):
            order = torch.from_numpy(self.draw.permutation(len(lesson.labels)))
            x, y = lesson.features[order].numpy(), lesson.labels[order].numpy()
            self.model.partial_fit(x, y, classes=np.arange(self.classes))

    def predict(self, features: torch.Tensor) -> Any:
        return self.model.predict(features.numpy())


class Stream:
    """river's logistic regression, one against the rest, in one pass."""

    def __init__(self, rate: float, batch: int, seed: int) -> None:
        from river import linear_model, multiclass, optim

        self.model = multiclass.OneVsRestClassifier(
            linear_model.LogisticRegression(optim.SGD(rate))
        )
        self.batch, self.draw = batch, np.random.default_rng(seed)

    def add(self, lesson: Encoded, labels: list[int]) -> None:
        import pandas

        order = self.draw.permutation(len(lesson.labels))
        x, y = frame(lesson.features[order]), pandas.Series(lesson.labels[order].numpy())
        for start in range(0, len(y), self.batch):
            here = slice(start, start + self.batch)
            self.model.learn_many(x[here], y[here])

    def predict(self, features: torch.Tensor) -> Any:
        return np.asarray(self.model.predict_many(frame(features)))


def frame(features: torch.Tensor) -> Any:
    """Return features as river takes them."""
    import pandas

    return pandas.DataFrame(features.numpy(), columns=[f"f{i}" for i in range(features.shape[1])])
