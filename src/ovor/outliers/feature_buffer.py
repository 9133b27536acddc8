"""A buffer of rows that come in parts, such as the features of a task (Alg. 1, line 3): in memory
while they are few, in a mapped file beyond, so that a task may have more than memory holds.

The file loses its name as soon as it is open, so nothing is left of it once its last reader is
gone, whatever happens.
"""

import mmap
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from ovor.errors import OvorError

IN_MEMORY = 256 * 2**20  # bytes of a buffer that stay in memory
AT_ONCE = 2**22  # elements that are read or made at once: 16 MB
GATHERED = 128  # single rows read by one mapping: the system maps up to 2 MB around each


class Mapped:
    """Rows in a file, in place of a tensor of them.

    Every access maps the file anew, so what has been read is no part of the process any more; the
    system keeps it in its cache if there is room.
    """

    device = torch.device("cpu")

    def __init__(self, file: IO[bytes], width: int, dtype: torch.dtype) -> None:
        self.file, self.dtype = file, dtype
        self.shape = len(self._bytes()) // (width * dtype.itemsize), width

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Tensor) -> Tensor:
        """Return a view of a range of rows, or a copy of the numbered rows."""
        if isinstance(rows, slice):
            return self.tensor()[rows]
        found = torch.empty(len(rows), self.shape[1], dtype=self.dtype)
        for numbers, places in zip(*(torch.split(x, GATHERED) for x in (rows, found)), strict=True):
            torch.index_select(self.tensor(), 0, numbers, out=places)
        return found

    def tensor(self) -> Tensor:
        """Return all rows as one tensor, whose pages count as the process's memory once read."""
        return torch.frombuffer(self._bytes(), dtype=self.dtype).view(-1, self.shape[1])

    def _bytes(self) -> mmap.mmap:
        return mmap.mmap(self.file.fileno(), 0)


Points = Tensor | Mapped  # n, D


class FeatureBuffer:
    """Collects rows that come in parts. Rows on a GPU stay there, however many they are."""

    def __init__(self, folder: Path | None = None) -> None:
        """Take the folder for a file; without one, the system's folder for temporary files."""
        self.folder = Path(tempfile.gettempdir()) if folder is None else folder
        self.parts: list[Tensor] = []
        self.bytes = 0
        self.file: IO[bytes] | None = None

    def add(self, rows: Tensor) -> None:
        """Append some rows; to a file from the moment that there are too many for memory."""
        self.parts.append(rows)
        self.bytes += rows.nbytes
        if self.bytes > IN_MEMORY and rows.device.type == "cpu":
            try:
                self._write()
            except OSError as error:
                raise OvorError(
                    f"Features of {self.bytes / 2**20:,.0f} MB and more need a file in "
                    f"{self.folder}, but it cannot be written ({error.strerror}): there should be "
                    "room for three times the features of a task."
                ) from error

    def rows(self) -> Points:
        """Return all rows, as a tensor in memory or as the file that holds them."""
        if self.file is None:
            if len(self.parts) > 1:
                self.parts = [torch.cat(self.parts)]
            return self.parts[0]
        return Mapped(self.file, self.width, self.dtype)

    def tensor(self) -> Tensor:
        """Return all rows as one tensor, which may be mapped from a file."""
        return whole(self.rows())

    def _write(self) -> None:
        if self.file is None:
            self.file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
            self.width, self.dtype = self.parts[0].shape[1], self.parts[0].dtype
        for rows in self.parts:
            self.file.write(rows.contiguous().view(torch.uint8).numpy(force=True).data)
        self.file.flush()
        self.parts = []


def collected(parts: Iterable[Tensor], folder: Path | None = None) -> Points:
    """Return the rows of all parts, from a file in the folder if they are many."""
    buffer = FeatureBuffer(folder)
    for part in parts:
        buffer.add(part)
    return buffer.rows()


def whole(points: Points) -> Tensor:
    """Return all rows as one tensor, which may be mapped from a file."""
    return points if isinstance(points, Tensor) else points.tensor()


def rows_at_once(width: int) -> int:
    """Return how many rows of this width are read or made at once."""
    return max(1, AT_ONCE // max(1, width))


def chunks(points: Points) -> Iterator[Tensor]:
    """Yield all rows in order, some at once."""
    rows = rows_at_once(points.shape[1])
    for start in range(0, len(points), rows):
        yield points[start : start + rows]


def gathered(points: Points, numbers: Tensor) -> Iterator[Tensor]:
    """Yield copies of the numbered rows in the order of the numbers, some at once."""
    for some in torch.split(numbers, rows_at_once(points.shape[1])):
        yield points[some]
