"""Images that strangers send: kind and size are checked before a pixel is decoded."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from PIL import Image, UnidentifiedImageError

from ovor.data.formats import reason
from ovor.data.images import upright_rgb
from ovor.errors import one_line
from ovor.web.errors import ImageFault, Refused
from ovor.web.settings import Limits
from ovor.web.upload import UploadedImage

T = TypeVar("T")


class UnusableImage(Exception):  # noqa: N818
    """An image that cannot be used, with the status of a request that has no other image."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(one_line(sentence))
        self.status = status


def for_each(
    images: Iterable[UploadedImage], limits: Limits, use: Callable[[Image.Image], T]
) -> list[T | ImageFault]:
    """Return what `use` makes of every image, or what is wrong with it.

    One decoded image is in memory at a time, however many there are.
    """
    found: list[T | ImageFault] = []
    for index, image in enumerate(images):
        try:
            found.append(use(decode(image, limits)))
        except UnusableImage as error:
            found.append(ImageFault(index, image.name, str(error), error.status))
    return found


def decode(upload: UploadedImage, limits: Limits) -> Image.Image:
    """Return the image upright and in RGB; of a moving image the first frame."""
    name, content = upload.name, upload.content
    too_many_pixels = UnusableImage(
        413,
        f"{name} has more than the {limits.pixels:,} pixels that are taken here: make it smaller.",
    )

    def check_pixels(image: Image.Image) -> None:
        if image.width * image.height > limits.pixels:
            raise too_many_pixels

    if upload.size > limits.image_bytes:
        raise UnusableImage(
            413, f"{name} is larger than {limits.image_bytes:,} bytes: make it smaller."
        )
    try:
        if not (len(content) if isinstance(content, bytes) else content.stat().st_size):
            raise UnusableImage(422, f"{name} is empty: send the whole file.")
        return upright_rgb(content, check_pixels)
    except UnusableImage:
        raise
    except Image.DecompressionBombError as error:
        raise too_many_pixels from error
    except UnidentifiedImageError as error:
        raise UnusableImage(
            415, f"{name} is not an image: send JPEG, PNG, WebP, GIF, BMP or TIFF."
        ) from error
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise UnusableImage(
            422,
            f"{name} cannot be read ({reason(error)[:200]}): send a whole copy, or leave it out.",
        ) from error


def none_usable(faults: Sequence[ImageFault]) -> Refused:
    """Refuse a request without a usable image, with the status that the faults share."""
    statuses = {fault.status for fault in faults}
    status = statuses.pop() if len(statuses) == 1 else 422
    sentence = faults[0].error if len(faults) == 1 else "No image can be used: each says why."
    return Refused(status, sentence, images=tuple(faults))
