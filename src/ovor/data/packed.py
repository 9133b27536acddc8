"""Files inside a zip, read where they lie: nothing is unpacked to a disk.

An archive may come from anywhere, so its size is bounded before anything of it is read, and a name
that leads out of it is refused, although no file is ever written by it.
"""

import os
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ovor.data.formats import missing, reason
from ovor.errors import OvorError

ENTRIES = 1_000_000
ENTRY_BYTES = 2**28  # of one image or table, unpacked
TOTAL_BYTES = 2**40  # of all together; a bomb says more
OPEN = 8  # archives at a time
ENCRYPTED = 0x1  # a flag of an entry


@dataclass(frozen=True)
class Packed:
    """A file in a zip."""

    archive: Path
    name: str
    size: int
    """bytes, unpacked"""
    crc: int

    def __str__(self) -> str:
        return f"{self.name} in {self.archive}"

    @property
    def path(self) -> PurePosixPath:
        return in_archive(self.name)

    def content(self) -> bytes:
        """Return the file's bytes: never more than the archive says, which is bounded."""
        if self.size > ENTRY_BYTES:
            raise OvorError(
                f"{self} has {self.size:,} bytes, and {ENTRY_BYTES:,} are the most that are read: "
                "make it smaller, or remove it."
            )
        try:
            return _opened(self.archive).read(self.name)
        except Exception as error:  # zipfile and its decompressors raise a dozen kinds
            raise OvorError(
                f"{self} cannot be read ({reason(error)}): zip the images anew, or give the "
                "unpacked folder."
            ) from error


def packed_files(archive: Path) -> tuple[list[Packed], list[PurePosixPath]]:
    """List the files in a zip, sorted by name; and its links, which are not followed."""
    try:
        entries = _opened(archive).infolist()
    except FileNotFoundError as error:
        raise missing(archive) from error
    except Exception as error:
        raise OvorError(
            f"{archive} cannot be read as a zip ({reason(error)}): copy it anew, or give the "
            "unpacked folder."
        ) from error
    _check_size(archive, entries)
    files: list[Packed] = []
    links: list[PurePosixPath] = []
    for entry in entries:
        _check_entry(archive, entry)
        if stat.S_ISLNK(entry.external_attr >> 16):
            links.append(in_archive(entry.filename))
        elif not entry.is_dir():
            files.append(Packed(archive, entry.filename, entry.file_size, entry.CRC))
    twice = next(_repeated(file.name for file in files), None)
    if twice is not None:
        raise OvorError(f"{archive} has two files called {twice}: zip the images anew.")
    return sorted(files, key=lambda file: file.name), sorted(links)


def _check_size(archive: Path, entries: list[zipfile.ZipInfo]) -> None:
    total = sum(entry.file_size for entry in entries)
    if len(entries) > ENTRIES or total > TOTAL_BYTES:
        raise OvorError(
            f"{archive} says that it holds {len(entries):,} files of {total:,} bytes, and "
            f"{ENTRIES:,} of {TOTAL_BYTES:,} are the most that are read: unpack it, and give the "
            "folder."
        )


def _check_entry(archive: Path, entry: zipfile.ZipInfo) -> None:
    path = in_archive(entry.filename)
    if entry.flag_bits & ENCRYPTED:
        raise OvorError(f"{archive} has a password: unpack it, and give the folder.")
    if ".." in path.parts or path.is_absolute():
        raise OvorError(
            f"{archive} has a file called {entry.filename!r}, which leads out of it: unpack it "
            "with care, and give the folder."
        )


def _repeated(names: Iterator[str]) -> Iterator[str]:
    """Yield the names that were there before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def in_archive(name: str) -> PurePosixPath:
    """Return where an entry lies; some programs of Windows write its separators."""
    return PurePosixPath(name.replace("\\", "/"))


def _opened(archive: Path) -> zipfile.ZipFile:
    stat = archive.stat()
    return _kept_open(archive, stat.st_size, stat.st_mtime_ns, os.getpid())


@lru_cache(OPEN)
def _kept_open(archive: Path, size: int, modified: int, process: int) -> zipfile.ZipFile:
    """Open a zip, once in every process: two that shared a file would move each other's place."""
    return zipfile.ZipFile(archive)
