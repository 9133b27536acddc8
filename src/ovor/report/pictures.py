"""Small copies of images, inside the page: a page loads nothing, and may be mailed."""

import base64
import io
from functools import lru_cache

from PIL import Image

from ovor.data import Dataset, load_dataset
from ovor.errors import OvorError
from ovor.experiments.mistakes import digest
from ovor.report.classes import Example

SIDE = 72  # pixels at most


def thumbnail(image: Image.Image) -> str:
    """Return a small copy as a data URI: a PNG where that is the smaller one, as of a drawing."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    found = {}
    for kind in ("png", "jpeg"):
        content = io.BytesIO()
        small.save(content, kind, optimize=True)
        found[kind] = content.getvalue()
    kind = min(found, key=lambda kind: len(found[kind]))
    return f"data:image/{kind};base64,{base64.b64encode(found[kind]).decode()}"


def picture_of(example: Example) -> str | None:
    """Return a small copy of a test image, or None where that very image is no longer there."""
    data = dataset(example.data)
    if data is None or not 0 <= example.index < len(data.test):
        return None
    try:
        image = data.test.item(example.index)
    except (OvorError, OSError):
        return None
    return thumbnail(image) if digest(image) == example.digest else None


@lru_cache(4)
def dataset(name: str) -> Dataset | None:
    """Load a data set, if it is there."""
    try:
        return load_dataset(name)
    except OvorError:
        return None
