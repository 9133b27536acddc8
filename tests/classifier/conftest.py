"""A classifier of three tasks on the embedded backbone, and a way to call the command line."""

import sys
from pathlib import Path

import pytest

from drawings import draw
from ovor import Classifier
from ovor.cli import main

from .helpers import CLASSES, TASKS, Command, Ended


@pytest.fixture
def ovor(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """In this process: another one would import torch for seconds."""

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["ovor", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 1
        return Ended(code, *capfd.readouterr())

    return call


@pytest.fixture(scope="session")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("lessons")
    return [draw(root / str(number), names, 12) for number, names in enumerate(TASKS)]


@pytest.fixture(scope="session")
def exam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("exam"), CLASSES, 3, first=40)


@pytest.fixture(scope="session")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("strange"), ["tractor"], 8, first=40)


@pytest.fixture(scope="session")
def model(lessons: list[Path]) -> Classifier:
    """Not to be changed."""
    found = Classifier("embedded", epochs=2, device="cpu")
    for lesson in lessons:
        found.learn(lesson)
    return found


@pytest.fixture(scope="session")
def model_file(model: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "garden.ovor"
    model.save(path)
    return path
