"""Choose the hyper-parameters of the embedded default on the development classes alone.

Step by step: each takes the best mean A_T over its methods and the seeds, with all that earlier
steps chose. First what all prompts share, then what each other method has of its own. What was
measured and what was chosen goes to embedded/tuning.json; src/ovor/presets.py repeats the choice,
and a test compares the two.

    python embedded/tune.py
    python embedded/tune.py --methods klda randumb
    python embedded/tune.py --later           what was tried after the choice, beside it
"""

import argparse
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ovor.config import Run
from ovor.experiments.grid import folder_of, run_grid
from ovor.experiments.tables import Row
from ovor.presets import settings

FILE = Path(__file__).with_name("tuning.json")
DATA = "quickdraw-dev"
SEEDS = [0, 1]
Choice = dict[str, Any]
Options = dict[str, tuple[float, ...]]
Steps = list[tuple[tuple[str, ...], Options]]

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
SHARED: Steps = [
    (PLAIN, {"lr": (3e-3, 1e-2, 3e-2)}),
    (PLAIN, {"scale": (0.5, 0.8)}),
    (("ovor",), {"tau_current": (-6.0, -12.0, -24.0), "tau_outlier": (-3.0, 0.0)}),
    (("ovor",), {"weight": (0.1, 0.3), "sigma": (0.3, 1.0)}),
]

# What each other method has of its own; a name with a dot is an option. Adapters stand for all that
# tunes few parameters on the first task.
FIRST_TASK: Options = {"lr": (1e-2, 3e-2, 1e-1)}
OWN: dict[str, list[Options]] = {
    "adam-finetune": [FIRST_TASK],
    "adam-adapter": [FIRST_TASK],
    "ranpac": [{"options.projection": (1000, 4000)}],
    "loranpac": [{"options.truncation": (0.1, 0.25, 0.5, 0.75)}],
    "klda": [
        {
            "options.gamma": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
            "options.ridge": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
        }
    ],
    "randumb": [{"options.gamma": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}],
    "fecam": [{"options.variance": (0.1, 1.0, 10.0)}, {"options.tukey": (0.5, 1.0)}],
    "anacp": [
        {"options.ridge": (1.0, 10.0, 100.0, 1000.0)},
        {"options.separation": (0.25, 0.5, 1.0, 2.0)},
    ],
    "slca": [{"lr": (1e-2, 3e-2), "options.slowdown": (0.01, 0.1)}],
    "linear": [{"lr": (1e-3, 3e-3, 1e-2, 3e-2)}],
    "l2": [{"options.slowdown": (0.01, 0.1)}, {"options.weight": (0.1, 1.0, 10.0)}],
    "a-prompt": [{"options.slowdown": (0.01, 0.1)}],
    "finetune": [{"options.slowdown": (0.01, 0.1)}],
    "joint": [{"options.slowdown": (0.01, 0.1)}],
    "apt": [{"lr": (1e-3, 3e-3, 1e-2)}],
    "ssiat": [
        {"lr": (3e-3, 1e-2, 3e-2)},
        {"options.adapter_rate": (1.0, 100.0, 1000.0)},
        {"options.sigma": (1.0, 4.0, 16.0)},
    ],
    "rsiat": [{"lr": (3e-3, 1e-2, 3e-2)}, {"options.adapter_rate": (1.0, 100.0, 1000.0)}],
    "ease": [
        {"options.adapter_rate": (1.0, 100.0, 300.0, 1000.0)},
        {"options.others": (0.01, 0.03, 0.1)},
    ],
}
# Tried after the choice, since it had ended at an edge: rates of adapters between those above, and
# at the best of them SSIAT's other option again. None is better by more than a drawing or two of
# 1,800, so the choice stays as it is; docs/field.md says what it means.
RATES = (3.0, 10.0, 30.0)
LATER: dict[str, list[Choice]] = {
    "ssiat": [
        *({"lr": 3e-3, "options.adapter_rate": rate} for rate in RATES),
        *(
            {"lr": 3e-3, "options.adapter_rate": 30.0, "options.sigma": sigma}
            for sigma in (1.0, 4.0, 16.0)
        ),
    ],
    "rsiat": [{"lr": 1e-2, "options.adapter_rate": rate} for rate in RATES],
    "ease": [{"options.adapter_rate": rate} for rate in RATES],
}


def with_shared(method: str, choice: Choice) -> Run:
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


def with_own(method: str, choice: Choice) -> Run:
    run = settings(DATA, method)
    fields = {name: value for name, value in choice.items() if "." not in name}
    own = {name.removeprefix("options."): choice[name] for name in choice if "." in name}
    # What a later step will choose must not be taken from the presets, where it stands already.
    searched = {name.removeprefix("options.") for step in OWN[method] for name in step}
    others = {name: value for name, value in run.options.items() if name not in searched}
    return replace(run, **fields, options={**others, **own})


def search(
    steps: Steps, chosen: Choice, configure: Callable[[str, Choice], Run], out: Path, jobs: int
) -> tuple[Choice, list[dict[str, Any]]]:
    """The choice after all steps, and the mean A_T of everything that was tried."""
    measured = []
    for methods, options in steps:
        candidates = [
            {**chosen, **dict(zip(options, values, strict=True))}
            for values in itertools.product(*options.values())
        ]
        rows = [
            [Row(f"{method} {choice}", configure(method, choice)) for method in methods]
            for choice in candidates
        ]
        for row, seed, result in run_grid(list(itertools.chain(*rows)), SEEDS, out, jobs):
            print(f"{row.label}, seed {seed}: A_T {result['metrics']['A_T']:.2f}", flush=True)
        scores = [score(its_rows, out) for its_rows in rows]
        measured += [
            {"methods": methods, "options": {name: choice[name] for name in options}, "A_T": mean}
            for choice, mean in zip(candidates, scores, strict=True)
        ]
        chosen = candidates[int(np.argmax(scores))]
        print(f"chosen so far: {chosen}", flush=True)
    return chosen, measured


def tried_later(out: Path, jobs: int) -> list[dict[str, Any]]:
    """Return the mean A_T of what was tried after the choice."""
    measured = []
    for method, choices in LATER.items():
        rows = [Row(f"{method} {choice}", with_own(method, choice)) for choice in choices]
        for row, seed, result in run_grid(rows, SEEDS, out, jobs):
            print(f"{row.label}, seed {seed}: A_T {result['metrics']['A_T']:.2f}", flush=True)
        measured += [
            {"methods": [method], "options": choice, "A_T": score([row], out)}
            for choice, row in zip(choices, rows, strict=True)
        ]
    return measured


def score(rows: list[Row], out: Path) -> float:
    results = [folder_of(out, row, seed).result() for row in rows for seed in SEEDS]
    return round(float(np.mean([result["metrics"]["A_T"] for result in results])), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--methods", nargs="+", choices=OWN, help="these; what else was found stays"
    )
    parser.add_argument("--later", action="store_true", help="what was tried after the choice")
    args = parser.parse_args()
    if args.later:
        later = tried_later(args.out, args.jobs)
        kept = json.loads(FILE.read_text())
        FILE.write_text(json.dumps({**kept, "later": later}, indent=1) + "\n")
        return
    if args.methods:
        kept = json.loads(FILE.read_text())
        chosen, own = kept["chosen"], kept["own"]
        measured = [one for one in kept["measured"] if one["methods"][0] not in args.methods]
    else:
        chosen, measured = search(SHARED, dict(START), with_shared, args.out, args.jobs)
        own = {}
    for method in args.methods or OWN:
        steps: Steps = [((method,), step) for step in OWN[method]]
        own[method], more = search(steps, {}, with_own, args.out, args.jobs)
        measured += more
    record: dict[str, Any] = {
        "data": DATA,
        "seeds": SEEDS,
        "chosen": chosen,
        "own": own,
        "measured": measured,
    }
    if FILE.exists() and (later := json.loads(FILE.read_text()).get("later")):
        record["later"] = later
    FILE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
