"""A shift of domain between tasks: their images look different, the more so the later they come.

An image looks as the task of its class does, wherever it is used: in training, again in a later
task, and in the test. So a class is tested on what it was learned from, and tasks can be told apart
by their look.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from ovor.config import Shift
from ovor.data.base import Dataset, Images, Integers, Items
from ovor.errors import OvorError

DIRECTION = 7  # the first number of a seed sequence, going on from those of scenarios.py
# What the last task has.
DEGREES = 30.0  # turned by, in the direction that the seed says
THICKNESS = 0.07  # ink is this much of the image's side wider, or two pixels
BLUR = 0.03  # of the image's side: the radius
DARKNESS = 0.6  # of the light is gone


def shifted(
    dataset: Dataset, order: Sequence[int], sizes: Sequence[int], kind: Shift, seed: int
) -> Dataset:
    """Return the data set with each class's images as its task shows them."""
    if kind == "none":
        return dataset
    if dataset.train.many != "images":
        raise OvorError(f"{dataset.name} has {dataset.train.many}: --shift is for images alone.")
    strengths = np.empty(len(order))
    strengths[np.asarray(order)] = np.repeat(growing(len(sizes)), sizes)
    sign = 1.0 if np.random.default_rng((DIRECTION, seed)).random() < 0.5 else -1.0
    train, test = (
        ShiftedImages(images.labels, images, strengths, kind, sign)
        for images in (dataset.train, dataset.test)
    )
    return replace(dataset, train=train, test=test)


def growing(tasks: int) -> NDArray[np.float64]:
    """Return the strength of each task's shift: none in the first, all of it in the last."""
    return np.arange(tasks) / max(1, tasks - 1)


@dataclass(frozen=True, eq=False)
class ShiftedImages(Images):
    """Images that are changed when they are asked for."""

    labels: Integers
    images: Items
    strengths: NDArray[np.float64]
    """by class, from 0 to 1"""
    kind: Shift
    sign: float

    def image(self, index: int) -> Image.Image:
        image, strength = self.images.item(index), float(self.strengths[self.labels[index]])
        assert isinstance(image, Image.Image)
        if not strength:
            return image
        return inked(image, strength, self.sign) if self.kind == "ink" else dimmed(image, strength)


def inked(image: Image.Image, strength: float, sign: float) -> Image.Image:
    """Return a drawing with thicker lines, rotated; what is in its corner is the paper."""
    paper = image.getpixel((0, 0))
    assert isinstance(paper, tuple)  # images are RGB
    reach = max(1, round(THICKNESS * min(image.size) / 2))
    light_ink = sum(paper) < 3 * 128
    grow = ImageFilter.MaxFilter if light_ink else ImageFilter.MinFilter
    thicker = Image.blend(image, image.filter(grow(2 * reach + 1)), strength)
    angle = sign * strength * DEGREES
    return thicker.rotate(angle, Image.Resampling.BILINEAR, fillcolor=paper)


def dimmed(image: Image.Image, strength: float) -> Image.Image:
    """Return a photograph that is out of focus, and darker."""
    blurred = image.filter(ImageFilter.GaussianBlur(strength * BLUR * min(image.size)))
    return blurred.point([round(value * (1 - strength * DARKNESS)) for value in range(256)] * 3)
