"""A classifier of three tasks on the embedded backbone, shared by all tests of this folder."""

from pathlib import Path

import pytest

from drawings import draw
from ovor import Classifier

TASKS = (["banana", "candle", "fish"], ["owl", "sun"], ["teapot"])
CLASSES = [name for task in TASKS for name in task]


@pytest.fixture(scope="session")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("lessons")
    return [draw(root / str(number), names, 12) for number, names in enumerate(TASKS)]


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("labelled"), CLASSES, 3, first=40)


@pytest.fixture(scope="session")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("strange"), ["tractor"], 8, first=40)


@pytest.fixture(scope="session")
def model(lessons: list[Path]) -> Classifier:
    """Return one that must not be changed."""
    found = Classifier("embedded", false_alarms=0.2, device="cpu")
    for lesson in lessons:
        found.learn(lesson)
    return found


@pytest.fixture(scope="session")
def model_file(model: Classifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "garden.ovor"
    model.save(path)
    return path
