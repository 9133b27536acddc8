"""Where a data set of the paper is looked for, what to download, and what must be in it.

The paper's Sec. 5.1 and appendix name the data sets; nothing is downloaded here. Splits that are
published as folders, train/CLASS and test/CLASS, are read here too.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ovor.data.base import Dataset
from ovor.data.folders import folder
from ovor.errors import MissingDataError, OvorError

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
    """A data set of the paper: where it is looked for, and what to say if it is not there."""

    name: str
    places: tuple[str, ...]
    """below the data folder; the first that holds this data set is read"""
    get: str
    """what to download, and who publishes it"""
    layout: str
    """what must then be in the data folder"""
    expected: Expected
    read: Callable[["Source", Path], Dataset]
    """reads what lies at a place; it need not count classes and images"""
    things: str = "images"
    """what it has, in the words of people"""
    lists: tuple[str, ...] = ()
    """files by any of which this split is told from another one, in folders train and test"""

    def load(self) -> Dataset:
        """Read this data set; refuse a copy without all classes, and warn of other counts."""
        root = self.find()
        dataset = self.read(self, root)
        self._check(dataset, root)
        if self.name.endswith(":pilot"):
            warn(
                f"{self.name} is another split, in another class order, than the paper's "
                f"{self.name.removesuffix(':pilot')}: its numbers are not comparable with the "
                "paper's."
            )
        return dataset

    def _check(self, dataset: Dataset, root: Path) -> None:
        counts = Expected(len(dataset.class_names), len(dataset.train), len(dataset.test))
        if counts.classes != self.expected.classes:
            raise OvorError(
                f"{root} has {counts.classes} classes, but {self.name} has "
                f"{self.expected.classes}: unpack it anew, and leave nothing else in its folders."
            )
        for part, images in (("training", dataset.train), ("test", dataset.test)):
            empty = np.flatnonzero(np.bincount(images.labels, minlength=counts.classes) == 0)
            if len(empty):
                raise OvorError(
                    f"{root} has no {part} {self.things} of {len(empty)} of the {counts.classes} "
                    f"classes of {self.name}, such as '{dataset.class_names[empty[0]]}': unpack it "
                    "anew."
                )
        if counts != self.expected:
            warn(
                f"{root} has {counts.train:,} training and {counts.test:,} test {self.things} "
                f"where {self.name} has {self.expected.train:,} and {self.expected.test:,}, so "
                "results may not be comparable."
            )

    def _places(self) -> list[Path]:
        """List the places where something lies."""
        paths = (data_folder() / place for place in self.places)
        return [path for path in paths if path.exists()]

    def found(self) -> Path | None:
        """Return the first path that holds this data set, if one does."""
        return next(filter(self._is_at, self._places()), None)

    def _is_at(self, place: Path) -> bool:
        """Tell this data set, whole or not, from another split of the same images."""
        as_folders = (place / "train").is_dir() or (place / "test").is_dir()
        if self.lists:
            return any((place / name).exists() for name in self.lists) or not as_folders
        return as_folders or not self.name.endswith(":pilot")

    def find(self) -> Path:
        """Return where it is; else a place that exists, whose reader then says what it lacks."""
        place = self.found() or next(iter(self._places()), None)
        if place is not None:
            return place
        data = data_folder()
        raise MissingDataError(
            f"{self.name} is not in {data}, which {held(data)} ({VARIABLE} names the "
            f"data folder, by default it is {DEFAULT}): {self.advice()}."
        )

    def lacks(self, root: Path, name: str) -> OvorError:
        """Say that a copy has no such list, what it has, and what to get or choose."""
        folders = (root / "train").is_dir() and (root / "test").is_dir()
        other = f", or choose {self.name}:pilot for the split of these folders" if folders else ""
        return OvorError(f"{root} has no file {name}, it {held(root)}: {self.advice()}{other}.")

    def advice(self) -> str:
        return f"get {self.get}, so that the data folder has {self.layout}"


def data_folder() -> Path:
    return Path(os.environ.get(VARIABLE) or DEFAULT).expanduser()


def held(place: Path) -> str:
    """Say what a place holds by its first few names, as the end of a sentence."""
    if not place.is_dir():
        return "is a file, not a folder" if place.exists() else "does not exist"
    names = sorted(path.name for path in place.iterdir())
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
    return f"holds {listed}" if names else "is empty"


def published_folders(source: Source, root: Path) -> Dataset:
    """Read root/train/CLASS and root/test/CLASS; labels follow the sorted names."""
    if not ((root / "train").is_dir() and (root / "test").is_dir()):
        raise OvorError(
            f"{root} {held(root)} where the folders train and test of {source.name} were "
            f"expected: {source.advice()}."
        )
    try:
        return replace(folder(str(root)), name=source.name)
    except OvorError as error:  # it advises on folders of one's own, where a class may go
        raise OvorError(f"{error} A whole {source.name} is not so: unpack it anew.") from error


def warn(sentence: str) -> None:
    print(f"ovor: {sentence}", file=sys.stderr)
