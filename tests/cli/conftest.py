"""A folder of its own for every test, with what its module prepared once."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def world(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the module's `whole` and be in it; what is written at home stays in the test too."""
    shutil.copytree(whole, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "world"
