"""Decoded images kept on disk, so that an epoch after the first opens no JPEG.

One file per image, named by what it was decoded from and moved into place when whole: any number of
workers and runs may share a folder, and the pixels are those that decoding would give.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import PIL
from numpy.lib.format import read_array_header_1_0, read_magic
from PIL import Image

from ovor.data.base import Dataset, Integers, Items
from ovor.errors import OvorError

FOLDER = "~/.cache/ovor/decoded"
SCHEMA = 1  # to be raised when `images.decode` makes other pixels of a file
HEADER = 128  # bytes of a .npy file before the pixels


def cached(dataset: Dataset, limit: int, folder: str = FOLDER) -> Dataset:
    """Return the data set with its image files cached in `folder`, in at most `limit` bytes."""
    if not limit:
        return dataset
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OvorError(
            f"The cache folder {path} cannot be made ({error.strerror}): choose another one."
        ) from error
    train, test = (
        CachedItems(items.labels, items, path, limit) for items in (dataset.train, dataset.test)
    )
    return replace(dataset, train=train, test=test)


@dataclass(frozen=True, eq=False)
class CachedItems(Items):
    """Images that are each decoded once; those beyond the limit are decoded every time."""

    labels: Integers
    items: Items
    folder: Path
    limit: int
    """bytes that all the images of this folder may take"""

    @property
    def many(self) -> str:
        return self.items.many

    def item(self, index: int) -> Any:
        origin = self.items.origin(index)
        if origin is None:  # such as a text, which takes nothing to decode
            return self.items.item(index)
        key = hashlib.sha256(f"{SCHEMA} {PIL.__version__} ".encode() + origin).hexdigest()
        path = self.folder / key[:2] / f"{key}.npy"
        kept = _read(path)
        if kept is not None:
            return kept
        image = self.items.item(index)
        size = HEADER + 3 * image.width * image.height
        # A full disk is no reason to stop: without the file the image is decoded again.
        with contextlib.suppress(OSError):
            if admitted(self.folder / "sizes", size, self.limit):
                with written(path) as file:
                    np.save(file, np.asarray(image))
        return image


def _read(path: Path) -> Image.Image | None:
    """Read an entry; None if it is not there or was cut off by a crash."""
    try:
        content = path.read_bytes()
        width, height = _size(content[:HEADER])
    except (OSError, ValueError):
        return None
    if len(content) != HEADER + 3 * width * height:
        return None
    return Image.frombytes("RGB", (width, height), memoryview(content)[HEADER:])


@lru_cache
def _size(header: bytes) -> tuple[int, int]:
    """Read width and height; remembered, as numpy takes a tenth of a millisecond to do so."""
    file = BytesIO(header)
    read_magic(file)
    shape, column_major, dtype = read_array_header_1_0(file)
    if dtype != np.uint8 or column_major or len(shape) != 3 or shape[2] != 3:
        raise ValueError("no RGB image")
    return shape[1], shape[0]


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that is moved into place when whole; several processes may write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def admitted(ledger: Path, size: int, limit: int) -> bool:
    """Book `size` more bytes if they fit, and say whether they do.

    Every process appends to the same file and trusts only what stands there up to its own entry, so
    those admitted never exceed the limit together, without a lock that a killed process could keep.
    """
    if _booked(ledger) + size > limit:
        return False
    with ledger.open("ab", buffering=0) as file:
        file.write(np.int64(size).tobytes())
        end = file.tell()
    return _booked(ledger, end) <= limit


def _booked(ledger: Path, end: int = -1) -> int:
    """Add up the sizes in the ledger, up to the byte `end`."""
    try:
        with ledger.open("rb") as file:
            content = file.read(end)
    except FileNotFoundError:
        return 0
    return int(np.frombuffer(content[: len(content) // 8 * 8], np.int64).sum())
