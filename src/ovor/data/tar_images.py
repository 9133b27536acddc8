"""Images inside tar shards, read in any order where an index says that they lie.

The index of a shard is made by one pass over its headers, and kept on disk. With it nothing is
unpacked, and nothing else in ovor needs to know of shards. A sample is what WebDataset calls one:
neighbours whose names agree up to the first dot of the last part. In memory it takes the bytes of
`SAMPLE`, whatever its name.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Annotated

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ovor.data.base import Images, Integers, Mask, chance
from ovor.data.cache import written
from ovor.data.class_names import listed
from ovor.data.formats import SUFFIXES, reason
from ovor.data.images import at_home, decode
from ovor.data.sources import warn
from ovor.errors import OvorError

STRICT = ConfigDict(extra="forbid", strict=True)
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
FOLDER = "~/.cache/ovor/shards"
SCHEMA = 1  # to be raised when the same shard gives another index
SAMPLE = np.dtype(
    [("offset", np.int64), ("size", np.int64), ("label", np.int32), ("chance", np.float64)]
)
Samples = NDArray[np.void]  # of SAMPLE, in the order of the tar
PLACE = np.dtype([("shard", np.int32), ("offset", np.int64), ("size", np.int64)])
LONG = 2**30  # bytes of shards whose index takes long enough to say so
LARGEST = 2**31 - 1  # number that a label may be
BLOCK = 512  # a tar consists of these
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
NUMBER = re.compile(r"-?[0-9]+")
META = re.compile(r"__[^/]*__($|/)")  # what WebDataset leaves out too
OPEN = 128  # shards at a time, of the 256 or more files that systems allow a process


@dataclass(frozen=True)
class Shard:
    """A tar file as it was when the run began."""

    path: Path
    size: int
    modified: int
    """nanoseconds"""

    @property
    def stamp(self) -> list[int]:
        return [SCHEMA, self.size, self.modified]


@checked_dataclass(frozen=True, config=STRICT)
class Splits:
    """The shards of each side as names, globs and brace ranges, relative to the manifest."""

    train: Patterns
    test: Patterns


@checked_dataclass(frozen=True, config=STRICT)
class Manifest:
    """What manifest.json beside shards may say; docs/data.md has an example."""

    classes: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """names by label, in the order that seed 0 learns them; without them, the labels themselves"""
    splits: Splits | None = None
    """which shards train and which test; without them, the names of the shards tell"""
    label: Annotated[str, Field(pattern=r"^(cls|json:.+)$")] = "cls"
    """of every sample: its member .cls, or a field of its member .json, as in json:field"""
    image: str = ""
    """ending of the image where samples have several, such as jpg beside mask.png"""

    def __post_init__(self) -> None:
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise ValueError(f"the class {twice!r} is listed twice")

    @cached_property
    def positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.classes)}

    @property
    def label_endings(self) -> tuple[str, ...]:
        return ("json",) if self.label.startswith("json:") else ("cls", "cls.txt")

    def is_image(self, ending: str) -> bool:
        return ending == self.image.lower() if self.image else f".{ending}".endswith(SUFFIXES)


@dataclass(frozen=True, eq=False)
class TarImages(Images):
    """Labelled images of some shards, each of which is opened by the process that reads it."""

    shards: tuple[Shard, ...]
    places: NDArray[np.void]  # of PLACE
    labels: Integers

    def chosen(self, mask: Mask) -> "TarImages":
        return TarImages(self.shards, self.places[mask], self.labels[mask])

    def image(self, index: int) -> Image.Image:
        shard, offset, _ = self.places[index].item()
        return decode(self.origin(index), Member(self.shards[shard], offset))

    def origin(self, index: int) -> bytes:
        """Read an image's file out of the tar; at its place, without seeking, for threads' sake."""
        position, offset, size = self.places[index].item()
        shard = self.shards[position]
        file = _opened(shard)  # held, or another thread's use of the cache may close it
        stat = os.fstat(file.fileno())
        if (stat.st_size, stat.st_mtime_ns) != (shard.size, shard.modified):
            raise OvorError(
                f"{shard.path} changed during the run: start the run anew, and leave its shards "
                "alone meanwhile."
            )
        return os.pread(file.fileno(), size, offset)


@lru_cache(maxsize=OPEN)
def _opened(shard: Shard) -> IO[bytes]:
    """Open a shard; one that falls out of the cache is closed once nobody reads it."""
    try:
        return shard.path.open("rb", buffering=0)
    except OSError as error:
        raise OvorError(
            f"{shard.path} cannot be opened any more ({error.strerror}): put it back, and start "
            "the run anew."
        ) from error


@dataclass(frozen=True)
class Member:
    """A member of a shard, for a sentence: only then its name is looked up, the index has none."""

    shard: Shard
    offset: int

    def __str__(self) -> str:
        found = (m.name for m in members(self.shard.path) if m.offset_data == self.offset)
        return f"{next(found, f'at byte {self.offset:,}')} in {self.shard.path}"


def indexed(paths: list[Path], manifest: Manifest) -> Iterator[tuple[Shard, Samples]]:
    """Yield every shard with its index, which is read or else made."""
    stats = {path: path.stat() for path in paths}
    shards = [Shard(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()]
    kept = {shard: _kept_index(shard, manifest) for shard in shards}
    size = sum(shard.size for shard, samples in kept.items() if samples is None)
    if size > LONG:
        warn(f"Indexing {size / 1e9:.0f} GB of shards, which is done once.")
    for shard, samples in kept.items():
        yield shard, _make_index(shard, manifest) if samples is None else samples


def _kept_index(shard: Shard, manifest: Manifest) -> Samples | None:
    """Read the index from disk; None if it is missing, damaged, or older than the shard."""
    try:
        with np.load(_place(shard, manifest)) as arrays:
            stamp, samples = arrays["stamp"], arrays["samples"]
    except Exception:  # damage shows in the zip, its checksum, numpy's header or a missing array
        return None
    fits = samples.dtype == SAMPLE and stamp.tolist() == shard.stamp
    return samples if fits else None


def _make_index(shard: Shard, manifest: Manifest) -> Samples:
    """Make the index of a shard, and keep it on disk for the next run."""
    samples = np.fromiter(_samples(shard, manifest), SAMPLE)
    # Without it the next run takes longer, no more.
    with contextlib.suppress(OSError), written(_place(shard, manifest)) as file:
        np.savez(file, stamp=np.array(shard.stamp), samples=samples)
    return samples


def _place(shard: Shard, manifest: Manifest) -> Path:
    said = [str(shard.path.absolute()), manifest.label, manifest.image, manifest.classes]
    name = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    return at_home(FOLDER) / f"{name}.npz"


def members(path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the regular files of a tar, of whose content nothing is read."""
    with path.open("rb") as file:
        if file.read(6).startswith(COMPRESSED):
            raise OvorError(
                f"{path} is compressed, so that no image can be read without all before it: "
                "unpack it to a plain .tar (images gain nothing by compression)."
            )
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                while (member := archive.next()) is not None:
                    archive.members.clear()  # type: ignore[attr-defined]  # else memory fills
                    if member.isreg():
                        yield member
                # At a damaged header `tarfile` stops as if it were the end.
                whole = os.pread(file.fileno(), BLOCK, archive.offset) == bytes(BLOCK)
        except tarfile.TarError as error:
            raise OvorError(
                f"{path} is no tar file, or not a whole one ({reason(error)}): copy it anew."
            ) from error
    if not whole:
        raise OvorError(f"{path} is damaged or cut off at byte {archive.offset:,}: copy it anew.")


def _key(member: tarfile.TarInfo) -> tuple[str, str]:
    """Cut a member's name at the first dot of its last part: the sample's key, and the ending."""
    folder, slash, name = member.name.rpartition("/")
    stem, _, ending = name.partition(".")
    return folder + slash + stem if stem else "", ending.lower()


def _samples(shard: Shard, manifest: Manifest) -> Iterator[tuple[int, int, int, float]]:
    """Yield the fields of `SAMPLE` of every sample, in the order of the tar."""
    with shard.path.open("rb") as file:
        for key, found in itertools.groupby(members(shard.path), lambda member: _key(member)[0]):
            if not key or META.match(key):
                continue
            pair = _image_and_label(list(found), key, shard, manifest)
            if pair:
                image, label = pair
                content = os.pread(file.fileno(), label.size, label.offset_data)
                number = _number(content, label.name, shard, manifest)
                # By the image's name, so that a tar of a folder splits as the folder does.
                yield image.offset_data, image.size, number, chance(PurePosixPath(image.name))


def _image_and_label(
    sample: list[tarfile.TarInfo], key: str, shard: Shard, manifest: Manifest
) -> tuple[tarfile.TarInfo, tarfile.TarInfo] | None:
    """Find the image and the label of a sample; None if it has neither."""
    endings = {_key(member)[1]: member for member in sample}
    if len(endings) < len(sample):
        raise OvorError(f"{shard.path} has the sample {key!r} twice: name its samples differently.")
    images = [e for e in endings if manifest.is_image(e)]
    labels = [e for e in manifest.label_endings if e in endings]
    if images and not labels:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has an image but no .{manifest.label_endings[0]} "
            'next to it: add the label, or say where it is by "label" in manifest.json.'
        )
    if labels and not images:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has a label but no image next to it "
            f"({manifest.image or ' '.join(SUFFIXES)}): add the image, or remove the label."
        )
    if len(images) > 1:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has the images {listed(images)}: say which to "
            f'learn in manifest.json, as "image": "{images[0]}".'
        )
    return (endings[images[0]], endings[labels[0]]) if images else None


def _number(content: bytes, name: str, shard: Shard, manifest: Manifest) -> int:
    classes = len(manifest.classes)
    or_name = f"{classes - 1} or the name of a class"
    meant = f"a whole number from 0 to {or_name if classes else f'{LARGEST:,}'}"
    try:
        value = _value(content, manifest)
    except (ValueError, KeyError, TypeError) as error:
        raise OvorError(
            f"The label {name} of {shard.path} cannot be read ({reason(error)}): it must hold "
            f"{meant}."
        ) from error
    number = manifest.positions.get(value, -1) if isinstance(value, str) else value
    if not 0 <= number < (classes or LARGEST + 1):
        raise OvorError(
            f"The label {name} of {shard.path} is {value!r}, but it must be {meant}: "
            'correct the label, or list all names as "classes" in manifest.json.'
        )
    return number


def _value(content: bytes, manifest: Manifest) -> int | str:
    if manifest.label.startswith("json:"):
        field = manifest.label.removeprefix("json:")
        fields = json.loads(content)
        if not isinstance(fields, dict) or type(fields.get(field)) not in (int, str):
            raise ValueError(f"it has no whole number or name {field!r}")
        return fields[field]  # type: ignore[no-any-return]
    text = content.decode().strip()
    return int(text) if NUMBER.fullmatch(text) else text
