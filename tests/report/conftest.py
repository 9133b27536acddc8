"""Finished tiny runs with and without VOR."""

from dataclasses import replace
from pathlib import Path

import pytest

from ovor.config import Run
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute


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
