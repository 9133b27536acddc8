"""The one way from images or texts to predictions, and the one row that Python, the terminal and
HTTP show.

An item becomes a view (what the network sees of it), views become scores a batch at a time, and a
row of scores is a prediction.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ovor.data.class_names import UNKNOWN
from ovor.data.modality import IMAGES, Item, Modality, View
from ovor.errors import OvorError

Names = NDArray[np.object_]
Floats = NDArray[np.float64]
T = TypeVar("T")


class Scores(NamedTuple):
    """What a network says about a batch of images."""

    probabilities: Floats
    """B, C: of every class that was learned"""
    margins: Floats
    """B: how surely the image is of a class that was learned; below 0: unknown"""


class Predictor(Protocol):
    """A classifier that can predict, from a model file or from an export."""

    @property
    def classes_(self) -> Names: ...

    @property
    def task_sizes_(self) -> list[int]: ...

    @property
    def reads(self) -> Modality:
        """What it can be asked about."""

    def view(self, decoded: Any) -> View: ...

    def scores(self, views: View) -> Scores:
        """Return the scores of a stack of views."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a classifier says about one image."""

    classes: Names
    probabilities: Floats
    """C: of every class, in the order of `classes`"""
    margin: float
    """how surely the image is of a class that was learned"""
    shortened: bool = False
    """is there more of it than the network sees?"""

    @property
    def unknown(self) -> bool:
        """Whether the image is probably of no class that was learned."""
        return self.margin < 0

    @property
    def likeliest(self) -> str:
        """The class with the largest probability, also where the image is unknown."""
        return str(self.classes[self.probabilities.argmax()])

    @property
    def confidence(self) -> float:
        """The probability of the likeliest class among those that were learned."""
        return float(self.probabilities.max())

    @property
    def label(self) -> str:
        """The likeliest class, or `unknown`."""
        return UNKNOWN if self.unknown else self.likeliest

    def best(self, top: int) -> list[tuple[str, float]]:
        """Return the `top` likeliest classes with their probabilities, rounded to six digits."""
        order = np.argsort(-self.probabilities, kind="stable")[:top]
        return [(self.classes[i], round(float(self.probabilities[i]), 6)) for i in order]

    def as_json(self, top: int) -> dict[str, Any]:
        """Return the row that terminal, Python and HTTP show, but for the image's name."""
        return {
            "label": self.label,
            "unknown": self.unknown,
            "likeliest": self.likeliest,
            "confidence": round(self.confidence, 6),
            "margin": round(self.margin, 6),
            "best": [{"class": name, "confidence": share} for name, share in self.best(top)],
            **({"shortened": True} if self.shortened else {}),
        }


class Predictions(NamedTuple):
    """What `Classifier.classify` returns: a column for each thing that is said of the images."""

    labels: Names
    """the most likely class, also where the image is unknown"""
    confidences: Floats
    """its probability among the classes that were learned"""
    unknown: NDArray[np.bool_]
    """the image is probably of no class that was learned"""


def row(
    name: str, found: Prediction | OvorError, top: int, reads: Modality = IMAGES
) -> dict[str, Any]:
    """Return what is said of one item: its prediction, or why it cannot be read.

    The key of its name is what people call it, an image or a text.
    """
    said = {"error": str(found)} if isinstance(found, OvorError) else found.as_json(top)
    return {reads.one: name, **said}


def predict_views(model: Predictor, views: Sequence[View]) -> list[Prediction]:
    """Return a prediction for each view, all of them in one pass through the network."""
    if not views:
        return []
    classes, scores = model.classes_, model.scores(np.stack(views))
    check_scores(scores)
    return [
        Prediction(classes, probabilities, float(margin), model.reads.shortened(view))
        for probabilities, margin, view in zip(*scores, views, strict=True)
    ]


def check_scores(scores: Scores) -> None:
    """Refuse answers that are no numbers, as a model of huge ones would give them."""
    if not np.isfinite(scores.probabilities).all() or np.isnan(scores.margins).any():
        raise OvorError(
            "The answers of this model are not finite numbers (NaN or infinity), so it can name "
            "nothing: put a good copy in its place, or learn it anew."
        )


def predict_images(model: Predictor, images: Iterable[Item]) -> Iterator[Prediction]:
    """Yield a prediction for each image, in order; raise at one that cannot be read."""
    decoded = model.reads.decoded
    for batch in batches(images, model.reads.at_once):
        yield from predict_views(model, [model.view(decoded(item)) for item in batch])


def predict_readable(model: Predictor, images: Iterable[Item]) -> Iterator[Prediction | OvorError]:
    """Yield a prediction for each image, in order, or the error of one that cannot be read.

    Among the images may be errors already, of what was looked for and not found.
    """
    for batch in batches(images, model.reads.at_once):
        views = [view_or_error(model, image) for image in batch]
        found = iter(predict_views(model, [v for v in views if not isinstance(v, OvorError)]))
        yield from (view if isinstance(view, OvorError) else next(found) for view in views)


def view_or_error(model: Predictor, image: Item) -> View | OvorError:
    """Return what the network sees of an image, or why it cannot be read."""
    if isinstance(image, OvorError):
        return image
    try:
        return model.view(model.reads.decoded(image))
    except OvorError as error:
        return error


def batches(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield the items in lists of 1, 2, 4 and so on up to `most`: so the first is soon done."""
    rest, size = iter(items), 1
    while batch := list(islice(rest, size)):
        yield batch
        size = min(2 * size, most)


def as_columns(predictions: Iterable[Prediction]) -> Predictions:
    """Return predictions as the three arrays of `Classifier.classify`."""
    rows = [(p.likeliest, p.confidence, p.unknown) for p in predictions]
    labels, confidences, unknown = zip(*rows, strict=True) if rows else ((), (), ())
    return Predictions(np.array(labels, object), np.array(confidences), np.array(unknown, bool))
