"""From an image to the network's input: random resized crop and flip, or resize and centre crop.

By Pillow, to the same bits as the torchvision transforms of the released code; what is random is
drawn first, as a value of its own. `transform.size` is a real size here, no longer 0.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ovor.config import Channels, Transform

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 50  # times the shorter side
TRIES = 10  # crops that may stick out of the image before the central one is taken
RESAMPLING = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class View:
    """The crop and flip that chance chose for one training view."""

    box: Box
    """left, upper, right, lower"""
    flipped: bool


def draw_view(transform: Transform, width: int, height: int, rng: np.random.Generator) -> View:
    """Draw a crop of random area and aspect, flipped or not."""
    flipped = rng.random() < transform.flip
    low, high = math.log(transform.ratio[0]), math.log(transform.ratio[1])
    smallest, largest = transform.scale
    for _ in range(TRIES):
        area, aspect, x, y = rng.random(4).tolist()
        area = width * height * (smallest + (largest - smallest) * area)
        aspect = math.exp(low + (high - low) * aspect)
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, upper = int(x * (width - w + 1)), int(y * (height - h + 1))
            return View((left, upper, left + w, upper + h), flipped)
    return View(_central_box(transform.ratio, width, height), flipped)


def _central_box(ratio: tuple[float, float], width: int, height: int) -> Box:
    """Return the largest central crop whose aspect is allowed."""
    w, h = width, height
    if width / height < ratio[0]:
        h = round(w / ratio[0])
    elif width / height > ratio[1]:
        w = round(h * ratio[1])
    left, upper = (width - w) // 2, (height - h) // 2
    return left, upper, left + w, upper + h


def train_view(image: Image.Image, view: View, transform: Transform) -> Image.Image:
    """Cut out the view, scale it to a square, and flip it if it is to be."""
    # Not resize(box=...): it also looks at the pixels around the box.
    size, resample = transform.size, RESAMPLING[transform.interpolation]
    image = image.crop(view.box).resize((size, size), resample)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if view.flipped else image


def test_view(image: Image.Image, transform: Transform) -> Image.Image:
    """Scale the shorter side to size / crop_pct, and cut out the central square."""
    image = middle(image)
    size, shorter = transform.size, min(image.size)
    scaled = int(size / transform.crop_pct)
    width, height = (scaled * side // shorter for side in image.size)
    image = image.resize((width, height), RESAMPLING[transform.interpolation])
    left, upper = round((width - size) / 2), round((height - size) / 2)
    return image.crop((left, upper, left + size, upper + size))


def middle(image: Image.Image) -> Image.Image:
    """Cut a long strip to the part around its centre: all of it, scaled, could fill the memory."""
    width, height = (min(side, LONGEST * min(image.size)) for side in image.size)
    if (width, height) == image.size:
        return image
    left, upper = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, upper, left + width, upper + height))


def normalised(pixels: "Tensor", transform: Transform) -> "Tensor":
    """Turn B, H, W, 3 bytes into B, 3, H, W normalised floats, on the device of the bytes."""
    import torch  # what is exported is predicted without it

    channels_first = pixels.permute(0, 3, 1, 2)
    images = channels_first.to(torch.float32, memory_format=torch.contiguous_format)
    # As tensors: by a plain number CUDA would not divide but multiply, to other last bits.
    largest, mean, std = (
        channels(x).to(pixels.device) for x in (255.0, transform.mean, transform.std)
    )
    return images.div_(largest).sub_(mean).div_(std)


def channels(numbers: Channels) -> "Tensor":
    """Return one number, or one a channel, in a shape that goes with B, 3, H, W."""
    import torch

    return torch.tensor(numbers, dtype=torch.float32).reshape(-1, 1, 1)
