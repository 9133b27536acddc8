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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ovor.data.base import Integers, Mask, chance
from ovor.data.cache import written
from ovor.data.class_names import listed
from ovor.data.images import SUFFIXES, at_home, decode, reason
from ovor.errors import OvorError

FOLDER = "~/.cache/ovor/shards"
SCHEMA = 1  # to be raised when the same shard gives another index
SAMPLE = np.dtype(
    [("offset", np.int64), ("size", np.int64), ("label", np.int32), ("chance", np.float64)]
)
Samples = NDArray[np.void]  # of SAMPLE, in the order of the tar
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


@dataclass(frozen=True)
class Rule:
    """Which members of a sample are its image and its label, and what a label means."""

    label: str = "cls"
    image: str = ""
    classes: tuple[str, ...] = ()

    @cached_property
    def positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.classes)}


@dataclass(frozen=True, eq=False)
class TarImages:
    """Labelled images of some shards, each of which is opened by the process that reads it."""

    shards: tuple[Shard, ...]
    places: NDArray[np.int32]
    """of each image, the position of its shard"""
    offsets: Integers
    sizes: Integers
    labels: Integers

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, mask: Mask) -> "TarImages":
        return TarImages(
            self.shards,
            self.places[mask],
            self.offsets[mask],
            self.sizes[mask],
            self.labels[mask],
        )

    def image(self, index: int) -> Image.Image:
        member = Member(self.shards[self.places[index]], int(self.offsets[index]))
        return decode(self.origin(index), member)

    def origin(self, index: int) -> bytes:
        """Read an image's file out of the tar; at its place, without seeking, for threads' sake."""
        shard = self.shards[self.places[index]]
        file = _opened(shard)
        stat = os.fstat(file.fileno())
        if (stat.st_size, stat.st_mtime_ns) != (shard.size, shard.modified):
            raise OvorError(
                f"{shard.path} changed during the run: start the run anew, and leave its shards "
                "alone meanwhile."
            )
        return os.pread(file.fileno(), int(self.sizes[index]), int(self.offsets[index]))


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


def tar_images(parts: Sequence[tuple[Shard, Samples]], labels: Integers) -> TarImages:
    """Join the samples of the shards, one shard after the other; `labels` go with them."""
    counts = [len(samples) for _, samples in parts]
    return TarImages(
        tuple(shard for shard, _ in parts),
        np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        np.concatenate([samples["offset"] for _, samples in parts]),
        np.concatenate([samples["size"] for _, samples in parts]),
        labels,
    )


# --- the index


def stamped(path: Path) -> Shard:
    stat = path.stat()
    return Shard(path, stat.st_size, stat.st_mtime_ns)


def kept_index(shard: Shard, rule: Rule) -> Samples | None:
    """Read the index from disk; None if it is missing, damaged, or older than the shard."""
    try:
        with np.load(_place(shard, rule)) as arrays:
            stamp, samples = arrays["stamp"], arrays["samples"]
    except Exception:  # damage shows in the zip, its checksum, numpy's header or a missing array
        return None
    fits = samples.dtype == SAMPLE and stamp.tolist() == _stamp(shard)
    return samples if fits else None


def make_index(shard: Shard, rule: Rule) -> Samples:
    """Make the index of a shard, and keep it on disk for the next run."""
    samples = np.fromiter(_samples(shard, rule), SAMPLE)
    # Without it the next run takes longer, no more.
    with contextlib.suppress(OSError), written(_place(shard, rule)) as file:
        np.savez(file, stamp=np.array(_stamp(shard)), samples=samples)
    return samples


def _place(shard: Shard, rule: Rule) -> Path:
    said = json.dumps([str(shard.path.absolute()), rule.label, rule.image, rule.classes])
    return at_home(FOLDER) / f"{hashlib.sha256(said.encode()).hexdigest()}.npz"


def _stamp(shard: Shard) -> list[int]:
    return [SCHEMA, shard.size, shard.modified]


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


def _samples(shard: Shard, rule: Rule) -> Iterator[tuple[int, int, int, float]]:
    """Yield the fields of `SAMPLE` of every sample, in the order of the tar."""
    with shard.path.open("rb") as file:
        for key, found in itertools.groupby(members(shard.path), lambda member: _key(member)[0]):
            if not key or META.match(key):
                continue
            sample = list(found)
            image, label = _image_and_label(sample, key, shard, rule)
            if image and label:
                content = os.pread(file.fileno(), label.size, label.offset_data)
                number = _number(content, label.name, shard, rule)
                # By the image's name, so that a tar of a folder splits as the folder does.
                yield image.offset_data, image.size, number, chance(PurePosixPath(image.name))


def _image_and_label(
    sample: list[tarfile.TarInfo], key: str, shard: Shard, rule: Rule
) -> tuple[tarfile.TarInfo | None, tarfile.TarInfo | None]:
    """Find the image and the label of a sample; neither if it is something else."""
    endings = {_key(member)[1]: member for member in sample}
    if len(endings) < len(sample):
        raise OvorError(f"{shard.path} has the sample {key!r} twice: name its samples differently.")
    images = [e for e in endings if _is_image(e, rule)]
    labels = [e for e in _label_endings(rule) if e in endings]
    if images and not labels:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has an image but no .{_label_endings(rule)[0]} "
            'next to it: add the label, or say where it is by "label" in manifest.json.'
        )
    if labels and not images:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has a label but no image next to it "
            f"({rule.image or ' '.join(SUFFIXES)}): add the image, or remove the label."
        )
    if len(images) > 1:
        raise OvorError(
            f"The sample {key!r} of {shard.path} has the images {listed(images)}: say which to "
            f'learn in manifest.json, as "image": "{images[0]}".'
        )
    return (endings[images[0]], endings[labels[0]]) if images else (None, None)


def _is_image(ending: str, rule: Rule) -> bool:
    return ending == rule.image.lower() if rule.image else f".{ending}".endswith(SUFFIXES)


def _label_endings(rule: Rule) -> tuple[str, ...]:
    return ("json",) if rule.label.startswith("json:") else ("cls", "cls.txt")


def _number(content: bytes, name: str, shard: Shard, rule: Rule) -> int:
    try:
        value = _value(content, rule)
    except (ValueError, KeyError, TypeError) as error:
        raise OvorError(
            f"The label {name} of {shard.path} cannot be read ({reason(error)}): it must hold "
            f"{_meant(rule)}."
        ) from error
    number = rule.positions.get(value, -1) if isinstance(value, str) else value
    if not 0 <= number < (len(rule.classes) or LARGEST + 1):
        raise OvorError(
            f"The label {name} of {shard.path} is {value!r}, but it must be {_meant(rule)}: "
            'correct the label, or list all names as "classes" in manifest.json.'
        )
    return number


def _meant(rule: Rule) -> str:
    if not rule.classes:
        return f"a whole number from 0 to {LARGEST:,}"
    return f"a whole number from 0 to {len(rule.classes) - 1} or the name of a class"


def _value(content: bytes, rule: Rule) -> int | str:
    if rule.label.startswith("json:"):
        field = rule.label.removeprefix("json:")
        fields = json.loads(content)
        if not isinstance(fields, dict) or type(fields.get(field)) not in (int, str):
            raise ValueError(f"it has no whole number or name {field!r}")
        return fields[field]  # type: ignore[no-any-return]
    text = content.decode().strip()
    return int(text) if NUMBER.fullmatch(text) else text
