"""Result folders without any training: random but possible numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ovor.config import RUN, Run
from ovor.experiments.diagnostics import BINS, POINTS
from ovor.experiments.diagnostics import SCHEMA as CLOSEUP
from ovor.learners import METHODS, takes_vor
from ovor.metrics import all_metrics
from ovor.presets import settings

TASKS, CLASSES, TEST = 10, 10, 200


def every_method() -> list[Run]:
    names = [m + vor for m in METHODS for vor in ("", "+vor") if not vor or takes_vor(m)]
    return [settings("quickdraw", name) for name in names]


BY_CLASS = ("class_names", "class_images", "class_right", "mistakes")


def write(path: Path, run: Run, closeup: bool = True, older: bool = False) -> dict[str, Any]:
    """Write a finished run, of which no weights are left; `older`: that knew nothing of classes."""
    path.mkdir(parents=True)
    rng = np.random.default_rng([run.seed, *run.name.encode()])
    (path / "run.json").write_bytes(RUN.dump_json(run))
    result = {k: v for k, v in result_of(run, rng).items() if not (older and k in BY_CLASS)}
    (path / "result.json").write_text(json.dumps(result))
    (path / "events.jsonl").write_text("\n".join(map(json.dumps, events_of(run))))
    if closeup:
        found = {k: v for k, v in closeup_of(rng).items() if not (older and k in BY_CLASS)}
        (path / "closeup.json").write_text(json.dumps(found))
    return result


def matrix(rng: np.random.Generator) -> list[list[float | None]]:
    rows = rng.uniform(20, 90, (TASKS, TASKS)).round(3).tolist()
    return [[x if i <= t else None for i, x in enumerate(row)] for t, row in enumerate(rows)]


def result_of(run: Run, rng: np.random.Generator) -> dict[str, Any]:
    accuracy = matrix(rng)
    return {
        "schema": 1,
        "method": run.name,
        "data": run.data,
        "seed": run.seed,
        "tasks": [CLASSES] * TASKS,
        "class_order": list(range(TASKS * CLASSES)),
        "class_names": [f"thing {label}" for label in range(TASKS * CLASSES)],
        "class_images": [TEST // CLASSES] * TASKS * CLASSES,
        "class_right": [
            rng.integers(0, TEST // CLASSES, CLASSES * (task + 1)).tolist() for task in range(TASKS)
        ],
        "accuracy": accuracy,
        "accuracy_task_id_given": matrix(rng),
        "metrics": all_metrics(np.array(accuracy, dtype=float), [TEST] * TASKS),
        "seconds": 61.5,
        "learnable_parameters": 0 if run.method == "simplecil" else 46_180,
        "device": "cpu",
        "precision": "fp32",
        "backbone": {"name": run.backbone, "source": "here", "sha256": "ab" * 32},
        "versions": {"ovor": "0.1.0", "torch": "2", "threads": 1},
    }


def events_of(run: Run) -> list[dict[str, Any]]:
    """Two seconds an epoch and one for the tests."""
    found: list[dict[str, Any]] = [{"event": "begin", "task": 0, "epochs": [run.epochs] * TASKS}]
    seconds = 0
    for task in range(TASKS):
        for epoch in range(run.epochs):
            seconds += 2
            found.append({"event": "epoch", "task": task, "epoch": epoch, "seconds": seconds})
        seconds += 1
        found.append({"event": "task", "task": task, "seconds": seconds})
    return found


def closeup_of(rng: np.random.Generator) -> dict[str, Any]:
    counts = rng.multinomial(TEST, [1 / TASKS] * TASKS, TASKS)
    points = rng.normal(0, 5, (3, POINTS, 2)).round(3).tolist()
    kinds = ("own", "outliers", "earlier", "later")
    return {
        "schema": CLOSEUP,
        "confusion": counts.tolist(),
        "right": (counts.diagonal() // 2).tolist(),
        "mistakes": [[0, 1, 7, [[0, "gone"]]], [1, 0, 3, []]],
        "macs": 40_893_888,
        "middle_task": TASKS // 2,
        "energies": {
            "low": -20.0,
            "high": 1.0,
            "counts": {kind: rng.integers(0, 30, BINS).tolist() for kind in kinds},
            "means": dict.fromkeys(kinds, -5.0),
        },
        "plane": {
            "shares": [0.1, 0.05],
            "labels": rng.integers(0, CLASSES, POINTS).tolist(),
            **dict(zip(("features", "boundary", "outliers"), points, strict=True)),
        },
    }
