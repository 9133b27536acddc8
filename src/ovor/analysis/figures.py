"""Figures as files: which kinds there are.

Altair takes a while to import, so only modules that draw import it at the top.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from ovor.errors import OvorError

if TYPE_CHECKING:
    import altair as alt

KINDS = (".png", ".svg", ".html")


def check(path: Path) -> None:
    """To be asked before any work is done."""
    if path.suffix.lower() not in KINDS:
        raise OvorError(f"A figure ends in {', '.join(KINDS)}: give {path} one of these endings.")


def save(chart: "alt.TopLevelMixin", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix.lower():
        case ".png":
            save_png(chart, path)
        case ".svg":
            chart.save(path, format="svg")
        case ".html":
            chart.save(path, format="html", inline=True)  # no network needed to look at it


def save_png(chart: "alt.TopLevelMixin", path: Path) -> None:
    """With 256 colours, which for plots is a fifth of the size and looks the same."""
    file = io.BytesIO()
    chart.save(file, format="png", scale_factor=2)
    image = Image.open(file).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(path, format="PNG", optimize=True)
