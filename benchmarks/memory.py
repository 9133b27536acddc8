"""Peak memory of a training step, each in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.models import (
    METHODS,
    our_learner,
    our_step,
    random_batch,
    random_vit,
    released_learner,
    released_step,
)

STEPS = 2  # in the second, the released code has the gradients of the first


def measure(quick: bool) -> Iterator[Row]:
    size = 4 if quick else 16
    for method in ("oneprompt",) if quick else METHODS:
        ours, released = (peak(kind, method, size) for kind in ("ours", "released"))
        yield Row(f"peak memory, {method}", "released", (ours / released,), at_most=0.5)


def peak(kind: str, method: str, size: int) -> float:
    """MB that steps took beyond what network, prompts and images hold."""
    command = [sys.executable, "-m", "benchmarks.memory", kind, method, str(size)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def grow(kind: str, method: str, size: int) -> float:
    learner, (images, labels) = our_learner(method, random_vit(), 10), random_batch(size, 20)
    if kind == "ours":
        step = our_step(learner, images, labels)
    else:
        step = released_step(released_learner(learner), images, labels)
    before = resident("VmRSS")
    for _ in range(STEPS):
        step()
    return resident("VmHWM") - before


def resident(field: str) -> float:
    """MB of this process, as Linux counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {field} here: memory is measured on Linux only")


if __name__ == "__main__":
    print(grow(sys.argv[1], sys.argv[2], int(sys.argv[3])))
