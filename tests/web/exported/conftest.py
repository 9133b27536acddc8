"""Exported pages, made once for each encoder, and Chromium on a plain file server of one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from ovor import Classifier
from ovor.classifier.new import new_classifier
from ovor.errors import OvorError
from ovor.web import exported_page
from ovor.web.exported_page import export_page
from ovor.web.runtime_files import runtime_files

from ..browser import Watch
from .serving import file_server

READY = 90_000  # milliseconds until all files are there, on a busy machine


def exported(folder: Path, backbone: str) -> Path:
    """Export an empty page; where its runtime is not to be had tests are skipped, but not in CI."""
    try:
        runtime_files()
    except OvorError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    export_page(new_classifier(backbone, device="cpu"), None, folder)
    return folder


@pytest.fixture(scope="session")
def drawings_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the embedded encoder, which knows drawings."""
    return exported(tmp_path_factory.mktemp("drawings-page") / "garden", "embedded")


@pytest.fixture(scope="session")
def photos_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the encoder for photographs."""
    return exported(tmp_path_factory.mktemp("photos-page") / "album", "photos")


Export = Callable[[Path, Path, Path | None], Path]


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Export:
    """Return a function that exports a model with a page's encoder, which takes long to make."""

    def made(page: Path, folder: Path, model: Path | None) -> Path:
        encoder = (page / "encoder.onnx").read_bytes()
        features = np.frombuffer((page / "encoder.check").read_bytes(), np.float32)
        monkeypatch.setattr(exported_page, "export_encoder", lambda model: (encoder, features))
        name = "embedded" if "garden" in page.name else "photos"
        own = Classifier.load(model, device="cpu") if model else new_classifier(name, device="cpu")
        export_page(own, model, folder)
        return folder

    return made


@contextmanager
def visited(
    browser: Browser, folder: Path, hold: list[Route] | None = None, **more: Any
) -> Iterator[Page]:
    """Open the page of a folder; nothing may complain, break its policy, or ask another host.

    With `hold` its engine does not come: the requests for it wait in the list.
    """
    size = more.pop("viewport", {"width": 1100, "height": 900})
    with file_server(folder) as address:
        context = browser.new_context(
            base_url=address, viewport=size, accept_downloads=True, **more
        )
        page = context.new_page()
        watch = page.watch = Watch(page, address)
        if hold is not None:
            context.route("**/engine.wasm", lambda route: hold.append(route))
        page.goto("/")
        yield page
        context.close()
        watch.check()


def ready(page: Page) -> None:
    """Wait until the page has all that it needs, also without a network."""
    expect(page.locator("#device-offline")).to_have_text(
        "It works without a network from now on.", timeout=READY
    )
