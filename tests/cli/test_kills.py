"""Killed at any moment (kill -9), `learn` and `run` lose nothing and end as if never stopped."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drawings import draw
from ovor.classifier.file import read_model
from ovor.config import RUN, Run

FIRST, SECOND = ["banana", "candle"], ["owl", "sun", "fish"]
LEARN = ["--backbone", "embedded", "--epochs", "8"]


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ovor", *command],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def whole(command: list[str], folder: Path) -> float:
    """Unbroken; how long it took."""
    begun = time.monotonic()
    process = start(command, folder)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()
    return time.monotonic() - begun


def kill_until_done(
    command: Callable[[], list[str]],
    folder: Path,
    seconds: float,
    draws: random.Random,
    after: Callable[[], bool],
) -> int:
    """Starts and kills it until it ends by itself or `after` says that it is done; the kills."""
    kills = 0
    while True:
        process = start(command(), folder)
        try:
            _, said = process.communicate(timeout=draws.uniform(0.3, 0.9) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            if after():
                return kills
            continue
        assert process.returncode == 0, said.decode()
        assert after()
        return kills


def lessons(tmp_path: Path, wanted: int, draws: random.Random) -> int:
    """Kill lessons until there were `wanted` kills, comparing with an unbroken one."""
    draw(tmp_path / "first", FIRST, 12)
    draw(tmp_path / "second", SECOND, 30)
    whole(["learn", "m.ovor", "first", *LEARN], tmp_path)
    before = (tmp_path / "m.ovor").read_bytes()
    shutil.copy(tmp_path / "m.ovor", tmp_path / "unbroken.ovor")
    seconds = whole(["learn", "unbroken.ovor", "second", *LEARN], tmp_path)
    expected = (tmp_path / "unbroken.ovor").read_bytes()
    assert len(read_model(tmp_path / "unbroken.ovor").about.tasks) == 2

    def after() -> bool:
        """The file is the old one or the finished one, whole, and never anything else."""
        content = (tmp_path / "m.ovor").read_bytes()
        assert content in (before, expected)
        return content == expected

    kills, command = 0, ["learn", "m.ovor", "second", *LEARN, "--resume"]
    while kills < wanted:
        (tmp_path / "m.ovor").write_bytes(before)
        more = kill_until_done(lambda: command, tmp_path, seconds, draws, after)
        kills, seconds = kills + more, seconds if more else 0.7 * seconds  # kill it earlier
    left = {path.name for path in tmp_path.iterdir() if path.suffix == ".learning"}
    assert left <= {"m.ovor.learning"}  # there only if the last kill came between two lines
    return kills


def runs(tmp_path: Path, wanted: int, draws: random.Random, run: Run) -> int:
    """The same for `ovor run`."""
    (tmp_path / "run.json").write_bytes(RUN.dump_json(run))
    seconds = whole(["run", "--from", "run.json", "--out", "unbroken", "--no-report"], tmp_path)
    expected = (tmp_path / "unbroken/weights.safetensors").read_bytes()
    out = tmp_path / "broken"

    def command() -> list[str]:
        if (out / "run.json").exists():
            return ["run", "--resume", "--out", "broken", "--no-report"]
        shutil.rmtree(out, ignore_errors=True)
        return ["run", "--from", "run.json", "--out", "broken", "--no-report"]

    def after() -> bool:
        if not (out / "result.json").exists():
            return False
        assert (out / "weights.safetensors").read_bytes() == expected
        return True

    kills = 0
    while kills < wanted:
        shutil.rmtree(out, ignore_errors=True)
        more = kill_until_done(command, tmp_path, seconds, draws, after)
        kills, seconds = kills + more, seconds if more else 0.7 * seconds  # kill it earlier
    return kills


def longer(run: Run) -> Run:
    return replace(run, epochs=12, threads=1)


def test_killed_lessons_end_as_unbroken_ones(tmp_path: Path) -> None:
    assert lessons(tmp_path, 2, random.Random(0)) >= 2


def test_killed_runs_end_as_unbroken_ones(tmp_path: Path, tiny_run: Run) -> None:
    assert runs(tmp_path, 2, random.Random(0), longer(tiny_run)) >= 2


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path, tiny_run: Run) -> None:
    draws = random.Random(1)
    (tmp_path / "learn").mkdir()
    (tmp_path / "run").mkdir()
    kills = lessons(tmp_path / "learn", 20, draws)
    kills += runs(tmp_path / "run", 10, draws, longer(tiny_run))
    assert kills >= 30
