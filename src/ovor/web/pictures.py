"""Images that strangers send: looked at before they are decoded, and only in the kinds we know."""

from pathlib import Path

from PIL import Image, UnidentifiedImageError

from ovor.data.images import reason, upright_rgb
from ovor.errors import one_line
from ovor.web.settings import Limits

SHOWN = 100  # characters of a client's name for a file


class Unusable(Exception):  # noqa: N818
    """An image that cannot be used, and the status of a request that has no other."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(one_line(sentence))
        self.status = status


def decoded(content: bytes | Path, name: str, limits: Limits) -> Image.Image:
    """Upright and in RGB; of a moving image the first frame."""
    if not (len(content) if isinstance(content, bytes) else content.stat().st_size):
        raise Unusable(422, f"{name} is empty: send the whole file.")
    try:
        return upright_rgb(content, lambda image: check_pixels(image, name, limits))
    except Unusable:
        raise
    except Image.DecompressionBombError as error:
        raise too_many_pixels(name, limits) from error
    except UnidentifiedImageError as error:
        raise Unusable(
            415, f"{name} is not an image: send JPEG, PNG, WebP, GIF, BMP or TIFF."
        ) from error
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise Unusable(
            422,
            f"{name} cannot be read ({reason(error)[:200]}): send a whole copy, or leave it out.",
        ) from error


def check_pixels(image: Image.Image, name: str, limits: Limits) -> None:
    if image.width * image.height > limits.pixels:
        raise too_many_pixels(name, limits)


def too_many_pixels(name: str, limits: Limits) -> Unusable:
    return Unusable(
        413,
        f"{name} has more than the {limits.pixels:,} pixels that are taken here: make it smaller.",
    )


def shown(name: str, index: int) -> str:
    """A client's name for a file, fit for a line of an answer; it never names one of ours."""
    name = one_line(name)
    if len(name) > SHOWN:
        name = name[:SHOWN] + "..."
    return name or f"image {index + 1}"
