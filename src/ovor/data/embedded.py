"""The embedded drawings: Quick, Draw! by Google, 28 x 28, white ink on black.

They stand in for the paper's data sets where nothing can be downloaded; see assets/NOTICE.md.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ovor.data.base import Dataset
from ovor.data.images import Pictures
from ovor.errors import OvorError

TRAINING = 80  # drawings per class; the other 20 are for testing


def quickdraw() -> Dataset:
    """Load the 100 classes of the benchmark."""
    return _load("quickdraw", "benchmark")


def quickdraw_dev() -> Dataset:
    """Load 45 other classes, to choose settings on without touching the benchmark."""
    return _load("quickdraw-dev", "development")


def _load(name: str, part: str) -> Dataset:
    with (files("ovor") / "assets" / "drawings.npz").open("rb") as file, np.load(file) as arrays:
        pixels = arrays[part]  # C, 100, 28, 28
        class_names = tuple(arrays[f"{part}_names"].tolist())
    return Dataset(name, class_names, _flat(pixels[:, :TRAINING]), _flat(pixels[:, TRAINING:]))


def _flat(pixels: NDArray[np.uint8]) -> Pictures:
    classes, each = pixels.shape[:2]
    return Pictures(pixels.reshape(-1, *pixels.shape[2:]), np.repeat(np.arange(classes), each))


def write_drawings(
    drawings: Dataset, folder: Path, classes: Sequence[str], each: int, part: str
) -> dict[str, int]:
    """Write the first `each` drawings of the classes as PNG files; return how many of each."""
    names = drawings.class_names
    strange = [name for name in classes if name not in names]
    if strange or not classes:
        said = f"There is no drawing of {strange[0]!r}" if strange else "No class is named"
        raise OvorError(f"{said}: choose from {', '.join(names)}.")
    images = drawings.train if part == "train" else drawings.test
    written = {}
    for name in classes:
        own = np.flatnonzero(images.labels == names.index(name))[:each]
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, index in enumerate(own, 1):
            images.item(int(index)).save(folder / name / f"{part}-{number:02}.png")
        written[name] = len(own)
    return written
