"""Training that goes out of bounds, and equations without a solution, end in a sentence."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.folder import Folder
from ovor.experiments.runner import execute


@pytest.mark.parametrize(
    ("method", "options", "lr", "words"),
    [
        ("apt", {}, 1e30, "choose a smaller --lr"),
        ("ssiat", {"adapter_rate": 1e9}, 1e5, "smaller --lr"),
        ("klda", {"projection": 300, "ridge": 1e-300}, 0.1, "more of its ridge"),
    ],
)
def test_what_is_no_number_any_more_is_no_result(
    tiny_run: Run, tmp_path: Path, method: str, options: dict[str, Any], lr: float, words: str
) -> None:
    """All answers would be guesses, or an error of another package's."""
    run = replace(tiny_run, method=method, vor=None, options=options, lr=lr)
    with pytest.raises(OvorError, match=re.compile(words, re.IGNORECASE)):
        execute(run, Folder(tmp_path / "run"))
    assert not (tmp_path / "run/result.json").exists()
