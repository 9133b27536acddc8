"""A data set from folders of image files: PATH/train/CLASS and PATH/test/CLASS, or PATH/CLASS.

For anyone's own images, and for the paper's data sets once unpacked; classes are sorted by name.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path

import numpy as np
from PIL import Image

from ovor.data.base import Dataset, Images, Integers, Mask, chance, for_testing
from ovor.data.class_names import folder_name, listed
from ovor.data.formats import IMAGE_FILES, FileKind
from ovor.data.image_files import HIDDEN, find_images, instead
from ovor.data.images import at_home, decode
from ovor.data.parts import Holds, is_part
from ovor.errors import OvorError

ByClass = dict[str, list[Path]]  # the image files of each class


@dataclass(frozen=True, eq=False)
class Files(Images):
    """Labelled image files, read when they are asked for."""

    paths: tuple[Path, ...]
    labels: Integers

    def image(self, index: int) -> Image.Image:
        return decode(self.paths[index], self.paths[index])

    def origin(self, index: int) -> bytes | None:
        """Identify a file for the cache by its name and times, as reading it takes longer."""
        path = self.paths[index]
        try:
            stat = path.stat()
        except OSError:
            return None
        return f"{stat.st_size} {stat.st_mtime_ns} ".encode() + os.fsencode(path.absolute())

    def chosen(self, mask: Mask) -> "Files":
        return Files(tuple(compress(self.paths, mask)), self.labels[mask])


def folder(path: str) -> Dataset:
    root = at_home(path)
    if not path:  # it would be the current folder
        raise OvorError("folder: names no folder: write folder:PATH.")
    if not root.is_dir():
        raise OvorError(f"There is no folder {root}: give the path of one with a folder per class.")
    name = f"folder:{path}"
    parts = [path for path in visible_folders(root) if is_part(path.name)]
    of_classes = any(map(has_class_folders, parts))  # else a class is called so
    if of_classes and {"train", "test"} <= {path.name for path in parts}:
        return _given_split(name, root)
    classes, _ = find_classes(root)
    if of_classes and all(map(is_part, classes)):  # else they would silently be taken for classes
        raise OvorError(
            f"{root} has {listed(list(classes))} but not both 'train' and 'test': "
            "add the missing one, or give the folder that holds the class folders."
        )
    files = _files(classes, classes)
    chances = np.array([chance(path.relative_to(root)) for path in files.paths])
    tests = for_testing(chances, files.labels)
    return Dataset(name, tuple(classes), files.chosen(~tests), files.chosen(tests))


def _given_split(name: str, root: Path) -> Dataset:
    train, test = (find_classes(root / part)[0] for part in ("train", "test"))
    strange = sorted(test.keys() - train.keys())
    if strange:
        raise OvorError(
            f"{listed(strange)} of {root / 'test'} has no training images: "
            f"add a folder of that name to {root / 'train'} or remove it."
        )
    return Dataset(name, tuple(train), _files(train, train), _files(train, test))


def _files(class_names: Iterable[str], paths: ByClass) -> Files:
    groups = [paths.get(name, []) for name in class_names]
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return Files(tuple(chain.from_iterable(groups)), labels)


def visible_folders(root: Path) -> list[Path]:
    """List the folders in a folder, by name; links to folders among them, hidden ones not."""
    found = (path for path in root.iterdir() if not path.name.startswith(HIDDEN))
    return sorted(path for path in found if path.is_dir())


def holds(folder: Path, kind: FileKind = IMAGE_FILES) -> Holds:
    """Say whether a folder holds class folders, or images right away."""
    if any(kind.has(path.name) and path.is_file() for path in folder.iterdir()):
        return "images"
    return "classes" if has_class_folders(folder, kind) else "nothing"


def has_class_folders(folder: Path, kind: FileKind = IMAGE_FILES) -> bool:
    """Tell whether images lie in folders of this folder."""
    return any(find_images(inner, kind)[0] for inner in visible_folders(folder))


def find_classes(root: Path, kind: FileKind = IMAGE_FILES) -> tuple[ByClass, list[Path]]:
    """List the image files of every class folder, however deep they lie; and the other files."""
    folders = visible_folders(root)
    if not folders:
        raise OvorError(f"{root} has no class folders: put the {kind.many} of each class in one.")
    classes: ByClass = {}
    others = sorted(set(root.iterdir()) - set(folders))
    for folder in folders:
        name = folder_name(folder)
        if name in classes:
            raise OvorError(f"Two folders of {root} are both called {name!r}: rename one of them.")
        classes[name], strange = find_images(folder, kind)
        others += strange
    empty = [name for name, paths in classes.items() if not paths]
    if empty:
        raise OvorError(
            f"No {kind.many} in {listed(empty)} of {root}{instead(others)}: "
            f"add some ({' '.join(kind.suffixes)}) or remove the folder."
        )
    return classes, others
