"""Exported pages, made once each: empty ones of both encoders."""

import os
from pathlib import Path

import pytest

from ovor.classifier.new import new_classifier
from ovor.errors import OvorError
from ovor.web.exported_page import export_page
from ovor.web.runtime_files import runtime_files


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
