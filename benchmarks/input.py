"""Images a second on one core: the training loader on JPEGs of 256 pixels, and plain Pillow.

A GPU that takes 1,500 images a second is kept busy by 8 cores if each makes 188. Seconds are those
the processor spent on us, so that other work does not count as ours; as they still depend on the
machine, Pillow's own figure of the same rounds stands beside.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.harness import Row, Seconds, interleave, ratios
from ovor.config import Transform
from ovor.data.base import Items
from ovor.data.cache import cached
from ovor.data.folders import folder
from ovor.data.loader import train_batches
from ovor.data.transforms import draw_view, normalised

TRANSFORM = Transform(size=224)
SHAPES = ((341, 256), (256, 341), (256, 256))  # width, height
GRAINS = ((4, 60), (12, 35), (40, 18), (110, 12))  # waves across the image, and their strength
PER_CORE = 1500 / 8


def measure(quick: bool) -> Iterator[Row]:
    count, rounds = (48, 5) if quick else (128, 15)
    with TemporaryDirectory() as name, one_thread():
        root = Path(name)
        paths = photographs(root, count)
        dataset = folder(str(root / "photos"))
        from_cache = cached(dataset, 10**9, str(root / "cache"))
        variants: dict[str, Callable[[], object]] = {
            "pillow": partial(decoded, paths),
            "loader": partial(loaded, dataset.train),
            "cache": partial(loaded, from_cache.train),  # filled by the round that does not count
            "floats": partial(loaded, dataset.train, floats),
            "released": partial(as_released, paths),
        }
        seconds = interleave(variants, rounds, time.process_time)
    views, kept = "views of 256-px JPEGs by a core", "views of decoded images by a core"
    yield Row(views, "", speed(seconds, "loader", count), "images/s", at_least=PER_CORE)
    yield Row(kept, "", speed(seconds, "cache", count), "images/s", at_least=PER_CORE)
    yield Row("Pillow's decoding by a core", "", speed(seconds, "pillow", count), "images/s")
    yield Row(views, "Pillow's decoding", ratios(seconds, "pillow", "loader"))
    yield Row(kept, "Pillow's decoding", ratios(seconds, "pillow", "cache"))
    released = ratios(seconds, "released", "floats")
    yield Row(f"{views}, as floats", "image by image, as released", released, at_least=1)


def speed(seconds: Seconds, name: str, images: int) -> tuple[float, ...]:
    return tuple(images / x for x in seconds[name])


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def photographs(root: Path, count: int) -> list[Path]:
    """About 30 KB each, as photographs of this size and quality have."""
    paths = []
    for number in range(count):
        path = root / "photos" / "train" / "class" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = photograph(np.random.default_rng(number), *SHAPES[number % len(SHAPES)])
        image.save(path, quality=90)
        paths.append(path)
    (root / "photos" / "test" / "class").mkdir(parents=True)
    Image.new("RGB", (256, 256)).save(root / "photos" / "test" / "class" / "0.jpg")
    return paths


def photograph(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    """Soft shapes, texture and a sensor's noise."""
    pixels = 128 + 4 * rng.standard_normal((height, width, 1)) * np.ones(3)
    for side, strength in GRAINS:
        for channel in range(3):
            field = Image.fromarray(rng.standard_normal((side, side)).astype(np.float32))
            smooth = field.resize((width, height), Image.Resampling.BICUBIC)
            pixels[..., channel] += strength * np.asarray(smooth)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def decoded(paths: list[Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            image.convert("RGB")


def floats(pixels: Tensor) -> Tensor:
    return normalised(pixels, TRANSFORM)


def as_bytes(pixels: Tensor) -> Tensor:
    return pixels


def loaded(images: Items, then: Callable[[Tensor], Tensor] = as_bytes) -> None:
    for pixels, _ in train_batches(
        images,
        np.arange(len(images)),
        images.labels,
        TRANSFORM,
        seed=0,
        task=0,
        epoch=0,
        batch_size=64,
        workers=0,
    ):
        then(pixels)


def as_released(paths: list[Path]) -> None:
    """Image by image: file, array, image, view, float tensor; then a stack of those."""
    rng = np.random.default_rng(0)
    for start in range(0, len(paths), 64):
        torch.stack([released_view(path, rng) for path in paths[start : start + 64]])


def released_view(path: Path, rng: np.random.Generator) -> Tensor:
    with Image.open(path) as file:
        image = file.convert("RGB")
    width, height = image.size
    array = np.frombuffer(image.tobytes(), np.uint8).reshape(height, width, 3)
    view = draw_view(TRANSFORM, width, height, rng)
    image = Image.fromarray(array).crop(view.box).resize((224, 224), Image.Resampling.BILINEAR)
    if view.flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
    return tensor.sub_(torch.zeros(3, 1, 1)).div_(torch.ones(3, 1, 1))
