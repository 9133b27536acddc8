"""Settings in files of older versions."""

import json
from pathlib import Path
from typing import Any

import pytest

from ovor.config import RUN, Npos, Run, Vor
from ovor.errors import OvorError
from ovor.experiments.folder import read_run


def file_with(folder: Path, **removed: Any) -> Path:
    """Write the run.json of a run with these options of NPOS beside those that there are."""
    content = json.loads(RUN.dump_json(Run(vor=Vor(npos=Npos(k=5)))))
    content["vor"]["npos"].update(removed)
    path = folder / "run.json"
    path.write_text(json.dumps(content))
    return path


def test_options_that_are_gone_are_ignored_at_their_defaults(tmp_path: Path) -> None:
    path = file_with(tmp_path, per_class=False, sample=0)
    assert read_run(path) == Run(vor=Vor(npos=Npos(k=5)))


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        (
            {"per_class": True, "sample": 0},
            r"vor\.npos: the option per_class is gone \(it was True",
        ),
        ({"per_class": False, "sample": 9}, r"vor\.npos: the option sample is gone \(it was 9\)"),
        ({"other": 0}, r"vor\.npos\.other: Unexpected"),
    ],
)
def test_they_are_refused_where_they_meant_something(
    removed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(OvorError, match=words):
        read_run(file_with(tmp_path, **removed))
