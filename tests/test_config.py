"""Settings in files of older versions."""

import json
from pathlib import Path
from typing import Any

import pytest

from ovor.config import RUN, Npos, Run, Transform, Vor
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


def test_one_number_for_all_channels_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = json.loads(RUN.dump_json(Run(transform=Transform(mean=0.5, std=0.2))))
    del content["transform"]["interpolation"]  # as in files of older versions
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    found = read_run(path).transform
    assert (found.mean, found.std, found.interpolation) == (0.5, 0.2, "bilinear")


def test_three_numbers_come_back_from_a_file(tmp_path: Path) -> None:
    run = Run(transform=Transform(mean=(0.485, 0.456, 0.406), interpolation="bicubic"))
    path = tmp_path / "run.json"
    path.write_bytes(RUN.dump_json(run))
    assert read_run(path) == run


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        ({"mean": [0.5, 0.5]}, "transform.mean"),
        ({"std": 0}, "transform.std must be from 0.001 to 1000, not 0"),
        ({"std": [0.2, 0.2, 0]}, "transform.std must be from 0.001 to 1000, not 0"),
        ({"mean": float("nan")}, "transform.mean must be from -100 to 100, not nan"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(
    transform: dict[str, Any], words: str, tmp_path: Path
) -> None:
    content = json.loads(RUN.dump_json(Run()))
    content["transform"].update(transform)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    with pytest.raises(OvorError, match=words):
        read_run(path)
