"""How true the estimate is of what older classes lost in a lesson: docs/results/older.json.

python -m docs.older    the 45 development classes in 5 lessons, 3 seeds, with 10, 40 and 80
                        images of each class

After every lesson the older classes' losses are estimated from the sums, and measured on 20 test
images of each: a single image is 5 points, so the measure itself scatters.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).parent / "results/older.json"
EACH, SEEDS, LESSONS = (10, 40, 80), range(3), 5
MUCH, LITTLE = 5.0, 2.0  # points
NAMES = {
    "classes": "older classes looked at",
    "estimated": "lost by the estimate, points",
    "measured": "lost as measured, points",
    "apart": "apart, on average",
    "ranks": "rank correlation",
    "much": "measured where 5 or more were estimated",
    "little": "measured where less than 2 were estimated",
    "taker": "class that takes most guessed right %",
}
Floats = NDArray[np.float64]


def images(part: Any, names: Any, classes: Any, most: int | None = None) -> tuple[Any, list[str]]:
    """Return images of some classes and their labels."""
    rows = [i for c in classes for i in np.flatnonzero(part.labels == c)[:most]]
    return [part.image(int(i)) for i in rows], [names[part.labels[i]] for i in rows]


def lesson_by_lesson(each: int, seed: int) -> list[tuple[float, float, str | None, str | None]]:
    """Return estimated and measured loss of each older class, and which new class took most."""
    from ovor import Classifier
    from ovor.data.embedded import quickdraw_dev

    drawings = quickdraw_dev()
    names = drawings.class_names
    order = np.random.default_rng(seed).permutation(len(names))
    model, before = Classifier("embedded", device="cpu"), dict[str, float]()
    found = []
    for classes in np.array_split(order, LESSONS):
        model.learn(*images(drawings.train, names, classes, each))
        known = model.classes_.tolist()
        asked, truth = images(drawings.test, names, [names.index(name) for name in known])
        said = np.array(known)[model.decision_function(asked).argmax(1)]
        own = {n: said[np.array(truth) == n] for n in known}
        now = {name: 100 * float((answers == name).mean()) for name, answers in own.items()}
        new = {names[c] for c in classes}
        for one in (model.report_ or {})["older"]["classes"]:
            name = one["class"]
            taken = [answer for answer in own[name].tolist() if answer in new]
            most = max(sorted(set(taken)), key=taken.count) if taken else None
            found.append((one["lost"], before[name] - now[name], one["to"], most))
        before = now
    return found


def ranks(values: Floats) -> Floats:
    """Return the places of values in their order; equal ones share theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle: Floats = (ends - (counts - 1) / 2)[places]
    return middle


def figures(each: int) -> dict[str, float]:
    """Return how the estimates compare with what was measured."""
    rows = [row for seed in SEEDS for row in lesson_by_lesson(each, seed)]
    lost, true = (np.array([row[i] for row in rows], np.float64) for i in (0, 1))
    hard = [row for row in rows if row[1] >= 2 * MUCH]
    return {
        "each": each,
        "classes": len(rows),
        "estimated": float(lost.mean()),
        "measured": float(true.mean()),
        "apart": float(np.abs(lost - true).mean()),
        "ranks": float(np.corrcoef(ranks(lost), ranks(true))[0, 1]),
        "much": float(true[lost >= MUCH].mean()),
        "little": float(true[lost < LITTLE].mean()),
        "taker": 100 * float(np.mean([row[2] == row[3] for row in hard])),
    }


def as_markdown(found: list[dict[str, float]]) -> str:
    """Return the table of docs/exact-memory.md."""
    lines = ["| images of a class | " + " | ".join(NAMES.values()) + " |", "|---" * 9 + "|"]
    for row in found:
        cells = [f"{row[name]:.2f}" if name == "ranks" else f"{row[name]:.1f}" for name in NAMES]
        cells[0] = f"{row['classes']:g}"
        lines.append(f"| {row['each']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    import torch

    torch.set_num_threads(1)
    FILE.write_text(json.dumps([figures(each) for each in EACH], indent=1) + "\n")


if __name__ == "__main__":
    main()
