"""The analytic method on the development classes: docs/results/analytic.json.

python -m docs.analytic_options              every part
python -m docs.analytic_options few orders   only these; the others' figures stay

Parts: options (depths, projection, outliers, each against unseen classes), few (images of a
class), unequal (5 images in half of the classes), orders (the same classes in other lessons).
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch

from docs.features import Encoded, accuracy, class_means, encode, learner_of, summed
from ovor import Classifier
from ovor.classifier.evaluate import auroc
from ovor.classifier.exact import solved
from ovor.classifier.prediction import predict_images
from ovor.data.embedded import quickdraw_dev
from ovor.learners.analytic import Analytic
from ovor.learners.moments import Moments

FILE = Path(__file__).parent / "results/analytic.json"
SEEDS = range(5)
KNOWN, LESSONS = 36, 4  # of 45 classes
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "depths 1": {"depths": 1},
    "depths 2": {"depths": 2},
    "projection 4000": {"projection": 4000},
    "outliers 0.01": {"outliers": 0.01},
    "outliers 0.1": {"outliers": 0.1},
}
SIZES = (1, 2, 3, 5, 10, 20, 40, 80)
FEW, MANY = 5, 80
LAST = slice(-384, -192)  # of the features: the class token after the last block


def dev(learner: Analytic) -> tuple[Encoded, Encoded]:
    """Return training and test images of the development classes."""
    drawings = quickdraw_dev()
    return encode(learner, drawings.train), encode(learner, drawings.test)


def options() -> list[dict[str, Any]]:
    """Return accuracy and AUROC with each option, by seed: 36 classes known, 9 not."""
    found = []
    for name, chosen in OPTIONS.items():
        learner = learner_of(chosen)
        train, test = dev(learner)
        for seed in SEEDS:
            order = np.random.default_rng(seed).permutation(45)
            teach(learner, train, order[:KNOWN], seed)
            now = solved(learner, learner.moments)
            inside, outside = test.of(order[:KNOWN]), test.of(order[KNOWN:])
            margins = [-now.novelty.distances(x.features.double()) for x in (inside, outside)]
            row = {
                "option": name,
                "seed": seed,
                "accuracy": accuracy(learner.logits(inside.features), inside.labels),
                "auroc": 100 * auroc(*(x.numpy() for x in margins)),
                "numbers": sum(x.numel() for x in learner.moments.state().values()),
            }
            print(row, flush=True)
            found.append(row)
    return found


def teach(learner: Analytic, train: Encoded, classes: Any, seed: int) -> None:
    """Sum up the classes; where outliers are wanted, those of each of four lessons."""
    learner.moments = summed(learner, train.of(classes), len(classes))
    if learner.outliers is None:
        return
    learner.outliers = Moments.empty(learner.moments.width).grown(1)
    for number, lesson in enumerate(classes.reshape(LESSONS, -1)):
        learner.start = len(classes) - len(lesson)  # by which it counts the lesson's classes
        learner.add_outliers(train.of(lesson).features, (seed, number))


def few() -> list[dict[str, Any]]:
    """Return accuracy by the number of images of every class."""
    learner = learner_of({})
    train, test = dev(learner)
    found = []
    for each in SIZES:
        for seed in SEEDS:
            row = compared(learner, train.of(range(45), each, seed), test)
            found.append({"images": each, "seed": seed, **row})
            print(found[-1], flush=True)
    return found


def compared(learner: Analytic, own: Encoded, test: Encoded) -> dict[str, float]:
    """Return the accuracy of class means and of the analytic head."""
    last = Encoded(own.features[:, LAST], own.labels)
    solved(learner, summed(learner, own, 45))
    heads = {
        "last": class_means(last, test.features[:, LAST], 45),
        "means": class_means(own, test.features, 45),
        "analytic": learner.logits(test.features),
    }
    return {name: accuracy(logits, test.labels) for name, logits in heads.items()}


def unequal() -> list[dict[str, Any]]:
    """Return the recall of small and large classes, half of them each."""
    learner = learner_of({})
    train, test = dev(learner)
    found = []
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(45)
        small, large = order[:22], order[22:]
        own = train.of(small, FEW, seed).and_of(train.of(large, MANY, seed), len(small))
        solved(learner, summed(learner, own, 45))
        row: dict[str, Any] = {"seed": seed}
        for name, part, shift in (("small", small, 0), ("large", large, len(small))):
            asked = test.of(part)
            for head, logits in (
                ("means", class_means(own, asked.features, 45)),
                ("analytic", learner.logits(asked.features)),
            ):
                row[f"{head}_{name}"] = accuracy(logits, asked.labels + shift)
        print(row, flush=True)
        found.append(row)
    return found


def cuts() -> dict[str, list[list[int]]]:
    """Return 20 classes in five orders and cuts of lessons."""
    backwards = list(range(20))[::-1]
    draw = np.random.default_rng(0)
    shuffled, again = draw.permutation(20).tolist(), draw.permutation(20).tolist()
    return {
        "one lesson": [list(range(20))],
        "2 lessons of 10, backwards": [backwards[:10], backwards[10:]],
        "4 lessons of 5, shuffled": [shuffled[i : i + 5] for i in range(0, 20, 5)],
        "10 lessons of 2, shuffled again": [again[i : i + 2] for i in range(0, 20, 2)],
        "20 lessons of 1": [[i] for i in range(20)],
    }


def orders() -> list[dict[str, Any]]:
    """Return how far the same classes in other lessons give another model than in one."""
    drawings, found, first = quickdraw_dev(), [], None
    pictures = [drawings.test.image(int(i)) for i in np.flatnonzero(drawings.test.labels < 20)]
    for name, lessons in cuts().items():
        model = Classifier("embedded")
        for lesson in lessons:
            chosen = [int(i) for c in lesson for i in np.flatnonzero(drawings.train.labels == c)]
            names = [drawings.class_names[drawings.train.labels[i]] for i in chosen]
            model.learn([drawings.train.image(i) for i in chosen], names)
        by_name = np.argsort(model.classes_.astype(str))
        learner = model.exact("compare")
        answers = list(predict_images(model, pictures))
        now = {
            "sums": torch.cat(
                [learner.moments.sums[by_name].flatten(), learner.moments.second.flatten()]
            ),
            "head": learner.weights[:, by_name],
            "probabilities": torch.tensor(np.array([x.probabilities[by_name] for x in answers])),
            "answers": torch.tensor(
                [float(by_name.argsort()[x.probabilities.argmax()]) for x in answers]
            ),
            "unknown": torch.tensor([float(x.unknown) for x in answers]),
            "threshold": torch.tensor(model.memory().calibration.threshold(0.05)),
        }
        first = first or now
        row = {"lessons": name, **differences(now, first)}
        print(row, flush=True)
        found.append(row)
    return found


def differences(now: dict[str, Any], first: dict[str, Any]) -> dict[str, float]:
    """Return how far two models are apart."""
    moved = (now["probabilities"] - first["probabilities"]).abs()
    return {
        "sums": float((now["sums"] - first["sums"]).abs().max()),
        "head": float((now["head"] - first["head"]).abs().max() / first["head"].abs().max()),
        "probability": 100 * float(moved.max()),
        "confidence": 100 * float(moved.amax(1).mean()),
        "answers": 100 * float((now["answers"] != first["answers"]).double().mean()),
        "threshold": float(now["threshold"]),
        "unknown": 100 * float(now["unknown"].mean()),
    }


# --- as tables


def spread(values: Sequence[float]) -> str:
    """Return mean ± population standard deviation."""
    return f"{fmean(values):.1f} ± {pstdev(values):.1f}"


def column(rows: list[dict[str, Any]], key: str) -> str:
    return spread([row[key] for row in rows])


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows).replace("| --- ", "|---")


def grouped(rows: list[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    return {
        value: [r for r in rows if r[key] == value] for value in dict.fromkeys(r[key] for r in rows)
    }


def options_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        [name, column(own, "accuracy"), column(own, "auroc"), f"{own[0]['numbers'] / 1e6:.2f}"]
        for name, own in grouped(rows, "option").items()
    ]
    return table(["", "accuracy %", "AUROC %", "numbers kept, millions"], lines)


def few_table(rows: list[dict[str, Any]]) -> str:
    heads = {
        "last": "class means, class token",
        "means": "class means, same features",
        "analytic": "analytic",
    }
    lines = [
        [str(each), *(column(own, key) for key in heads)]
        for each, own in grouped(rows, "images").items()
    ]
    return table(["images of a class", *heads.values()], lines)


def unequal_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for key, name in (("means", "class means, same features"), ("analytic", "analytic")):
        both = [(row[f"{key}_small"] + row[f"{key}_large"]) / 2 for row in rows]
        small, large = column(rows, f"{key}_small"), column(rows, f"{key}_large")
        lines.append([name, small, large, spread(both)])
    return table(["", f"{FEW} images: right %", f"{MANY} images: right %", "mean"], lines)


def orders_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        [
            row["lessons"],
            f"{row['sums']:g}",
            f"{row['head']:.0e}" if row["head"] else "0",
            f"{row['confidence']:.1f}",
            f"{row['probability']:.1f}",
            f"{row['answers']:.1f}",
            f"{row['threshold']:.3f}",
            f"{row['unknown']:.1f}",
        ]
        for row in rows
    ]
    moved = ["probability, on average", "at most"]  # of the one that moves most, of each image
    heads = ["sums", "head, relative", *moved, "other answers %"]
    return table(["", *heads, "threshold", "known called unknown %"], lines)


PARTS = {
    "options": (options, options_table),
    "few": (few, few_table),
    "unequal": (unequal, unequal_table),
    "orders": (orders, orders_table),
}


def main(names: Sequence[str]) -> None:
    torch.set_num_threads(1)
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names:
        measure, as_table = PARTS[name]
        found[name] = measure()
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        print(as_table(found[name]))


if __name__ == "__main__":
    main(sys.argv[1:] or tuple(PARTS))
