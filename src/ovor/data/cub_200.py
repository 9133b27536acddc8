"""CUB-200-2011, birds, in its official split (Sec. 5.1): four lists of "id value" lines.

The label of a class is its number in classes.txt minus one.
"""

from pathlib import Path

import numpy as np

from ovor.data.base import Dataset
from ovor.data.folders import Files
from ovor.data.sources import Expected, Source, checked, held, split_in_folders
from ovor.errors import OvorError

LISTS = ("classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt")


def holds_it(place: Path) -> bool:
    return any((place / name).exists() for name in LISTS) or not split_in_folders(place)


SOURCE = Source(
    name="cub-200",
    places=("CUB_200_2011", "cub-200/CUB_200_2011", "cub-200"),
    get="CUB_200_2011.tgz, which Caltech publishes on the Caltech-UCSD Birds-200-2011 page of its "
    "vision group",
    layout="CUB_200_2011/images/CLASS/*.jpg beside images.txt, image_class_labels.txt, "
    "train_test_split.txt and classes.txt, as unpacked",
    expected=Expected(classes=200, train=5_994, test=5_794),
    holds_it=holds_it,
)


def cub_200(expected: Expected = SOURCE.expected) -> Dataset:
    root = SOURCE.find()
    names = _class_names(root)
    images = _table(root, "images.txt")
    labels = _numbers(root, "image_class_labels.txt", images, range(1, len(names) + 1))
    training = _numbers(root, "train_test_split.txt", images, range(2))
    paths = [root / "images" / path for path in images.values()]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise OvorError(
            f"{root} lacks {len(missing):,} of {len(paths):,} images, such as {missing[0]}: unpack "
            "CUB_200_2011.tgz anew."
        )

    def part(wanted: int) -> Files:
        chosen = [row for row, flag in enumerate(training) if flag == wanted]
        return Files(
            tuple(paths[row] for row in chosen),
            np.array([labels[row] - 1 for row in chosen], dtype=np.int64),
        )

    return checked(Dataset(SOURCE.name, names, part(1), part(0)), expected, root)


def _class_names(root: Path) -> tuple[str, ...]:
    classes = _table(root, "classes.txt")
    if list(classes) != list(range(1, len(classes) + 1)):
        raise OvorError(
            f"{root / 'classes.txt'} does not count its classes from 1 on: unpack CUB_200_2011.tgz "
            "anew."
        )
    return tuple(classes.values())


def _numbers(root: Path, name: str, images: dict[int, str], allowed: range) -> list[int]:
    """The value of each image, in the order of images.txt."""
    table = _table(root, name)
    strange = sorted(table.keys() - images.keys())
    if strange:
        raise OvorError(
            f"{root / name} has image {strange[0]}, but images.txt has not: unpack "
            "CUB_200_2011.tgz anew."
        )
    values = [table.get(image, "nothing") for image in images]
    right = {str(number) for number in allowed}
    for image, value in zip(images, values, strict=True):
        if value not in right:
            raise OvorError(
                f"{root / name} has {value} for image {image} where a number from {allowed[0]} to "
                f"{allowed[-1]} was expected: unpack CUB_200_2011.tgz anew."
            )
    return [int(value) for value in values]


def _table(root: Path, name: str) -> dict[int, str]:
    """The lines of a file, each an id, a space and a value."""
    path = root / name
    if not path.is_file():
        folders = (root / "train").is_dir() and (root / "test").is_dir()
        other = ", or choose cub-200:pilot for the split of these folders" if folders else ""
        raise OvorError(f"{root} has no file {name}, it {held(root)}: {SOURCE.advice()}{other}.")
    table: dict[int, str] = {}
    # Bytes that are no text make a line that is none either, and the sentence below shows it.
    lines = path.read_text("utf-8", "backslashreplace").splitlines()
    for line in filter(str.strip, lines):
        number, _, value = line.strip().partition(" ")
        new = number.isdecimal() and len(number) < 10 and int(number) not in table
        if not new or not value.strip():
            raise OvorError(
                f"{path} has the line {line[:40]!r} where a new id and a value were expected: "
                "unpack CUB_200_2011.tgz anew."
            )
        table[int(number)] = value.strip()
    if not table:
        raise OvorError(f"{path} is empty: unpack CUB_200_2011.tgz anew.")
    return table
