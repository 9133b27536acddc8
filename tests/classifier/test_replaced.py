"""A model that somebody else replaces while it is changed: theirs stays, and ours is not lost."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command import ovor
from ovor import Classifier, OvorError


@pytest.fixture
def world(model_file: Path, lessons: list[Path], labelled: Path, tmp_path: Path) -> Path:
    shutil.copy(model_file, tmp_path / "m.ovor")
    ovor("learn", "m.ovor", lessons[0], cwd=tmp_path)  # so that there is something to undo
    shutil.copy(tmp_path / "m.ovor", tmp_path / "first.ovor")
    Classifier.load(model_file).rename("owl", "their owl").save(tmp_path / "theirs.ovor")
    shutil.copytree(labelled, tmp_path / "labelled")
    shutil.copytree(lessons[0], tmp_path / "lesson")
    return tmp_path


def replacing(monkeypatch: pytest.MonkeyPatch, path: Path, theirs: Path) -> None:
    """Put another file there right before each model is saved."""
    save = Classifier.save

    def late(self: Classifier, *given: Any, **options: Any) -> None:
        shutil.copy(theirs, path)
        save(self, *given, **options)

    monkeypatch.setattr(Classifier, "save", late)


@pytest.mark.parametrize(
    "command",
    [
        "learn m.ovor labelled",
        "correct m.ovor labelled/owl --to sun",
        "unlearn m.ovor lesson",
        "forget m.ovor teapot",
        "rename m.ovor teapot pot",
        "merge m.ovor m.ovor first.ovor",
        "undo m.ovor",
    ],
)
def test_it_is_left_as_it_is_and_the_work_is_beside_it(
    world: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    expected = ovor(*command.replace("m.ovor", "copy.ovor").split(), cwd=prepared(world))
    assert expected.returncode == 0, expected.stderr
    replacing(monkeypatch, world / "m.ovor", world / "theirs.ovor")
    done = ovor(*command.split(), cwd=world)
    assert done.returncode == 1
    assert "m.ovor was replaced by somebody else in the meantime" in done.stderr
    assert "in m.mine.ovor" in done.stderr
    assert (world / "m.ovor").read_bytes() == (world / "theirs.ovor").read_bytes()
    ours, usual = (Classifier.load(world / name) for name in ("m.mine.ovor", "copy.ovor"))
    assert ours.tasks_ == usual.tasks_
    assert not list(world.glob("*.learning"))


def prepared(world: Path) -> Path:
    shutil.copy(world / "m.ovor", world / "copy.ovor")
    shutil.copy(world / "m.ovor.before", world / "copy.ovor.before")
    return world


def test_a_new_model_does_not_replace_one_that_appeared(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacing(monkeypatch, world / "new.ovor", world / "theirs.ovor")
    done = ovor("learn", "new.ovor", "lesson", "--backbone", "embedded", cwd=world)
    assert done.returncode == 1
    assert "new.mine.ovor" in done.stderr
    assert (world / "new.ovor").read_bytes() == (world / "theirs.ovor").read_bytes()
    assert len(Classifier.load(world / "new.mine.ovor").classes_) == 3


def test_python_saves_beside_it_too_and_no_name_is_used_twice(world: Path) -> None:
    path = world / "m.ovor"
    first, second, third = (Classifier.load(path) for _ in range(3))
    first.rename("owl", "bird").save(path)
    second.rename("owl", "eagle")
    with pytest.raises(OvorError, match=r"m\.mine\.ovor"):
        second.save(path)
    with pytest.raises(OvorError, match=r"m\.mine1\.ovor"):
        third.save(path)
    assert "bird" in Classifier.load(path).classes_
    assert "eagle" in Classifier.load(world / "m.mine.ovor").classes_
    first.rename("bird", "owl").save(path)  # it is still its own


@pytest.mark.parametrize(
    "put",
    [lambda path: path.unlink(), lambda path: path.write_bytes(b"no model")],
    ids=["gone", "no model"],
)
def test_a_file_that_is_gone_is_written_and_one_that_is_no_model_stays(
    world: Path, put: Callable[[Path], object]
) -> None:
    path = world / "m.ovor"
    model = Classifier.load(path)
    put(path)
    if path.exists():
        with pytest.raises(OvorError, match="replaced by somebody else"):
            model.save(path)
        assert path.read_bytes() == b"no model"
    else:
        model.save(path)
        assert Classifier.load(path).tasks_ == model.tasks_
