"""One process at a time changes a model; a dry run changes nothing; JSON is all of stdout."""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from drawings import draw
from ovor import Classifier
from ovor.cli import main

LEARN = ["learn", "m.ovor", "second"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "first", ["banana", "candle"], 8)
    draw(tmp_path / "second", ["owl", "sun"], 8)
    Classifier("embedded", "simplecil", device="cpu").learn("first").save("m.ovor")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> object:
    monkeypatch.setattr("sys.argv", ["ovor", *argv])
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0


def contents(root: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


def test_the_second_of_two_lessons_says_so_and_stops(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real process learns for long; another one, a forget and a link to the model do not."""
    long = ["learn", "l.ovor", "second", "--backbone", "embedded", "--method", "linear"]
    first = subprocess.Popen(
        [sys.executable, "-m", "ovor", *long, "--epochs", "100000", "--device", "cpu"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    Path("other.ovor").symlink_to("l.ovor")
    try:
        deadline = time.monotonic() + 60
        while not Path("l.ovor.learning").exists():
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for argv in (
            ["learn", "l.ovor", "first", "--backbone", "embedded"],
            ["learn", "l.ovor", "first", "--backbone", "embedded", "--restart"],
            ["learn", "other.ovor", "first", "--backbone", "embedded", "--resume"],
            ["forget", "l.ovor", "owl"],
        ):
            assert run(monkeypatch, *argv) == 1
            printed = capsys.readouterr()
            assert printed.out == ""
            assert printed.err == (
                f"ovor: Another process is changing {argv[1]}: wait until it is done, and try "
                "again.\n"
            )
            assert Path("l.ovor.learning").exists()
            assert not Path("l.ovor").exists()
    finally:
        first.kill()
        first.wait()
    # What a killed process leaves, its lock among it, is in nobody's way.
    assert run(monkeypatch, *long, "--restart", "--epochs", "2") == 0
    names = {path.name for path in world.iterdir()}
    assert names == {"first", "second", "m.ovor", "l.ovor", "other.ovor"}


def test_a_held_lock_changes_nothing(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FileLock(world / ".m.ovor.lock"):
        before = contents(world)
        assert run(monkeypatch, *LEARN) == 1
        assert "Another process is changing m.ovor" in capsys.readouterr().err
        assert run(monkeypatch, "forget", "m.ovor", "banana") == 1
        assert "Another process is changing m.ovor" in capsys.readouterr().err
        # Who only looks need not wait: the file is replaced in one move.
        assert run(monkeypatch, "inspect", "m.ovor") == 0
        assert run(monkeypatch, "predict", "m.ovor", "second") == 0
        assert run(monkeypatch, *LEARN, "--dry-run") == 0
        assert contents(world) == before


@pytest.mark.parametrize("method", ["simplecil", "ovor"])
def test_a_dry_run_writes_nothing(
    method: str, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(world)
    new = ["learn", "n.ovor", "second", "--backbone", "embedded", "--method", method]
    for argv in ([*LEARN, "--dry-run"], [*new, "--dry-run"]):
        assert run(monkeypatch, *argv) == 0
        printed = capsys.readouterr()
        assert "owl: 8 images\n  sun: 8 images\nAbout " in printed.out
        assert "MB of memory" in printed.out
        assert "Nothing was learned." in printed.out
        assert run(monkeypatch, *argv, "--json") == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["classes"] == {"owl": 8, "sun": 8}
        assert plan["seconds"] >= 0
        assert plan["megabytes"] > 0
    assert contents(world) == before


def test_a_dry_run_leaves_an_unfinished_lesson_alone(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("m.ovor.learning").write_bytes(b"an unfinished lesson")
    before = contents(world)
    for flags in ([], ["--resume"], ["--restart"]):
        assert run(monkeypatch, *LEARN, "--dry-run", *flags) == 0
    assert contents(world) == before


def test_a_dry_run_finds_what_learning_would(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(world)
    assert run(monkeypatch, "learn", "m.ovor", "first", "--dry-run") == 1
    assert "'banana', 'candle' are learned already" in capsys.readouterr().err
    assert run(monkeypatch, "learn", "no/m.ovor", "first", "--dry-run") == 1
    assert "There is no folder no: make it first" in capsys.readouterr().err
    assert run(monkeypatch, "learn", "first", "second", "--dry-run") == 1
    assert "first is a folder" in capsys.readouterr().err
    assert contents(world) == before


def test_a_failed_lesson_leaves_the_model_and_no_lock(
    world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(world)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert run(monkeypatch, *LEARN) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert run(monkeypatch, "forget", "m.ovor", "banana") == 1
    assert contents(world) == before


def test_a_task_may_be_forgotten_class_by_class(
    world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for method in ("simplecil", "linear"):
        new = ["--backbone", "embedded", "--method", method, "--epochs", "2"]
        assert run(monkeypatch, "learn", "n.ovor", "first", *new) == 0
        assert run(monkeypatch, "learn", "n.ovor", "second") == 0
        capfd.readouterr()
        for name in ("banana", "candle"):
            assert run(monkeypatch, "forget", "n.ovor", name) == 0
        for argv in (["predict", "n.ovor", "first"], ["evaluate", "n.ovor", "second"]):
            assert run(monkeypatch, *argv) == 0
        assert run(monkeypatch, "learn", "n.ovor", "first") == 0
        assert capfd.readouterr().err == ""
        Path("n.ovor").unlink()


def test_json_is_all_of_stdout(
    world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (world / "second/notes.txt").touch()
    (world / "second/owl/bad.png").touch()
    monkeypatch.setattr("sys.stdin", io.StringIO("second/owl\nsecond/owl/bad.png\n"))
    skip = ["--on-error", "skip", "--json"]
    for argv in (
        ["learn", "m.ovor", "second", *skip, "--dry-run"],
        ["learn", "m.ovor", "second", *skip],
        ["predict", "m.ovor", "second", *skip],
        ["predict", "m.ovor", "-", *skip],
        ["evaluate", "m.ovor", "second", "--unknown", "first", *skip],
        ["inspect", "m.ovor", "--json"],
        ["forget", "m.ovor", "owl", "--json"],
        ["drawings", "d", "owl", "--each", "2", "--json"],
    ):
        assert run(monkeypatch, *argv) == 0
        printed = capfd.readouterr()
        assert printed.out.count("\n") == 1
        json.loads(printed.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert run(monkeypatch, *argv[:-1], "--json", "--nonsense") == 2
        assert capfd.readouterr().out == ""
