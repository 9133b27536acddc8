"""Where every sample of a tar shard lies, and its label: one pass over the headers, kept on disk.

With it a shard is read in any order without being unpacked, so that nothing else in ovor needs to
know of shards. A sample is what WebDataset calls one: neighbours whose names agree up to the first
dot of the last part. Its number of bytes in memory is that of `SAMPLE`, whatever its name.
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
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ovor.data.cache import written
from ovor.data.folders import SUFFIXES, at_home, chance, listed, reason
from ovor.errors import OvorError

FOLDER = "~/.cache/ovor/shards"
SCHEMA = 1  # to be raised when the same shard gives another index
SAMPLE = np.dtype(
    [("offset", np.int64), ("size", np.int64), ("label", np.int32), ("chance", np.float64)]
)
Samples = NDArray[np.void]  # of SAMPLE, in the order of the tar
MOST = 2**31 - 1  # of a label
BLOCK = 512  # a tar consists of these
COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # gzip, bzip2, xz, zstd
NUMBER = re.compile(r"-?[0-9]+")
META = re.compile(r"__[^/]*__($|/)")  # what WebDataset leaves out too


@dataclass(frozen=True)
class Shard:
    """A file as it was when the run began."""

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


def stamped(path: Path) -> Shard:
    stat = path.stat()
    return Shard(path, stat.st_size, stat.st_mtime_ns)


def kept_index(shard: Shard, rule: Rule) -> Samples | None:
    """None if there is none yet, if the shard has changed since, or if the file is damaged."""
    try:
        with np.load(_place(shard, rule)) as arrays:
            stamp, samples = arrays["stamp"], arrays["samples"]
    except Exception:  # damage shows in the zip, its checksum, numpy's header or a missing array
        return None
    fits = samples.dtype == SAMPLE and stamp.tolist() == _stamp(shard)
    return samples if fits else None


def make_index(shard: Shard, rule: Rule) -> Samples:
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
    """The regular files of a tar; nothing of their content is read."""
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
    """The name up to the first dot of its last part; and the ending after it."""
    folder, slash, name = member.name.rpartition("/")
    stem, _, ending = name.partition(".")
    return folder + slash + stem if stem else "", ending.lower()


def _samples(shard: Shard, rule: Rule) -> Iterator[tuple[int, int, int, float]]:
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
    """Both, or neither: other files are of no concern."""
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
    if not 0 <= number < (len(rule.classes) or MOST + 1):
        raise OvorError(
            f"The label {name} of {shard.path} is {value!r}, but it must be {_meant(rule)}: "
            'correct the label, or list all names as "classes" in manifest.json.'
        )
    return number


def _meant(rule: Rule) -> str:
    if not rule.classes:
        return f"a whole number from 0 to {MOST:,}"
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
