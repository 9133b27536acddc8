"""One task of up to a million features in a file: time and memory of its outliers, and of an epoch
of the head phase with them.

Each size runs in a process of its own. Pages of a mapped file count as resident memory as long as
they are mapped, though the system can take them back at any time; so both are reported: all that
was resident, and the anonymous memory that is the process's own. The time of the processor, over
all threads, suffers less from other work than the time on the clock.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.harness import Row
from benchmarks.memory import resident
from benchmarks.models import random_vit
from ovor.analysis.cost import VIT_B
from ovor.config import Npos
from ovor.experiments.runner import prepare
from ovor.learners import build_learner
from ovor.outliers import boundary, exact_search
from ovor.outliers.candidates import Candidates
from ovor.outliers.feature_buffer import FeatureBuffer
from ovor.presets import settings
from ovor.training.loop import head_epoch

CLASSES, WIDTH, SEED = 20, 384, 0
SIZES = (10_000, 100_000, 1_000_000)
BATCH = 10_000
WIDE = replace(VIT_B, depth=1)  # for the head phase, which does not use the rest
HEAD = 100_000  # features
HEAD_CLASSES = 200
PLACES: dict[str, tuple[object, str]] = {
    "boundary": (exact_search, "farthest_from_others"),
    "its distances": (boundary, "_measure"),
    "bounds": (Candidates, "_bounds"),
    "scores": (Candidates, "_kth_squares"),
}


def measure(quick: bool) -> Iterator[Row]:
    before: dict[str, float] = {}
    for size in SIZES[:-1] if quick else SIZES:
        figures = child(size)
        name = f"NPOS, {size:,} features in a store"
        yield Row(f"{name}: time", "", (figures["seconds"],), "s")
        yield Row("  time of the processor", "", (figures["processor"],), "s")
        for part in PLACES:
            share = 100 * figures[part] / figures["processor"]
            yield Row(f"  {part}", "all of it", (share,), "%")
        if before:
            growth = figures["processor"] / before["processor"]
            yield Row("  time of the processor", "a tenth of the features", (growth,))
        yield Row("  peak of resident memory", "", (figures["resident"],), "MB", at_most=4096)
        yield Row("  peak of anonymous memory", "", (figures["anonymous"],), "MB")
        yield Row("  features", "", (figures["features"],), "MB")
        before = figures
    name = f"head phase, an epoch of {HEAD:,} features of ViT-B"
    yield Row(name, "", tuple(of_head_phase() for _ in range(3)), "s")


def of_head_phase() -> float:
    """Return the seconds of an epoch in the paper's batches, with its outliers a class."""
    with TemporaryDirectory() as folder:
        session, _ = prepare(replace(settings("quickdraw", "ovor"), batch_size=128), Path(folder))
    learner = build_learner("linear", {}, random_vit(WIDE), nullcontext)
    learner.begin_task(HEAD_CLASSES, (SEED, 0))
    optimizer, vor = learner.optimizer(session.run), session.run.vor
    assert vor is not None
    draw = torch.Generator().manual_seed(SEED)
    features, outliers = (
        torch.randn(count, WIDE.embed_dim, generator=draw)
        for count in (HEAD, vor.npos.beta * HEAD_CLASSES)
    )
    stored = features, torch.arange(HEAD) % HEAD_CLASSES, outliers
    start = time.perf_counter()
    head_epoch(session, learner, optimizer, vor, stored, 0, 0)
    return time.perf_counter() - start


def child(size: int) -> dict[str, float]:
    """Return the figures of one size, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.store", str(size)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def fill(store: FeatureBuffer, size: int) -> None:
    """Add features of classes of unequal spread, in a space where few directions have most of the
    variance, as in the benchmark of NPOS, made batch by batch."""
    generator = torch.Generator().manual_seed(SEED)
    scale = torch.arange(1, WIDTH + 1).pow(-0.5)
    scale /= scale.square().mean().sqrt()
    centers = torch.randn(CLASSES, WIDTH, generator=generator)
    spread = 0.5 + torch.rand(CLASSES, 1, generator=generator)
    for start in range(0, size, BATCH):
        labels = torch.arange(start, min(start + BATCH, size)) % CLASSES
        scatter = torch.randn(len(labels), WIDTH, generator=generator).mul_(spread[labels])
        store.add(scatter.add_(centers[labels]).mul_(scale))


@dataclass
class Watch:
    """Processor seconds of some functions, and the largest anonymous memory seen meanwhile."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PLACES, 0.0))
    anonymous: float = 0.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any) -> Any:
            start = time.process_time()
            result = function(*arguments)
            self.seconds[part] += time.process_time() - start
            return result

        return run

    @contextmanager
    def over_memory(self) -> Iterator[None]:
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.01):
                self.anonymous = max(self.anonymous, resident("RssAnon"))

        thread = threading.Thread(target=look)
        thread.start()
        yield
        done.set()
        thread.join()


def one(size: int) -> dict[str, float]:
    """Return the figures of one size, measured in this process."""
    watch = Watch()
    for part, (where, name) in PLACES.items():
        setattr(where, name, watch.timed(part, getattr(where, name)))
    with TemporaryDirectory() as folder, watch.over_memory():
        store = FeatureBuffer(Path(folder))
        fill(store, size)
        features = store.tensor()
        generator = torch.Generator().manual_seed(SEED)
        start, processor = time.perf_counter(), time.process_time()
        outliers = exact_search.synthesize(features, CLASSES, Npos(), generator, Path(folder))
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
    assert outliers.shape == (Npos().beta * CLASSES, WIDTH)
    memory = {"resident": resident("VmHWM"), "anonymous": watch.anonymous}
    size_in_file = {"features": features.nbytes / 2**20}
    return {"seconds": seconds, "processor": processor, **watch.seconds, **memory, **size_in_file}


if __name__ == "__main__":
    print(json.dumps(one(int(sys.argv[1]))))
