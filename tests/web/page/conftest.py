"""The page in Chromium, with a backend of the test's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page

from drawings import draw

from .stub import opened


class Open(Protocol):
    def __call__(self, size: dict[str, int] = ..., view: str = ..., **stub: Any) -> Page: ...


@pytest.fixture
def show(browser: Browser) -> Iterator[Open]:
    """Return a function that opens the page; nothing may complain until the test has ended."""
    pages: list[Page] = []

    def new(*args: Any, **stub: Any) -> Page:
        pages.append(opened(browser, *args, **stub))
        return pages[-1]

    yield new
    for page in pages:
        page.close()
        page.watch.check()


@pytest.fixture(scope="session")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of drawings; the stub answers without looking at them."""
    return draw(tmp_path_factory.mktemp("drawings"), ["fish", "owl"], 3)
