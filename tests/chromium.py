"""A real browser for the tests of the pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserType, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def launched(kind: BrowserType, *flags: str) -> Browser:
    """Start Chromium with more of its flags."""
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    return kind.launch(executable_path=chromium, args=["--no-sandbox", *flags])


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start Chromium; where there is none tests are skipped, except in CI, where they fail."""
    if not any(map(shutil.which, NAMES)):
        if os.environ.get("CI"):
            pytest.fail("There is no Chromium here: install it (apt-get install chromium).")
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = launched(playwright.chromium)
        yield browser
        browser.close()
