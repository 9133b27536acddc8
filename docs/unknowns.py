"""How well unseen classes are rejected, with and without VOR: docs/results/unknowns.json.

python -m docs.unknowns    80 drawn classes in 8 tasks, 20 others never learned, 5 seeds
"""

import json
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "results/unknowns.json"
METHODS = ("oneprompt", "oneprompt+vor", "linear", "linear+vor")
SEEDS = range(5)
TASKS, CLASSES = 8, 10
NAMES = {
    "accuracy": "accuracy %",
    "auroc": "AUROC %",
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "false_alarms": "known called unknown %",
    "rejected": "unseen called unknown %",
}


def measure(task: tuple[str, int]) -> dict[str, Any]:
    """Teach 80 classes with one method and seed, and return how known and unseen ones fare."""
    import torch

    from ovor import Classifier
    from ovor.classifier.evaluate import auroc, fpr_at_tpr
    from ovor.classifier.prediction import predict_images
    from ovor.data.embedded import quickdraw

    method, seed = task
    torch.set_num_threads(1)
    drawings = quickdraw()
    order = np.random.default_rng(seed).permutation(len(drawings.class_names))
    known, unseen = order[: TASKS * CLASSES], order[TASKS * CLASSES :]

    def images(part: Any, classes: Any) -> tuple[list[Any], list[str]]:
        chosen = np.flatnonzero(np.isin(part.labels, classes))
        return [part.image(int(i)) for i in chosen], [
            drawings.class_names[part.labels[i]] for i in chosen
        ]

    model = Classifier("embedded", method, seed=seed)
    for classes in known.reshape(TASKS, CLASSES):
        model.learn(*images(drawings.train, classes))
    pictures, labels = images(drawings.test, known)
    inside = list(predict_images(model, pictures))
    outside = predict_images(model, images(drawings.test, unseen)[0])
    right = [found.likeliest == label for found, label in zip(inside, labels, strict=True)]
    claims = np.array([found.margin for found in inside])
    strange = np.array([found.margin for found in outside])
    return {
        "method": method,
        "seed": seed,
        "accuracy": 100 * fmean(right),
        "auroc": 100 * auroc(claims, strange),
        "fpr_at_95_tpr": 100 * fpr_at_tpr(claims, strange),
        "false_alarms": 100 * float((claims < 0).mean()),
        "rejected": 100 * float((strange < 0).mean()),
    }


def as_markdown(runs: list[dict[str, Any]]) -> str:
    """Return a table of the mean ± population standard deviation over the seeds."""
    lines = ["| | " + " | ".join(NAMES.values()) + " |", "|---" * (len(NAMES) + 1) + "|"]
    for method in dict.fromkeys(run["method"] for run in runs):
        own = [run for run in runs if run["method"] == method]
        cells = [
            f"{fmean(r[key] for r in own):.1f} ± {pstdev(r[key] for r in own):.1f}" for key in NAMES
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = []
        for run in pool.map(measure, list(product(METHODS, SEEDS))):
            print(json.dumps(run), flush=True)
            runs.append(run)
    FILE.write_text(json.dumps(runs, indent=1) + "\n")
    print(as_markdown(runs))


if __name__ == "__main__":
    main()
