"""One page for all tests of the memory on the device."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from .page import Device


@pytest.fixture(scope="module")
def device(browser: Browser) -> Iterator[Device]:
    """Return the modules; the page may complain of nothing, and ask nobody else."""
    found = Device(browser)
    yield found
    found.page.close()
    found.watch.check()
