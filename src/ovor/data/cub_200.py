"""CUB-200-2011, birds, in its official split (Sec. 5.1): four lists of "id value" lines.

The label of a class is its number in classes.txt minus one. `cub-200:pilot` is the other published
split, as folders.
"""

from pathlib import Path

import numpy as np

from ovor.data.base import Dataset, Integers
from ovor.data.folders import Files
from ovor.data.sources import Expected, Source, published_folders
from ovor.errors import OvorError

LISTS = ("classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt")


def _read(source: Source, root: Path) -> Dataset:
    classes = _table(root, "classes.txt")
    if list(classes) != list(range(1, len(classes) + 1)):
        raise _damaged(f"{root / 'classes.txt'} does not count its classes from 1 on")
    images = _table(root, "images.txt")
    labels = _numbers(root, "image_class_labels.txt", images, range(1, len(classes) + 1))
    training = _numbers(root, "train_test_split.txt", images, range(2)) == 1
    paths = tuple(root / "images" / path for path in images.values())
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise _damaged(
            f"{root} lacks {len(missing):,} of {len(paths):,} images, such as {missing[0]}"
        )
    files = Files(paths, labels - 1)
    names = tuple(classes.values())
    return Dataset(source.name, names, files.chosen(training), files.chosen(~training))


def _numbers(root: Path, name: str, images: dict[int, str], allowed: range) -> Integers:
    """Return the number that a list gives each image, in the order of images.txt."""
    table = _table(root, name)
    strange = sorted(table.keys() - images.keys())
    if strange:
        raise _damaged(f"{root / name} has image {strange[0]}, but images.txt has not")
    right = {str(number) for number in allowed}
    for image in images:
        value = table.get(image, "nothing")
        if value not in right:
            raise _damaged(
                f"{root / name} has {value} for image {image} where a number from {allowed[0]} to "
                f"{allowed[-1]} was expected"
            )
    return np.array([table[image] for image in images], dtype=np.int64)


def _table(root: Path, name: str) -> dict[int, str]:
    """Read a list, each line of which is an id, a space and a value."""
    path = root / name
    if not path.is_file():
        raise SOURCE.lacks(root, name)
    table: dict[int, str] = {}
    # Bytes that are no text make a line that is none either, and the sentence below shows it.
    lines = path.read_text("utf-8", "backslashreplace").splitlines()
    for line in filter(str.strip, lines):
        number, _, value = line.strip().partition(" ")
        new = number.isdecimal() and len(number) < 10 and int(number) not in table
        if not new or not value.strip():
            raise _damaged(
                f"{path} has the line {line[:40]!r} where a new id and a value were expected"
            )
        table[int(number)] = value.strip()
    if not table:
        raise _damaged(f"{path} is empty")
    return table


def _damaged(what: str) -> OvorError:
    return OvorError(f"{what}: unpack CUB_200_2011.tgz anew.")


SOURCE = Source(
    name="cub-200",
    places=("CUB_200_2011", "cub-200/CUB_200_2011", "cub-200"),
    get="CUB_200_2011.tgz, which Caltech publishes on the Caltech-UCSD Birds-200-2011 page of its "
    "vision group",
    layout="CUB_200_2011/images/CLASS/*.jpg beside images.txt, image_class_labels.txt, "
    "train_test_split.txt and classes.txt, as unpacked",
    expected=Expected(classes=200, train=5_994, test=5_794),
    read=_read,
    lists=LISTS,
)
PILOT = Source(
    name="cub-200:pilot",
    places=("cub-200", "cub"),
    get="CUB-200 as split by the authors of RevisitingCIL and LAMDA-PILOT, whose pages on GitHub "
    "link to it",
    layout="cub-200/train/CLASS/*.jpg and cub-200/test/CLASS/*.jpg (or the same in cub)",
    expected=Expected(classes=200, train=9_430, test=2_358),
    read=published_folders,
)
