"""A real browser for the tests of the pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start Chromium; where there is none tests are skipped, except in CI, where they fail."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("There is no Chromium here: install it (apt-get install chromium).")
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
