"""Choose the hyper-parameters of the embedded default on the development classes alone.

Three steps, each the best mean A_T over the seeds with what the step before it chose: learning rate
and crop for the plain prompt methods; thresholds for OVOR; noise for OVOR. All that was measured
and what was chosen goes to embedded/tuning.json; src/ovor/presets.py repeats the choice, and a test
compares the two.

    python embedded/tune.py
"""

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ovor.config import Run
from ovor.experiments.grid import Row, collect, run_grid
from ovor.presets import settings

DATA = "quickdraw-dev"
SEEDS = [0, 1]
PLAIN = ("oneprompt", "dualprompt")  # one without and one with a query stand for the five


def plain_run(method: str, lr: float, scale: float) -> Run:
    run = settings(DATA, method)
    return replace(run, lr=lr, transform=replace(run.transform, scale=(scale, 1.0)))


def ovor_run(plain: dict[str, float], vor: dict[str, float]) -> Run:
    run = settings(DATA, "ovor")
    assert run.vor is not None
    npos = {k: v for k, v in vor.items() if k in ("sigma", "k")}
    rest = {k: v for k, v in vor.items() if k not in npos}
    tuned = replace(run.vor, **rest, npos=replace(run.vor.npos, **npos))  # type: ignore[arg-type]
    shape = replace(run.transform, scale=(plain["scale"], 1.0))
    return replace(run, lr=plain["lr"], transform=shape, vor=tuned)


class Search:
    def __init__(self, out: Path, jobs: int) -> None:
        self.out, self.jobs = out, jobs
        self.measured: list[dict[str, Any]] = []

    def best(self, step: str, choices: Iterable[tuple[dict[str, float], list[Run]]]) -> Any:
        """The choice with the best mean A_T over its runs and the seeds."""
        scored = []
        candidates = list(choices)
        rows = [
            [Row(f"{step} {json.dumps(choice)} {run.name}", run) for run in runs]
            for choice, runs in candidates
        ]
        for row, seed, result in run_grid(
            [row for some in rows for row in some], SEEDS, self.out, self.jobs
        ):
            print(f"{row.label}, seed {seed}: A_T {result['metrics']['A_T']:.2f}", flush=True)
        for (choice, _), its_rows in zip(candidates, rows, strict=True):
            entries = collect(its_rows, SEEDS, self.out)
            score = float(np.mean([entry["A_T"] for entry in entries]))
            scored.append((score, choice))
            self.measured.append({"step": step, **choice, "A_T": round(score, 3)})
            print(f"{step} {choice}: mean A_T {score:.2f}", flush=True)
        return max(scored, key=lambda pair: pair[0])[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    search = Search(args.out, args.jobs)
    plain = search.best(
        "plain",
        (
            ({"lr": lr, "scale": scale}, [plain_run(method, lr, scale) for method in PLAIN])
            for lr in (3e-3, 1e-2, 3e-2)
            for scale in (0.5, 0.8)
        ),
    )
    thresholds = search.best(
        "thresholds",
        (
            ({**vor}, [ovor_run(plain, vor)])
            for tau_current in (-6.0, -12.0, -24.0)
            for tau_outlier in (-3.0, 0.0)
            for vor in [{"tau_current": tau_current, "tau_outlier": tau_outlier}]
        ),
    )
    noise = search.best(
        "noise",
        (
            ({**vor}, [ovor_run(plain, {**thresholds, **vor})])
            for weight in (0.1, 0.3)
            for sigma in (0.3, 1.0)
            for vor in [{"weight": weight, "sigma": sigma}]
        ),
    )
    record = {
        "data": DATA,
        "seeds": SEEDS,
        "chosen": {**plain, **thresholds, **noise},
        "measured": search.measured,
    }
    Path(__file__).with_name("tuning.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["chosen"]))


if __name__ == "__main__":
    main()
