"""What a data set is: class names, and training and test items with one label each (Sec. 3).

An item is an image, or a text. Where it comes from is each file's own affair. The rule that splits
data without a split of its own also stands here, as folders, shards and Hugging Face data share it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ovor.data.class_names import listed
from ovor.errors import OvorError

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
TEST_SHARE = 0.2


class Items(Protocol):
    """Labelled items, images or texts; an item is read when it is asked for."""

    labels: Integers

    @property
    def many(self) -> str:
        """What people call such items, as `Modality.many` has it."""
        return "images"

    def __len__(self) -> int:
        return len(self.labels)

    def item(self, index: int) -> Any:
        """Return the item at `index` as the network's `reads.view` takes it."""
        ...

    def origin(self, index: int) -> bytes | None:
        """Identify what an item is decoded from each time; None if it is in memory, or gone."""
        return None


class Images(Items, Protocol):
    """Labelled images."""

    def image(self, index: int) -> Image.Image:
        """Return the image at `index`, upright and in RGB."""
        ...

    def item(self, index: int) -> Image.Image:
        return self.image(index)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Class names with training and test images, whose labels are positions in `class_names`."""

    name: str
    class_names: tuple[str, ...]
    train: Items
    test: Items
    unknown: Items | None = None
    """of no class, where a data set has such to test what is said of them"""

    def drawn(self, seed: int) -> "Dataset":
        """Return the data set as a run of this seed splits it: most have one split for all."""
        return self


def chance(path: PurePath) -> float:
    """Return a number in [0, 1) that looks random and is always the same for this path."""
    digest = hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:6]) / 2**48


def for_testing(chances: NDArray[np.float64], labels: Integers) -> Mask:
    """Choose about one image in five to test on, by the `chance` of each image's name.

    So an image stays on its side when others come and go. The exception: where a class has test
    images only, the one with the largest chance trains until a training image comes. A class of a
    few images may have none for testing.
    """
    largest = np.zeros(int(labels.max(initial=-1)) + 1)
    np.maximum.at(largest, labels, chances)
    return np.asarray(chances < np.minimum(TEST_SHARE, largest)[labels])


def trainable(dataset: Dataset) -> Dataset:
    """Return the data set itself; refuse one in which a class has no training image."""
    counts = np.bincount(dataset.train.labels, minlength=len(dataset.class_names))
    missing = [dataset.class_names[label] for label in np.flatnonzero(counts == 0)]
    if not counts.sum():
        raise OvorError(f"{dataset.name} has no training images: add some, or name another.")
    if missing:
        raise OvorError(
            f"{dataset.name} has no training images of {listed(missing)}: add some, or leave the "
            "class out."
        )
    return dataset
