"""Killed at any moment (kill -9), `learn` and `run` lose nothing and end as if never stopped."""

import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from command import ovor, start
from drawings import draw
from ovor.classifier.file import read_model
from ovor.config import RUN, Run

LEARN = ["--backbone", "embedded", "--method", "ovor", "--epochs", "8"]
EXACT = ["--backbone", "embedded"]
# An exact lesson saves what it has every few seconds; here often, as this one takes two.
EAGER = (
    "from ovor.classifier import collect; from ovor.cli import main\n"
    "collect.SAVED_EVERY = 0; main()"
)


@dataclass(frozen=True)
class Work:
    """A command that can be killed, and what becomes of it."""

    folder: Path
    checkpoint: Path
    command: Callable[[], list[str]]
    """begins it, or continues it"""
    done: Callable[[], bool]
    """whether the result is there; fails if there is anything but a whole one or none"""
    undo: Callable[[], object]
    """lets it begin anew"""
    code: str = ""
    """Python that carries the command out, if it is not ovor itself"""


def learning(root: Path) -> Work:
    draw(root / "second", ["owl", "sun", "fish"], 30)
    return lesson(root, LEARN)


def learning_exactly(root: Path) -> Work:
    """More images of a known class, and new classes."""
    draw(root / "second", ["banana", "owl", "sun", "fish", "door", "train"], 80, first=12)
    return replace(lesson(root, EXACT), code=EAGER)


def lesson(root: Path, flags: list[str]) -> Work:
    """A second lesson of the folder `second`."""
    draw(root / "first", ["banana", "candle"], 12)
    model, unbroken = root / "m.ovor", root / "unbroken.ovor"
    assert ovor("learn", model, "first", *flags, cwd=root).returncode == 0
    before = model.read_bytes()
    shutil.copy(model, unbroken)
    assert ovor("learn", unbroken, "second", *flags, cwd=root).returncode == 0
    assert len(read_model(unbroken).about.tasks) == 2

    def done() -> bool:
        assert model.read_bytes() in (before, unbroken.read_bytes())
        return model.read_bytes() != before

    return Work(
        root,
        root / "m.ovor.learning",
        lambda: ["learn", "m.ovor", "second", *flags, "--resume"],
        done,
        lambda: model.write_bytes(before),
    )


def running(root: Path, run: Run) -> Work:
    (root / "run.json").write_bytes(RUN.dump_json(run))
    begin = ["run", "--no-report", "--from", "run.json", "--out"]
    assert ovor(*begin, "unbroken", cwd=root).returncode == 0
    out, weights = root / "broken", "weights.safetensors"

    def command() -> list[str]:
        if (out / "run.json").exists():
            return ["run", "--no-report", "--resume", "--out", "broken"]
        shutil.rmtree(out, ignore_errors=True)
        return [*begin, "broken"]

    def done() -> bool:
        if not (out / "result.json").exists():
            return False
        assert (out / weights).read_bytes() == (root / "unbroken" / weights).read_bytes()
        return True

    return Work(root, out / "checkpoint.safetensors", command, done, lambda: shutil.rmtree(out))


def kill(work: Work, wanted: int, draws: random.Random, first: int) -> None:
    """Kill it `wanted` times, each after `first` to 3 epochs and a while, and let it end."""
    kills = 0
    while kills < wanted:
        process = start(*work.command(), code=work.code, cwd=work.folder)
        for _ in range(draws.randint(first, 3)):
            await_change(process, work.checkpoint)
        time.sleep(draws.uniform(0, 2 if process.poll() is None and not first else 0.2))
        kills += process.poll() is None
        process.kill()
        said = process.communicate()[1]
        assert process.returncode in (0, -9), said
        if work.done() and kills < wanted:
            work.undo()
    if not work.done():
        assert ovor(*work.command(), cwd=work.folder).returncode == 0
    assert work.done()


def await_change(process: subprocess.Popen[str], path: Path) -> None:
    """Wait until a file is written anew, or nobody is there to write it."""

    def written() -> int:
        try:
            return path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    before = written()
    while process.poll() is None and written() == before:
        time.sleep(0.005)


def longer(run: Run) -> Run:
    return replace(run, epochs=12, threads=1)


@pytest.mark.parametrize("begin", [learning, learning_exactly])
def test_killed_lessons_end_as_unbroken_ones(begin: Callable[[Path], Work], tmp_path: Path) -> None:
    work = begin(tmp_path)
    kill(work, 2, random.Random(0), first=1)
    left = {path.name for path in tmp_path.iterdir()}
    # There if the last kill came at the very end.
    left -= {"m.ovor.learning", ".m.ovor.lock", "m.ovor.before.tmp"}
    models = {"m.ovor", "unbroken.ovor"}
    assert left == {"first", "second", *models, *(f"{name}.before" for name in models)}


@pytest.mark.slow
def test_killed_runs_end_as_unbroken_ones(tmp_path: Path, tiny_run: Run) -> None:
    kill(running(tmp_path, longer(tiny_run)), 2, random.Random(0), first=1)


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path, tiny_run: Run) -> None:
    draws = random.Random(1)
    (tmp_path / "learn").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "exact").mkdir()
    kill(learning(tmp_path / "learn"), 10, draws, first=0)
    kill(learning_exactly(tmp_path / "exact"), 10, draws, first=0)
    kill(running(tmp_path / "run", longer(tiny_run)), 10, draws, first=0)
