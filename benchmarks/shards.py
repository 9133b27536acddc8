"""The same JPEGs as files, in tar shards and in parquet; and the index of many tiny samples.

On one core, as in `benchmarks.input`. The files are in the system's cache: what a disk or a network
adds for each file opened, which shards are made to avoid, does not show here.
"""

import io
import tarfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from PIL import Image

from benchmarks.harness import Row, Seconds, interleave, ratios
from benchmarks.input import loaded, one_thread, photographs, speed
from ovor.data import tar_images
from ovor.data.base import Images
from ovor.data.folders import folder
from ovor.data.hf import hugging_face
from ovor.data.shards import shards

SAMPLES, SHARDS, CLASSES = 200_000, 4, 100


def measure(quick: bool) -> Iterator[Row]:
    with TemporaryDirectory() as name, patch.object(tar_images, "FOLDER", f"{name}/index"):
        yield from reading(Path(name), *((48, 5) if quick else (128, 15)))
        yield from indexing(Path(name) / "tiny", SAMPLES // (10 if quick else 1))


def reading(root: Path, count: int, rounds: int) -> Iterator[Row]:
    paths = photographs(root, count)
    test = [root / "photos" / "test" / "class" / "0.jpg"]
    (root / "parquet").mkdir()
    for part, own in (("train", paths), ("test", test)):
        write_tar(root / f"{part}.tar", own)
        write_parquet(root / "parquet" / f"{part}.parquet", own, root / "hf")
    found: dict[str, Any] = {
        "files": folder(str(root / "photos")).train,
        "shards": shards(f"{root}/*.tar").train,
        "parquet": hugging_face(str(root / "parquet")).train,
    }
    views: dict[str, Callable[[], object]] = {k: partial(loaded, v) for k, v in found.items()}
    raw: dict[str, Callable[[], object]] = {k: partial(contents, v) for k, v in found.items()}
    raw["files"] = lambda: [path.read_bytes() for path in paths]
    with one_thread():
        seconds = interleave(views, rounds, time.process_time)
        reads = interleave(raw, rounds, time.process_time)
    yield from rows("views", seconds, count)
    yield from rows("bytes alone", reads, count)


def rows(what: str, seconds: Seconds, count: int) -> Iterator[Row]:
    for name in seconds:
        yield Row(f"{what} from {name} by a core", "", speed(seconds, name, count), "images/s")
    for name in ("shards", "parquet"):
        yield Row(f"{what} from {name}", "files", ratios(seconds, "files", name))


def contents(images: Images) -> None:
    for index in range(len(images)):
        images.origin(index)


def write_tar(path: Path, images: list[Path]) -> None:
    with tarfile.open(path, "w") as archive:
        for image in images:
            add(archive, image.name, image.read_bytes())
            add(archive, f"{image.stem}.cls", b"0")


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_parquet(path: Path, images: list[Path], cache: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.config.HF_DATASETS_CACHE = cache  # where they become arrow when they are loaded
    rows = {"image": [{"bytes": image.read_bytes(), "path": None} for image in images]}
    kinds = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    labels = {"label": [0] * len(images)}
    datasets.Dataset.from_dict({**rows, **labels}, features=kinds).to_parquet(path)


def indexing(root: Path, samples: int) -> Iterator[Row]:
    root.mkdir()
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "png")
    for number in range(SHARDS):
        with tarfile.open(root / f"{number}.tar", "w") as archive:
            for sample in range(samples // SHARDS):
                add(archive, f"{number}-{sample:07}.png", file.getvalue())
                add(archive, f"{number}-{sample:07}.cls", str(sample % CLASSES).encode())
    what = f"index of {samples:,} samples"
    start = time.process_time()
    shards(str(root))
    made = time.process_time()
    yield Row(what, "", (made - start,), "s by a core")
    shards(str(root))
    yield Row(f"{what}, the next time", "", (time.process_time() - made,), "s by a core")
    with patch.object(tar_images, "FOLDER", str(root / "anew")):
        bytes_a_sample = peak(partial(shards, str(root / "0.tar"))) / (samples // SHARDS)
    yield Row("peak memory of making an index", "", (bytes_a_sample,), "bytes a sample")


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most
