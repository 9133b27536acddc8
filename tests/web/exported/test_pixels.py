"""What the network sees of an image in the page is what it sees in Python, to the byte."""

import base64
import io
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from ovor.config import Transform
from ovor.data.images import upright_rgb
from ovor.data.transforms import test_view as view_of

from .serving import file_server

DEVICE = Path(str(files("ovor.web"))) / "static"
LIMITS = {"image_bytes": 20_000_000, "pixels": 50_000_000}
VIEW = """async ([content, name, about, limits]) => {
  const { decoded } = await import("/device/decode.js");
  const { viewOf } = await import("/device/view.js");
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  try {
    const view = viewOf(await decoded(new File([bytes], name), name, limits), about);
    let text = "";
    for (const byte of view) text += String.fromCharCode(byte);
    return { view: btoa(text) };
  } catch (error) {
    return { error: error.message };
  }
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with file_server(DEVICE) as address:
        found = browser.new_page(base_url=address)
        found.goto("/icon.svg")
        yield found
        found.close()


def seen(page: Page, content: bytes, name: str = "a.png", **transform: Any) -> Any:
    """Return what the page makes of a file: the bytes of its view, or a sentence."""
    about = {"size": 224, "crop_pct": 1.0, "interpolation": "bicubic", **transform}
    limits = {**LIMITS, **transform.get("limits", {})}
    found = page.evaluate(VIEW, [base64.b64encode(content).decode(), name, about, limits])
    return found.get("error") or np.frombuffer(base64.b64decode(found["view"]), np.uint8)


def wanted(content: bytes, **transform: Any) -> Any:
    own = Transform(**{"size": 224, "crop_pct": 1.0, "interpolation": "bicubic", **transform})
    return np.asarray(view_of(upright_rgb(content), own)).reshape(-1)


def noise(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return pixels that are smooth in places and sharp in others."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 256, shape)
    found[: shape[0] // 2] = found[: shape[0] // 2].cumsum(1) // 7 % 256
    return found.astype(np.uint8)


def saved(image: Image.Image, kind: str = "PNG", **more: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


SHAPES = [(300, 200), (200, 301), (28, 28), (224, 224), (17, 900), (5, 400), (641, 480), (1, 1)]


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_views_of_png_are_the_same_bytes(page: Page, height: int, width: int) -> None:
    content = saved(Image.fromarray(noise(height, width, 3)))
    for transform in (
        {"size": 224},
        {"size": 28, "interpolation": "bilinear"},
        {"size": 96, "crop_pct": 0.9},
        {"size": 61, "crop_pct": 0.875, "interpolation": "bilinear"},
    ):
        assert np.array_equal(seen(page, content, **transform), wanted(content, **transform))


@pytest.mark.parametrize("mode", ["L", "P", "1", "LA", "RGBA"])
def test_other_kinds_of_png(page: Page, mode: str) -> None:
    """Where nothing is partly transparent they are the same; else a step apart at most."""
    colours = Image.fromarray(noise(150, 120, 4), "RGBA")
    content = saved(
        colours.convert("RGB").convert(mode) if mode in "LP1" else colours.convert(mode)
    )
    ours, theirs = seen(page, content), wanted(content)
    apart = abs(ours.astype(int) - theirs).max()
    assert apart == 0 if mode in ("L", "P", "1") else apart <= 2, apart


def test_sixteen_bits_are_their_upper_eight(page: Page) -> None:
    grey = np.random.default_rng(1).integers(0, 65536, (80, 90)).astype(np.uint16)
    content = saved(Image.fromarray(grey))
    assert abs(seen(page, content).astype(int) - wanted(content)).max() <= 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_upright(page: Page, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    smooth = Image.fromarray(noise(12, 9, 3)).resize((180, 240), Image.Resampling.BICUBIC)
    content = saved(smooth, "JPEG", quality=90, exif=exif)
    assert abs(seen(page, content, "a.jpg").astype(int) - wanted(content)).max() <= 3


@pytest.mark.parametrize("kind", ["GIF", "BMP", "WEBP"])
def test_other_files_that_browsers_show(page: Page, kind: str) -> None:
    more = {"lossless": True} if kind == "WEBP" else {}
    image = Image.fromarray(noise(70, 90, 3))
    content = saved(image.convert("P") if kind == "GIF" else image, kind, **more)
    assert np.array_equal(seen(page, content), wanted(content))


def test_what_cannot_be_used_is_said(page: Page) -> None:
    whole = saved(Image.fromarray(noise(60, 60, 3)))
    small = {"limits": {"image_bytes": 500, "pixels": 50_000_000}}
    tiff = saved(Image.fromarray(noise(9, 9, 3)), "TIFF")
    bomb = bytearray(whole)
    bomb[16:24] = (60_000).to_bytes(4) * 2
    many = "has more than the 50,000,000 pixels that are taken here (of a WebP two thirds of them)"
    broken = "cannot be read (it is broken, or cut short): give a whole copy, or leave it out."
    for content, sentence, more in [
        (b"", "a.png is empty: give the whole file.", {}),
        (whole, "a.png is larger than 500 bytes: make it smaller.", small),
        (bytes(bomb), f"a.png {many}: make it smaller.", {}),
        (b"hello", "a.png is not an image: give JPEG, PNG, WebP, GIF or BMP.", {}),
        (b"%PDF-1.7", "a.png is a PDF document: give JPEG, PNG, WebP, GIF or BMP.", {}),
        (b"<svg xmlns=''/>", "a.png is an SVG drawing: give JPEG, PNG, WebP, GIF or BMP.", {}),
        (tiff, "a.png is TIFF: give JPEG, PNG, WebP, GIF or BMP.", {}),
        (whole[:40], f"a.png {broken}", {}),
    ]:
        assert seen(page, content, **more) == sentence
