"""Small models of drawings, and servers of copies of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from drawings import draw
from ovor import Classifier

from .live import FIRST, Live, serving

# Milliseconds that pages are given to show something: a busy machine takes its time.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    draw(root / "first", FIRST, 20)
    Classifier("embedded", device="cpu").learn(root / "first").save(root / "m.ovor")
    return root / "m.ovor"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that trains for epochs: its lessons can take their time, and set images aside."""
    root = tmp_path_factory.mktemp("trained")
    model = Classifier("embedded", "ovor", epochs=4, device="cpu")
    model.learn(draw(root / "first", FIRST, 20)).save(root / "m.ovor")
    return root / "m.ovor"


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copy(made, tmp_path)
    return tmp_path


@pytest.fixture
def live(place: Path) -> Iterator[Live]:
    with serving(place) as found:
        yield found


@pytest.fixture
def slow_place(trained: Path, tmp_path: Path) -> Path:
    shutil.copy(trained, tmp_path)
    return tmp_path


@pytest.fixture
def slow(slow_place: Path) -> Iterator[Live]:
    """A server whose lessons take as many epochs as they are told."""
    with serving(slow_place) as found:
        yield found


@pytest.fixture(scope="session")
def one_server(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("shared")
    shutil.copy(made, folder)
    limits = ("--max-request-bytes", "30000000", "--max-image-bytes", "5000000")
    with serving(folder, *limits, "--max-task-images", "300") as found:
        yield found


@pytest.fixture
def shared(one_server: Live) -> Iterator[Live]:
    """A server for tests that change nothing; the one that ends it is told from the next."""
    yield one_server
    ended = one_server.process.exitcode
    assert ended is None, f"The server ended by {ended}: {one_server.said()}"
