"""A real browser for the tests of the pages, and pictures of what it shows for the documents."""

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FIGURES = Path(__file__).parent.parent / "docs/figures"
for_pictures = pytest.mark.skipif(
    not os.environ.get("OVOR_PICTURES"), reason="OVOR_PICTURES=1 makes them"
)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Chromium; without one tests are skipped, except where they must not be."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("There is no Chromium here: install it (apt-get install chromium).")
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def keep(shot: bytes, name: str) -> None:
    """With 256 colours, which for pages is a fraction of the size and looks the same."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(FIGURES / f"{name}.png", optimize=True)
    assert (FIGURES / f"{name}.png").stat().st_size < 150_000
