"""Run the demo by one process and by two: how much faster it is, and how close the results are."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from benchmarks.harness import Row, Seconds, ratios

VARIANTS = {
    "one thread": ["--threads", "1"],
    "two threads": ["--threads", "2"],
    "two processes": ["--threads", "1", "--devices", "2"],
}
ROUNDS = 3


def measure(quick: bool) -> Iterator[Row]:
    learning: Seconds = {name: [] for name in VARIANTS}
    whole: Seconds = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1 if quick else ROUNDS):
            for name, flags in VARIANTS.items():
                start = time.perf_counter()
                result = demo(Path(folder, f"{name}-{number}"), flags)
                whole[name].append(time.perf_counter() - start)
                learning[name].append(result["seconds"])
        one, two = (Path(folder, f"{name}-0") for name in ("one thread", "two processes"))
        yield Row("the demo by one process of one thread", "", tuple(learning["one thread"]), "s")
        yield from faster("one thread", "one process of one thread", learning, whole)
        yield from faster("two threads", "one process of two threads", learning, whole)
        yield from closeness(one, two)


def demo(out: Path, flags: list[str]) -> dict[str, Any]:
    """Run the demo as a command, and return its result."""
    command = [sys.executable, "-m", "ovor", "run", "--json", "--no-report", "--out", str(out)]
    said = subprocess.run([*command, *flags], check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def faster(than: str, named: str, learning: Seconds, whole: Seconds) -> Iterator[Row]:
    yield Row("the demo by two processes", named, ratios(learning, than, "two processes"))
    yield Row("  with starting them", named, ratios(whole, than, "two processes"))


def closeness(one: Path, two: Path) -> Iterator[Row]:
    """Compare the accuracies and the learned weights of two result folders."""
    rows = [json.loads((run / "result.json").read_text())["accuracy"] for run in (one, two)]
    pairs = [
        (a, b)
        for row, other in zip(*rows, strict=True)
        for a, b in zip(row, other, strict=True)
        if a is not None
    ]
    differing = [abs(a - b) for a, b in pairs if a != b]
    yield Row("  accuracies that differ", f"all {len(pairs)}", (float(len(differing)),), "")
    yield Row("  the most that one differs", "", (max(differing, default=0.0),), "points")
    weights = [load_file(run / "weights.safetensors") for run in (one, two)]
    most = max(float((weights[0][k] - weights[1][k]).abs().max()) for k in weights[0])
    yield Row("  the most that a weight differs", "", (most,), "")
