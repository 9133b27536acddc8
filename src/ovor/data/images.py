"""Images as people hand them over: files, Pillow images, arrays or tensors, one or many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ovor.data.base import Integers
from ovor.data.folders import at_home, find_images, read_image, reason, to_rgb
from ovor.errors import OvorError

Picture = Any  # str, Path, Image.Image, uint8 array (H, W[, C]) or tensor (C, H, W)


@dataclass(frozen=True, eq=False)
class Pictures:
    """Whatever `to_image` takes, read when it is asked for."""

    items: Sequence[Picture]
    labels: Integers

    def __len__(self) -> int:
        return len(self.items)

    def image(self, index: int) -> Image.Image:
        return to_image(self.items[index])


def to_image(picture: Picture) -> Image.Image:
    """As RGB, upright."""
    if isinstance(picture, str | Path):
        return read_image(at_home(picture))
    if isinstance(picture, Image.Image):
        return from_pillow(picture)
    if hasattr(picture, "detach"):  # a torch tensor: channels first
        return from_pixels(channels_last(picture))
    if isinstance(picture, np.ndarray):
        return from_pixels(picture)
    raise OvorError(
        f"An image cannot be a {type(picture).__name__}: give a path, a Pillow image, a uint8 "
        "array (height, width, channels) or a tensor (channels, height, width)."
    )


def from_pillow(image: Image.Image) -> Image.Image:
    try:
        return to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # opened, but its file is broken
        raise OvorError(
            f"An image in memory cannot be read ({reason(error)}): give another, or leave it out."
        ) from error


def channels_last(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().cpu()
    array = np.asarray(tensor.float() if tensor.is_floating_point() else tensor)
    if array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.dtype.kind != "f":
        return array
    if not array.size or not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
        raise OvorError(
            "A tensor of floats must hold values from 0 to 1, before any normalisation; "
            "give those, or bytes."
        )
    return np.asarray((array * 255).round(), np.uint8)


def from_pixels(array: NDArray[Any]) -> Image.Image:
    if array.dtype != np.uint8:
        raise OvorError(
            f"An array of {array.dtype} says not what is white: give uint8, from 0 to 255."
        )
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels not in (1, 3, 4) or not array.size:
        raise OvorError(
            f"An array of shape {array.shape} is not an image: give (height, width) or (height, "
            "width, channels) with 1, 3 or 4 channels."
        )
    grey = array.reshape(array.shape[:2]) if channels == 1 else array
    return to_rgb(Image.fromarray(np.ascontiguousarray(grey)))


def spread(pictures: Any) -> list[Picture]:
    """One by one: a folder's images, whatever the depth; the rows of an array; the list itself."""
    if isinstance(pictures, str | Path):
        path = at_home(pictures)
        if not path.exists():
            raise OvorError(f"There is no file or folder {path}: check the path.")
        return find_images(path)[0] if path.is_dir() else [path]
    if isinstance(pictures, Image.Image):
        return [pictures]
    dimensions = getattr(pictures, "ndim", None)
    if dimensions in (2, 3) and getattr(pictures, "dtype", None) != np.dtype(object):
        channels = pictures.shape[-1 if isinstance(pictures, np.ndarray) else 0]
        if dimensions == 2 or channels <= 4:
            return [pictures]  # else a stack of grey images
    if not isinstance(pictures, Iterable):
        raise OvorError(
            f"Images cannot be a {type(pictures).__name__}: give a path, a folder, an image or "
            "several of them."
        )
    return list(pictures)
