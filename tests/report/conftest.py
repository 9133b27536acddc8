"""Finished tiny runs with and without VOR, and the report on them."""

from dataclasses import replace
from pathlib import Path

import pytest

from ovor.config import Run
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute
from ovor.report import make


@pytest.fixture(scope="session")
def finished(tiny_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OnePrompt without and with VOR, and SimpleCIL, two seeds each."""
    root = tmp_path_factory.mktemp("finished")
    runs = {
        "oneprompt": replace(tiny_run, vor=None),
        "oneprompt+vor": tiny_run,
        "simplecil": replace(tiny_run, method="simplecil", vor=None),
    }
    for name, run in runs.items():
        for seed in (0, 1):
            execute(replace(run, seed=seed), Folder(root / f"{name}-{seed}"), diagnostics=True)
    return root


@pytest.fixture(scope="session")
def report(finished: Path) -> make.Report:
    return make.of_folders([finished])
