"""Which images test where the data does not say; and no class without a training image."""

import numpy as np
from numpy.typing import NDArray

from ovor.data.base import Dataset, Integers
from ovor.data.folders import TEST_SHARE, listed
from ovor.errors import OvorError


def tested(chances: NDArray[np.float64], labels: Integers) -> NDArray[np.bool_]:
    """About one image in five, as `folders` chooses files: by a number that its name gives.

    In a class of test images only, the one with the largest number trains.
    """
    largest = np.zeros(int(labels.max(initial=-1)) + 1)
    np.maximum.at(largest, labels, chances)
    return np.asarray(chances < np.minimum(TEST_SHARE, largest)[labels])


def trainable(dataset: Dataset) -> Dataset:
    """The data set itself, if every class has a training image."""
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
