"""The one decoder: files, bytes, Pillow images, arrays and tensors become upright RGB images.

All that reads an image comes through here, so that a file has the same pixels everywhere, and what
is wrong with it is said in the same sentence.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from ovor.data.base import Images, Integers
from ovor.data.formats import (
    ADDRESS,
    FORMATS,
    HEAD,
    check_is_file,
    kind_of,
    missing,
    reader,
    reason,
    unreadable,
)
from ovor.data.frames import images_in, is_frame
from ovor.data.image_files import find_images
from ovor.data.packed import Packed
from ovor.errors import OvorError, with_article

IN_MEMORY = "in memory"  # what an image without a name is called
BAND = 2**20  # pixels that are put on white at a time
Encoded = Path | bytes  # an image file, or the content of one
# str, Path, bytes, a file that is open, Packed, Image.Image, uint8 array (H, W[, C]) or tensor
# (C, H, W)
Picture = Any


@dataclass(frozen=True)
class Content:
    """What was in a file that somebody opened: read once, as nobody can tell whether it stays."""

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


NAMED = (str, Path, Packed, Content)  # images that say where they are from


@dataclass(frozen=True, eq=False)
class Pictures(Images):
    """Labelled images of any kind that `to_image` takes, converted when they are asked for."""

    items: Any
    """a sequence of them, or one array of many"""
    labels: Integers

    def image(self, index: int) -> Image.Image:
        return to_image(self.items[index])

    def called(self, index: int) -> str:
        """Return what to call an image in a list: its path, or its number where it has none."""
        item = self.items[index]
        return str(item) if isinstance(item, NAMED) else f"image {index}"


def to_image(picture: Picture) -> Image.Image:
    """Return an upright RGB image of a path, a Pillow image, an array or a tensor."""
    if isinstance(picture, str | Path):
        path = at_home(picture)
        return decode(path, path)
    if isinstance(picture, Packed):
        return decode(picture.content(), picture)
    if isinstance(picture, bytes | bytearray | memoryview):
        return decode(bytes(picture), IN_MEMORY)
    if hasattr(picture, "read"):
        picture = settled(picture)
    if isinstance(picture, Content):
        return decode(picture.content, picture)
    if isinstance(picture, Image.Image):
        return _from_pillow(picture)
    if hasattr(picture, "detach"):  # a torch tensor: channels first
        return _from_pixels(_channels_last(picture))
    if isinstance(picture, np.ndarray):
        return _from_pixels(picture)
    raise OvorError(
        f"An image cannot be {with_article(type(picture).__name__)}: give a path, the bytes "
        "of a file, a file that is open, a Pillow image, a uint8 array (height, width, channels) "
        "or a tensor (channels, height, width)."
    )


def settled(picture: Picture) -> Picture:
    """Return what a file holds if the picture is one that is open, else the picture itself."""
    if not hasattr(picture, "read"):
        return picture
    content = picture.read()
    if not isinstance(content, bytes):
        raise OvorError('The file of an image is open as text: open it as bytes, open(path, "rb").')
    name = getattr(picture, "name", None)
    return Content(name if isinstance(name, str) else IN_MEMORY, content)


def called(picture: Picture) -> str:
    """Return what a sentence calls an image: its path, if it has one."""
    return str(picture) if isinstance(picture, NAMED) else "an image in memory"


def decode(source: Encoded, name: object) -> Image.Image:
    """Decode an image that this machine's user chose; its size has Pillow's usual limit.

    `name` is for sentences about the image, and becomes text only there.
    """
    try:
        if isinstance(source, Path):
            check_is_file(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow can mend is no news
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return _of_any_kind(source, name)
    except OvorError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise OvorError(
            f"The image {name} has more than {(Image.MAX_IMAGE_PIXELS or 0) // 10**6} million "
            "pixels, which could fill the memory: make it smaller, or remove it."
        ) from error
    except FileNotFoundError as error:
        if ADDRESS.match(str(name)):
            raise missing(name) from error
        raise OvorError(
            f"The image {name} cannot be read, as there is no such file: check the path."
        ) from error
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise OvorError(
            f"The image {name} cannot be read ({reason(error)}): replace it by a whole copy, or "
            "remove it."
        ) from error


def _of_any_kind(source: Encoded, name: object) -> Image.Image:
    """Decode an image; one that is none of the usual kinds as HEIC or AVIF, where that can be."""
    try:
        return upright_rgb(source)
    except UnidentifiedImageError:
        head = source[:HEAD] if isinstance(source, bytes) else _head(source)
        kind = kind_of(head, getattr(name, "name", ""))
        if kind is None:
            raise
        found = reader(kind)
        if found is None:
            raise unreadable(name, kind) from None
        try:
            return upright_rgb(source, formats=(found,))
        except UnidentifiedImageError:
            raise OvorError(
                f"The image {name} is {kind}, and damaged: replace it by a whole copy, or remove "
                "it."
            ) from None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def upright_rgb(
    source: Encoded,
    check: Callable[[Image.Image], None] | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> Image.Image:
    """Decode an image as a viewer shows it: upright, on white where it is transparent, in RGB.

    `check` sees the image before it is decoded, when its size is known, and may raise. Of a moving
    image it is the first frame. Errors are Pillow's own; `reason` puts them in words.
    """
    file = BytesIO(source) if isinstance(source, bytes) else source
    with Image.open(file, formats=formats) as image:
        if check:
            check(image)
        image.load()  # here, where the caller catches what is broken
        with suppress(Exception):  # the pixels are whole: with a broken EXIF it shows as it lies
            ImageOps.exif_transpose(image, in_place=True)  # else it is copied even if upright
        return to_rgb(image)


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the image in RGB: what is transparent on white, 16 bits by their upper 8."""
    if not all(image.size):
        raise ValueError("it has no pixel")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save it with 8 or 16 bits")
    if not (_is_deep(image) or _is_transparent(image)):
        return image if image.mode == "RGB" else image.convert("RGB")  # convert always copies
    rows = max(1, BAND // image.width)
    if rows >= image.height:
        return _flat(image)
    whole = Image.new("RGB", image.size)
    for top in range(0, image.height, rows):  # each step copies what it is given: here, little
        band = image.crop((0, top, image.width, min(top + rows, image.height)))
        whole.paste(_flat(band), (0, top))
    return whole


def _is_deep(image: Image.Image) -> bool:
    return image.mode.startswith("I")


def _is_transparent(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def _flat(image: Image.Image) -> Image.Image:
    """Return an image of 16 bits, or one that is transparent, in RGB."""
    if _is_deep(image):  # grey; Pillow's own conversion may clip it to white
        high_bytes = np.asarray(image).clip(0, 65535) >> 8
        return Image.fromarray(high_bytes.astype(np.uint8)).convert("RGB")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def _from_pillow(image: Image.Image) -> Image.Image:
    try:
        return to_rgb(ImageOps.exif_transpose(image))  # a copy: the caller's own stays as it is
    except Exception as error:  # opened, but its file is broken
        raise OvorError(
            f"An image in memory cannot be read ({reason(error)}): give another, or leave it out."
        ) from error


def _channels_last(tensor: Any) -> NDArray[Any]:
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


def _from_pixels(array: NDArray[Any]) -> Image.Image:
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


def at_home(path: str | Path) -> Path:
    """Put the home folder for a ~; unlike with `Path.expanduser`, a file may be called ~x.jpg."""
    return Path(os.path.expanduser(path))


def spread(pictures: Any) -> list[Picture]:
    """List single images: of a folder, however deep; of an array, a list, a data frame's column."""
    if isinstance(pictures, str | Path):
        path = at_home(pictures)
        if not path.exists():
            raise missing(path, "file or folder")
        return find_images(path)[0] if path.is_dir() else [path]
    if isinstance(pictures, Image.Image | bytes | bytearray | memoryview) or hasattr(
        pictures, "read"
    ):
        return [settled(pictures)]
    if is_frame(pictures):
        return list(map(settled, images_in(pictures)))
    if isinstance(pictures, Mapping):
        raise OvorError("Images by class are for learning: give the images alone, as a list.")
    dimensions = getattr(pictures, "ndim", None)
    if dimensions in (2, 3) and getattr(pictures, "dtype", None) != np.dtype(object):
        channels = pictures.shape[-1 if isinstance(pictures, np.ndarray) else 0]
        if dimensions == 2 or channels <= 4:
            return [pictures]  # else a stack of grey images
    if not isinstance(pictures, Iterable):
        raise OvorError(
            f"Images cannot be {with_article(type(pictures).__name__)}: give a path, a folder, "
            "an image or several of them."
        )
    return list(map(settled, pictures))
