"""Choose the hyper-parameters of the embedded default on the development classes alone.

Step by step: each takes the best mean A_T over its methods and the seeds, with all that earlier
steps chose. What was measured and what was chosen goes to embedded/tuning.json; src/ovor/presets.py
repeats the choice, and a test compares the two.

    python embedded/tune.py
"""

import argparse
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ovor.config import Run
from ovor.experiments.grid import Row, collect, run_grid
from ovor.presets import settings

DATA = "quickdraw-dev"
SEEDS = [0, 1]
START = {
    "lr": 1e-2,
    "scale": 0.8,
    "tau_current": -12.0,
    "tau_outlier": -3.0,
    "weight": 0.1,
    "sigma": 1.0,
}
# One method without and one with a query stand for all in what VOR does not touch.
PLAIN = ("oneprompt", "dualprompt")
STEPS: list[tuple[tuple[str, ...], dict[str, tuple[float, ...]]]] = [
    (PLAIN, {"lr": (3e-3, 1e-2, 3e-2)}),
    (PLAIN, {"scale": (0.5, 0.8)}),
    (("ovor",), {"tau_current": (-6.0, -12.0, -24.0), "tau_outlier": (-3.0, 0.0)}),
    (("ovor",), {"weight": (0.1, 0.3), "sigma": (0.3, 1.0)}),
]


def configure(method: str, choice: dict[str, float]) -> Run:
    run = settings(DATA, method)
    shape = replace(run.transform, scale=(choice["scale"], 1.0))
    run = replace(run, lr=choice["lr"], transform=shape)
    if run.vor is None:
        return run
    vor = replace(
        run.vor,
        weight=choice["weight"],
        tau_current=choice["tau_current"],
        tau_outlier=choice["tau_outlier"],
        npos=replace(run.vor.npos, sigma=choice["sigma"]),
    )
    return replace(run, vor=vor)


def row(method: str, choice: dict[str, float]) -> Row:
    """Named by what matters to the method, so that no run is done twice."""
    names = ("lr", "scale") if method in PLAIN else tuple(choice)
    return Row(
        f"{method} " + " ".join(f"{n}={choice[n]}" for n in names), configure(method, choice)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    chosen, measured = dict(START), []
    for methods, options in STEPS:
        scored: list[tuple[float, dict[str, float]]] = []
        candidates = [
            {**chosen, **dict(zip(options, values, strict=True))}
            for values in itertools.product(*options.values())
        ]
        rows = [[row(method, choice) for method in methods] for choice in candidates]
        for done, seed, result in run_grid(
            list(itertools.chain(*rows)), SEEDS, args.out, args.jobs
        ):
            print(f"{done.label}, seed {seed}: A_T {result['metrics']['A_T']:.2f}", flush=True)
        for choice, its_rows in zip(candidates, rows, strict=True):
            entries = collect(its_rows, SEEDS, args.out)
            score = float(np.mean([entry["A_T"] for entry in entries]))
            scored.append((score, choice))
            measured.append(
                {"methods": methods, "options": {n: choice[n] for n in options}, "A_T": score}
            )
        chosen = max(scored, key=lambda pair: pair[0])[1]
        print(f"chosen so far: {chosen}", flush=True)
    record: dict[str, Any] = {"data": DATA, "seeds": SEEDS, "chosen": chosen, "measured": measured}
    Path(__file__).with_name("tuning.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
