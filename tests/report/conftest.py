"""Finished tiny runs with and without VOR, and a page of them in a browser."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ovor.config import Run
from ovor.experiments.folder import Folder
from ovor.experiments.single import execute


@pytest.fixture(scope="session")
def finished(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OnePrompt without and with VOR, and SimpleCIL, two seeds each."""
    root = tmp_path_factory.mktemp("finished")
    runs = {
        "plain": replace(tiny_run, vor=None),
        "vor": tiny_run,
        "simplecil": replace(tiny_run, method="simplecil", vor=None),
    }
    for name, run in runs.items():
        for seed in (0, 1):
            execute(replace(run, seed=seed), Folder(root / f"{name}-{seed}"))
    return root


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have Chromium: apt-get install chromium")
        pytest.skip("There is no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
