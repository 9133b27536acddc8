"""Picture files of the documentation: small, and in docs/figures."""

import io
from pathlib import Path
from typing import Literal

from PIL import Image

FIGURES = Path(__file__).parent / "figures"
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")


def keep(shot: bytes, name: str) -> None:
    """Write a picture with 256 colours, which for pages is a fraction of the size."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    path = FIGURES / f"{name}.png"
    image.save(path, optimize=True)
    if path.stat().st_size >= 150_000:
        raise SystemExit(f"{path} is too large for a document: {path.stat().st_size:,} bytes.")


def side_by_side(shots: list[bytes]) -> bytes:
    """Return pictures of one height in a row, a little apart."""
    images = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    gap = 24
    width = sum(image.width for image in images) + gap * (len(images) - 1)
    row = Image.new("RGB", (width, images[0].height), (127, 127, 127))
    left = 0
    for image in images:
        row.paste(image, (left, 0))
        left += image.width + gap
    file = io.BytesIO()
    row.save(file, "png")
    return file.getvalue()
