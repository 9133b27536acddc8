"""Write a Vega-Lite figure as a file, of the kind that the file's name ends in."""

import io
from pathlib import Path
from typing import Any

from PIL import Image

from ovor.errors import OvorError

KINDS = (".png", ".svg", ".html")


def check(path: Path) -> None:
    """Raise an error if there is no such kind of file, before any work is done."""
    if path.suffix.lower() not in KINDS:
        raise OvorError(f"A figure ends in {', '.join(KINDS)}: give {path} one of these endings.")


def save(figure: dict[str, Any], path: Path) -> None:
    """Draw a Vega-Lite specification into a file; none of the kinds needs a network to look at."""
    import vl_convert

    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix.lower():
        case ".png":
            save_png(vl_convert.vegalite_to_png(figure, scale=2), path)
        case ".svg":
            path.write_text(vl_convert.vegalite_to_svg(figure))
        case ".html":
            path.write_text(vl_convert.vegalite_to_html(figure, bundle=True))


def save_png(picture: bytes, path: Path) -> None:
    """Write a PNG with 256 colours, which for plots is a fifth of the size and looks the same."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)
