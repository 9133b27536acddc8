"""Images that strangers send: kind, size and cost are checked before a pixel is decoded.

This runs in a decoder's process (`ovor.web.decoder_process`), never in the server's own.
"""

import re

from PIL import Image, UnidentifiedImageError

from ovor.data.formats import HEAD, kind_of, reason
from ovor.data.images import upright_rgb
from ovor.errors import one_line
from ovor.web.settings import Limits

# Measured: what a pixel takes at the worst moment, with all copies (docs/serving.md).
BYTES_PER_PIXEL = 13
WEBP_COUNTS = 1.5  # its decoder keeps two more copies, so that a pixel counts for more
MOST_SCANS = 100  # of a JPEG: each goes through all pixels again; those that people make have 10
LIGHT_SCANS = 20
LIGHT_PIXELS = 3_000_000
LIGHT_BYTES = 1_000_000
# In a scan each 0xFF is followed by 0, or by a restart mark; all else begins a segment.
SEGMENT = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
START_OF_SCAN, END_OF_IMAGE = 0xDA, 0xD9


class UnusableImage(Exception):  # noqa: N818
    """An image that cannot be used, with the status of a request that has no other image."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(one_line(sentence))
        self.status = status


class HeavyImage(Exception):  # noqa: N818
    """An image that takes too long for a decoder of light ones."""


def decode(name: str, content: bytes, limits: Limits, light: bool) -> Image.Image:
    """Return the image upright and in RGB; of a moving image the first frame.

    A decoder of light images raises HeavyImage at what may take long, and leaves it to another.
    """

    def check(image: Image.Image) -> None:
        if counted_pixels(image) > limits.pixels:
            raise too_many_pixels(name, limits)
        scans = count_scans(content) if image.format in ("JPEG", "MPO") else 1
        if scans > MOST_SCANS:
            raise UnusableImage(
                422, f"{name} is stored in more than {MOST_SCANS} passes: save it anew as JPEG."
            )
        if light and (image.width * image.height > LIGHT_PIXELS or scans > LIGHT_SCANS):
            raise HeavyImage

    try:
        return upright_rgb(content, check)
    except (UnusableImage, HeavyImage):
        raise
    except Image.DecompressionBombError as error:
        raise too_many_pixels(name, limits) from error
    except MemoryError as error:
        raise UnusableImage(
            413, f"{name} takes more memory than an image is given here: make it smaller."
        ) from error
    except UnidentifiedImageError as error:
        kind = kind_of(content[:HEAD], name) or "not an image"
        raise UnusableImage(
            415, f"{name} is {kind}: send JPEG, PNG, WebP, GIF, BMP or TIFF."
        ) from error
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise unreadable(name, reason(error)[:200]) from error


def wrong_size(name: str, size: int, limits: Limits) -> UnusableImage | None:
    """Say what is wrong with a file by the bytes that were sent of it, if anything is."""
    if size > limits.image_bytes:
        return UnusableImage(
            413, f"{name} is larger than {limits.image_bytes:,} bytes: make it smaller."
        )
    return None if size else UnusableImage(422, f"{name} is empty: send the whole file.")


def counted_pixels(image: Image.Image) -> float:
    return image.width * image.height * (WEBP_COUNTS if image.format == "WEBP" else 1)


def count_scans(content: bytes) -> int:
    """Count the scans of a JPEG by its segments, without decoding one; stop beyond the most."""
    scans, place = 0, 2
    while scans <= MOST_SCANS and (found := SEGMENT.search(content, place)):
        kind, place = found[1][0], found.end()
        if kind == END_OF_IMAGE:
            break
        scans += kind == START_OF_SCAN
        place += int.from_bytes(content[place : place + 2])  # such as a thumbnail's own scans
    return scans


def too_many_pixels(name: str, limits: Limits) -> UnusableImage:
    return UnusableImage(
        413,
        f"{name} has more than the {limits.pixels:,} pixels that are taken here (of a WebP two "
        "thirds of them): make it smaller.",
    )


def unreadable(name: str, why: str) -> UnusableImage:
    return UnusableImage(422, f"{name} cannot be read ({why}): send a whole copy, or leave it out.")
