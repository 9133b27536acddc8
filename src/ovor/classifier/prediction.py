"""What a classifier says about images, whichever way it is computed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ovor.data.images import Picture, to_image

BATCH = 32  # images that are looked at together
Names = NDArray[np.object_]


class Answers(NamedTuple):
    probabilities: NDArray[np.float64]
    """images, classes"""
    margins: NDArray[np.float64]
    """how surely some task claims the image; below 0: unknown"""


class Predictions(NamedTuple):
    labels: Names
    """the most likely class, also where the image is unknown"""
    confidences: NDArray[np.float64]
    """its probability among the classes that were learned"""
    unknown: NDArray[np.bool_]
    """no task claims the image: it is probably of no class that was learned"""


class Answering(Protocol):
    """A classifier, from a model file or exported."""

    @property
    def classes_(self) -> Names: ...

    @property
    def task_sizes_(self) -> list[int]: ...

    def answer(self, images: Sequence[Image.Image]) -> Answers: ...


def answers(model: Answering, pictures: Sequence[Picture]) -> Iterator[Answers]:
    """A batch at a time, in order."""
    for start in range(0, len(pictures), BATCH):
        yield model.answer([to_image(picture) for picture in pictures[start : start + BATCH]])


def predictions(names: Names, parts: Iterable[Answers]) -> Predictions:
    found = list(parts)
    if not found:
        return Predictions(np.empty(0, object), np.empty(0), np.empty(0, bool))
    probabilities = np.concatenate([part.probabilities for part in found])
    best = probabilities.argmax(1)
    return Predictions(
        names[best],
        probabilities[np.arange(len(best)), best],
        np.concatenate([part.margins for part in found]) < 0,
    )
