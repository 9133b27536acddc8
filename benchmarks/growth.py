"""One task of OnePrompt with VOR when 99 tasks of 100 classes are behind it, against the first.

Training needs the current head alone (Alg. 1), so its time should not feel the other 9,900 classes,
and a task should leave its head and nothing else.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.harness import Row, interleave, ratios
from benchmarks.memory import resident
from ovor.experiments.runner import prepare
from ovor.presets import settings
from ovor.training.checkpointing import Checkpoints, Position, state_of
from ovor.training.loop import head_epoch, train_step

TASKS, CLASSES = 100, 100
IMAGES = 32  # of a training step
FEATURES, OUTLIERS = 20, 160  # a class, in a head epoch
FIRST, LAST = "the first", f"task {TASKS}"


class Grown:
    """A learner in the last of its tasks, on the embedded backbone."""

    def __init__(self, tasks: int, folder: Path) -> None:
        # One thread: several would wait for each other wherever other work shares the machine.
        run = replace(settings("quickdraw", "ovor"), threads=1)
        self.context, self.learner = prepare(run, folder / f"{tasks}.safetensors")
        for task in range(tasks):
            self.learner.begin_task(CLASSES, (run.seed, task))
        self.begun = tasks
        self.optimizer = self.learner.optimizer(run)
        arch, draw = self.learner.vit.arch, torch.Generator().manual_seed(0)
        self.images = torch.rand(IMAGES, 3, arch.image_size, arch.image_size, generator=draw)
        self.labels = torch.arange(FEATURES * CLASSES) % CLASSES
        self.features = torch.randn(len(self.labels), arch.embed_dim, generator=draw)
        self.outliers = torch.randn(OUTLIERS * CLASSES, arch.embed_dim, generator=draw)
        self.head_bytes = 4 * CLASSES * (arch.embed_dim + 1)

    def train_step(self) -> None:
        backward, labels = self.context.fabric.backward, self.labels[:IMAGES]
        train_step(self.learner, self.optimizer, backward, self.images, labels, IMAGES)

    def head_epoch(self) -> None:
        vor, stored = self.context.run.vor, (self.features, self.labels, self.outliers)
        assert vor is not None
        head_epoch(self.context, self.learner, self.optimizer, vor, stored, 0, 0)

    def save(self) -> None:
        Checkpoints(self.context).save(self.learner, Position(), self.optimizer)

    def begin_task(self) -> None:
        self.learner.begin_task(CLASSES, (self.context.run.seed, self.begun))
        self.learner.optimizer(self.context.run)
        self.begun += 1

    def kept_bytes(self) -> int:
        return sum(t.nbytes for t in state_of(self.learner, self.optimizer).values())


def measure(quick: bool) -> Iterator[Row]:
    threads = torch.get_num_threads()
    with TemporaryDirectory() as folder:
        first, last = Grown(1, Path(folder)), Grown(TASKS, Path(folder))
        rounds = 9 if quick else 31
        seconds = interleave({FIRST: first.train_step, LAST: last.train_step}, rounds)
        yield Row(f"training step in {LAST}", FIRST, ratios(seconds, LAST, FIRST), at_most=1.1)
        in_a_step = seconds[LAST]
        seconds = interleave({FIRST: first.head_epoch, LAST: last.head_epoch}, rounds)
        yield Row(f"VOR's head epoch in {LAST}", FIRST, ratios(seconds, LAST, FIRST), at_most=1.1)
        left = last.kept_bytes() - first.kept_bytes()
        heads = (TASKS - 1) * last.head_bytes
        yield Row(f"bytes that {TASKS - 1} tasks leave", "their heads", (left / heads,), at_most=1)
        # Both are done once an epoch or less, beside dozens of steps.
        seconds = interleave({"save": last.save, "begin": last.begin_task}, rounds)
        for name, what in {"save": "saving", "begin": "beginning"}.items():
            shares = (s / t for s, t in zip(seconds[name], in_a_step, strict=True))
            yield Row(f"{what} {LAST}", "one training step", tuple(shares))
    torch.set_num_threads(threads)
    samples = tuple(peak_ratio() for _ in range(1 if quick else 3))
    yield Row(f"peak memory of a step in {LAST}", FIRST, samples, at_most=1.1)


def peak_ratio() -> float:
    """Of two processes, at once, that begin 100 tasks and one, and train one step."""
    commands = ([sys.executable, "-m", "benchmarks.growth", str(n)] for n in (TASKS, 1))
    children = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    many, one = (float(child.communicate()[0]) for child in children)
    return many / one


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        grown = Grown(int(sys.argv[1]), Path(folder))
        grown.train_step()
        print(resident("VmHWM"))
