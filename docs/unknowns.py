"""How well unseen classes are rejected, and how sure answers may be: docs/results/unknowns.json.

python -m docs.unknowns                  all methods: 80 drawn classes in 8 lessons, 20 others
                                         never learned, 5 seeds (analytic: 20, as it is quick)
python -m docs.unknowns analytic         only these methods; the others' figures stay

With `analytic` also: false alarms where classes differ in size, and, after the 20 other classes are
learned too in two more lessons, how often answers of a certain confidence are right.
"""

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np

FILE = Path(__file__).parent / "results/unknowns.json"
METHODS = ("analytic", "oneprompt", "oneprompt+vor", "linear", "linear+vor")
SEEDS, MORE_SEEDS = range(5), range(20)  # the newest lesson alone is too small a sample in 5
TASKS, CLASSES, FEW = 8, 10, 5
BINS = 15
NAMES = {
    "accuracy": "accuracy %",
    "auroc": "AUROC %",
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "false_alarms": "known called unknown %",
    "false_alarms_old": "in earlier lessons",
    "false_alarms_new": "in the last",
    "rejected": "unseen called unknown %",
}
SIZES = {
    "few_accuracy": "5 images: right %",
    "few_false_alarms": "5 images: called unknown %",
    "many_accuracy": "80 images: right %",
    "many_false_alarms": "80 images: called unknown %",
}
CONFIDENCE = {
    "calibration_error": "calibration error, points",
    "confidence": "confidence, on average",
    "right": "right %",
    "sure": "90 % sure or more, %",
    "sure_right": "right of these %",
}


def measure(task: tuple[str, int]) -> dict[str, Any]:
    """Teach 80 classes with one method and seed, and return how known and unseen ones fare."""
    import torch

    from ovor.data.embedded import quickdraw

    method, seed = task
    torch.set_num_threads(1)
    drawings = quickdraw()
    order = np.random.default_rng(seed).permutation(len(drawings.class_names))
    lessons = order.reshape(-1, CLASSES)
    found = {"method": method, "seed": seed}
    model, figures = unseen_rejected(drawings, method, seed, lessons)
    found |= figures
    if method == "analytic":
        found |= confidences_right(drawings, model, lessons)
        found |= sizes_alike(drawings, method, seed, lessons[:TASKS])
    return found


def unseen_rejected(drawings: Any, method: str, seed: int, lessons: Any) -> tuple[Any, Any]:
    """Return a model that was taught the first lessons, and how it rejects the other classes."""
    from ovor import Classifier
    from ovor.classifier.evaluate import auroc, fpr_at_tpr

    model = Classifier("embedded", method, seed=seed)
    for classes in lessons[:TASKS]:
        model.learn(*images(drawings, drawings.train, classes))
    right, claims, _ = answers(model, drawings, lessons[:TASKS])
    _, strange, _ = answers(model, drawings, lessons[TASKS:])
    last = len(claims) // TASKS  # `answers` goes lesson by lesson
    return model, {
        "accuracy": 100 * float(right.mean()),
        "auroc": 100 * auroc(claims, strange),
        "fpr_at_95_tpr": 100 * fpr_at_tpr(claims, strange),
        "false_alarms": 100 * float((claims < 0).mean()),
        "false_alarms_old": 100 * float((claims[:-last] < 0).mean()),
        "false_alarms_new": 100 * float((claims[-last:] < 0).mean()),
        "rejected": 100 * float((strange < 0).mean()),
    }


def confidences_right(drawings: Any, model: Any, lessons: Any) -> dict[str, float]:
    """Teach the other classes too; return whether answers are right as often as they say."""
    for classes in lessons[TASKS:]:
        model.learn(*images(drawings, drawings.train, classes))
    right, _, confidences = answers(model, drawings, lessons)
    sure = confidences >= 0.9
    return {
        "calibration_error": 100 * calibration_error(confidences, right),
        "confidence": 100 * float(confidences.mean()),
        "right": 100 * float(right.mean()),
        "sure": 100 * float(sure.mean()),
        "sure_right": 100 * float(right[sure].mean()),
    }


def sizes_alike(drawings: Any, method: str, seed: int, lessons: Any) -> dict[str, float]:
    """Return false alarms where half of the classes have few images and the others all."""
    from ovor import Classifier

    model = Classifier("embedded", method, seed=seed)
    half = CLASSES // 2
    for classes in lessons:
        few = images(drawings, drawings.train, classes[:half], FEW)
        many = images(drawings, drawings.train, classes[half:])
        model.learn(few[0] + many[0], few[1] + many[1])
    found = {}
    for name, part in (("few", lessons[:, :half]), ("many", lessons[:, half:])):
        right, claims, _ = answers(model, drawings, part)
        found[f"{name}_accuracy"] = 100 * float(right.mean())
        found[f"{name}_false_alarms"] = 100 * float((claims < 0).mean())
    return found


def images(
    drawings: Any, part: Any, classes: Any, each: int | None = None
) -> tuple[list[Any], list[str]]:
    """Return the first images of each class, and their names."""
    chosen = [int(i) for c in classes for i in np.flatnonzero(part.labels == c)[:each]]
    return [part.image(i) for i in chosen], [drawings.class_names[part.labels[i]] for i in chosen]


def answers(model: Any, drawings: Any, lessons: Any) -> tuple[Any, Any, Any]:
    """Return of each test image whether it is named right, its margin and the confidence."""
    from ovor.classifier.prediction import predict_images

    pictures, labels = images(drawings, drawings.test, np.asarray(lessons).ravel())
    found = list(predict_images(model, pictures))
    right = [one.likeliest == label for one, label in zip(found, labels, strict=True)]
    return (
        np.array(right),
        np.array([one.margin for one in found]),
        np.array([one.confidence for one in found]),
    )


def calibration_error(confidences: Any, right: Any) -> float:
    """Return by how much confidences differ from how often they are right, over equal bins."""
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == b).mean() * abs(confidences[bins == b].mean() - right[bins == b].mean())
        for b in np.unique(bins)
    ]
    return float(sum(gaps))


def as_markdown(runs: list[dict[str, Any]], names: dict[str, str] = NAMES) -> str:
    """Return a table of the mean ± population standard deviation over the seeds."""
    lines = ["| | " + " | ".join(names.values()) + " |", "|---" * (len(names) + 1) + "|"]
    for method in dict.fromkeys(run["method"] for run in runs):
        own = [run for run in runs if run["method"] == method]
        if not any(key in run for key in names for run in own):
            continue
        name = f"{method} ({len(own)} seeds)"
        lines.append(f"| {name} | " + " | ".join(cell(own, key) for key in names) + " |")
    return "\n".join(lines) + "\n"


def cell(runs: list[dict[str, Any]], key: str) -> str:
    """Return mean ± deviation, or nothing if it was not measured."""
    values = [run[key] for run in runs if key in run]
    return f"{fmean(values):.1f} ± {pstdev(values):.1f}" if values else ""


def seeds_of(method: str) -> range:
    """Return the seeds to measure a method with."""
    return MORE_SEEDS if method == "analytic" else SEEDS


def main(methods: Sequence[str]) -> None:
    kept = [run for run in json.loads(FILE.read_text()) if run["method"] not in methods]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = []
        for run in pool.map(measure, [(m, seed) for m in methods for seed in seeds_of(m)]):
            print(json.dumps(run), flush=True)
            runs.append(run)
    found = sorted(kept + runs, key=lambda run: (METHODS.index(run["method"]), run["seed"]))
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    for names in (NAMES, SIZES, CONFIDENCE):
        print(as_markdown(found, names))


if __name__ == "__main__":
    main(sys.argv[1:] or METHODS)
