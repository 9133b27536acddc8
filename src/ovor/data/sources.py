"""Where a data set of the paper is looked for, what to download, and what must be in it.

The paper's Sec. 5.1 and appendix name the data sets; nothing is downloaded here.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ovor.data.base import Dataset
from ovor.errors import OvorError

VARIABLE = "OVOR_DATA"
DEFAULT = "~/.cache/ovor/data"


@dataclass(frozen=True)
class Expected:
    """What a whole copy has: other numbers of images make a warning, other classes an error."""

    classes: int
    train: int
    test: int


@dataclass(frozen=True)
class Source:
    name: str
    places: tuple[str, ...]
    """below the data folder; the first that holds this data set is read"""
    get: str
    """what to download, and who publishes it"""
    layout: str
    """what must then be in the data folder"""
    expected: Expected
    holds_it: Callable[[Path], bool] = Path.exists
    """whether a place has this data set, whole or not, and not another split of the same images"""

    def looked(self) -> tuple[Path, ...]:
        return tuple(data_folder() / place for place in self.places)

    def found(self) -> Path | None:
        places = (place for place in self.looked() if place.exists() and self.holds_it(place))
        return next(places, None)

    def find(self) -> Path:
        """Where it is; else a place that exists, whose reader then says what it lacks."""
        place = self.found() or next((place for place in self.looked() if place.exists()), None)
        if place is not None:
            return place
        folder = data_folder()
        raise OvorError(
            f"{self.name} is not in {folder}, which {held(folder)} ({VARIABLE} names the "
            f"data folder, by default it is {DEFAULT}): {self.advice()}."
        )

    def advice(self) -> str:
        return f"get {self.get}, so that the data folder has {self.layout}"


def data_folder() -> Path:
    return Path(os.environ.get(VARIABLE) or DEFAULT).expanduser()


def held(folder: Path) -> str:
    """The first few names in a folder, for a sentence about what was found."""
    if not folder.is_dir():
        return "is a file, not a folder" if folder.exists() else "does not exist"
    names = sorted(path.name for path in folder.iterdir())
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
    return f"holds {listed}" if names else "is empty"


def split_in_folders(place: Path) -> bool:
    return (place / "train").is_dir() or (place / "test").is_dir()


def checked(dataset: Dataset, expected: Expected, root: Path) -> Dataset:
    """The data set itself, if no class is missing; says so if images are."""
    classes, train, test = len(dataset.class_names), len(dataset.train), len(dataset.test)
    if classes != expected.classes:
        raise OvorError(
            f"{root} has {classes} classes, but {dataset.name} has {expected.classes}: "
            "unpack it anew, and leave nothing else in its folders."
        )
    for part, images in (("training", dataset.train), ("test", dataset.test)):
        empty = np.flatnonzero(np.bincount(images.labels, minlength=classes) == 0)
        if len(empty):
            raise OvorError(
                f"{root} has no {part} images of {len(empty)} of the {classes} classes of "
                f"{dataset.name}, such as '{dataset.class_names[empty[0]]}': unpack it anew."
            )
    if (train, test) != (expected.train, expected.test):
        warn(
            f"{root} has {train:,} training and {test:,} test images where {dataset.name} has "
            f"{expected.train:,} and {expected.test:,}, so results may not be comparable."
        )
    return dataset


def warn(sentence: str) -> None:
    print(f"ovor: {sentence}", file=sys.stderr)
