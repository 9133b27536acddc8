"""CIFAR-100 with its fine labels (the paper's Sec. 5.1), from the python archive or from folders.

The archive's files are pickles, which could run anything when read. Here they cannot: what stands
in them for a numpy array becomes a note of what was stored, and everything else is refused.
"""

import pickle
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ovor.data.base import Dataset
from ovor.data.images import Pictures
from ovor.data.sources import Expected, Source, held, published_folders
from ovor.errors import OvorError

MEMBERS = ("train", "test", "meta")
Fields = dict[str, Any]


def _read(source: Source, root: Path) -> Dataset:
    if root.name == "cifar-100":
        return published_folders(source, root)
    members = _from_archive(source, root) if root.is_file() else _from_folder(source, root)
    with _damage_named(root / "meta"):
        names = tuple(_text(name) for name in _list(members["meta"], "fine_label_names"))
    parts = []
    for part in ("train", "test"):
        with _damage_named(root / part):
            parts.append(_pictures(members[part], len(names)))
    return Dataset(source.name, names, *parts)


def _from_folder(source: Source, root: Path) -> dict[str, Fields]:
    members = {}
    for name in MEMBERS:
        path = root / name
        if not path.is_file():
            raise OvorError(f"{root} has no file {name}, it {held(root)}: {source.advice()}.")
        with _damage_named(path), path.open("rb") as file:
            members[name] = _unpickle(file)
    return members


def _from_archive(source: Source, path: Path) -> dict[str, Fields]:
    """Read the archive in one pass, without unpacking it to the disk."""
    members: dict[str, Fields] = {}
    with _damage_named(path), tarfile.open(path, "r|gz") as archive:
        for member in archive:
            folder, _, name = member.name.removeprefix("./").partition("/")
            wanted = folder == "cifar-100-python" and name in MEMBERS
            if wanted and (file := archive.extractfile(member)):
                members[name] = _unpickle(file)
    missing = [name for name in MEMBERS if name not in members]
    if missing:
        raise OvorError(f"{path} has no cifar-100-python/{missing[0]}: {source.advice()}.")
    return members


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Turn whatever a damaged archive or pickle raises into a sentence that names the file."""
    try:
        yield
    except Exception as error:
        raise OvorError(
            f"{path} is damaged or not CIFAR-100's ({error or type(error).__name__}): "
            "download cifar-100-python.tar.gz anew."
        ) from error


class _Stored:
    """Stand for an array or its dtype: keep what the file says of it, and do nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


NUMPY = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),  # its name since numpy 2
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> type[_Stored]:
        if (module, name) not in NUMPY:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which was not executed")
        return _Stored


def _unpickle(file: IO[bytes]) -> Fields:
    # Strings of Python 2, in which the files were written, come as bytes.
    content = _Unpickler(file, encoding="bytes").load()
    if not isinstance(content, dict):
        raise ValueError("it is no dictionary")
    return {_text(key): value for key, value in content.items()}


def _text(value: object) -> str:
    if not isinstance(value, bytes | str):
        raise ValueError(f"it has {value!r} where a name was expected")
    return value.decode() if isinstance(value, bytes) else value


def _list(fields: Fields, name: str) -> list[object]:
    if not isinstance(fields.get(name), list):
        raise ValueError(f"it has no list '{name}'")
    return fields[name]  # type: ignore[no-any-return]


def _pictures(fields: Fields, classes: int) -> Pictures:
    found = _list(fields, "fine_labels")
    if not all(type(label) is int and 0 <= label < classes for label in found):
        raise ValueError(f"its labels are not numbers from 0 to {classes - 1}")
    labels = np.array(found, dtype=np.int64)
    pixels = _array(fields.get("data"))
    if pixels.shape != (len(labels), 3 * 32 * 32):
        raise ValueError(f"it has pixels of shape {pixels.shape} for {len(labels)} labels")
    images = pixels.reshape(len(labels), 3, 32, 32).transpose(0, 2, 3, 1)
    return Pictures(np.ascontiguousarray(images), labels)  # N, 32, 32, 3


def _array(stored: object) -> NDArray[np.uint8]:
    """Make the array that numpy would have made of its version, shape, dtype, order and bytes."""
    if not isinstance(stored, _Stored) or not isinstance(stored.state, tuple):
        raise ValueError("it has no array 'data'")
    _, shape, dtype, column_major, content = stored.state
    if _text(dtype.arguments[0]) != "u1":
        raise ValueError(f"pixels of type {_text(dtype.arguments[0])} instead of bytes")
    return np.frombuffer(content, np.uint8).reshape(shape, order="F" if column_major else "C")


SOURCE = Source(
    name="cifar-100",
    places=(
        "cifar-100-python",
        "cifar-100/cifar-100-python",
        "cifar-100-python.tar.gz",
        "cifar-100/cifar-100-python.tar.gz",
        "cifar-100",
    ),
    get="cifar-100-python.tar.gz, the python version that Alex Krizhevsky publishes on the CIFAR "
    "page of the University of Toronto",
    layout="cifar-100-python.tar.gz, or cifar-100-python/train, test and meta as unpacked, or "
    "images as cifar-100/train/CLASS/*.png and cifar-100/test/CLASS/*.png",
    expected=Expected(classes=100, train=50_000, test=10_000),
    read=_read,
)
