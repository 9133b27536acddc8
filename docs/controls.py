"""How much of Figure 1 is the toy: its accuracy with one thing changed at a time.

Writes docs/results/boundaries-controls.json and the table in docs/boundaries.md, in minutes.

    python docs/controls.py
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.progress import track

from ovor.analysis.confusion import ROWS, measure, train_pair
from ovor.analysis.toy import Toy

DOCS = Path(__file__).parent
SEEDS = range(10)
TOY = Toy()
VARIANTS = {
    "nothing": TOY,
    "classes on a square, tasks left and right": replace(
        TOY, means=((-2.0, 2.0), (-2.0, -2.0), (2.0, 2.0), (2.0, -2.0))
    ),
    "classes on a square, each task on a diagonal": replace(
        TOY, means=((-2.0, 2.0), (2.0, -2.0), (2.0, 2.0), (-2.0, -2.0))
    ),
    "learning rate of the paper, 0.001": replace(TOY, lr=0.001),
    "current term only": replace(TOY, vor=replace(TOY.vor, terms="current")),
    "outlier term only": replace(TOY, vor=replace(TOY.vor, terms="outlier")),
}


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    lines = ["| changed | without VOR | with VOR | VOR is better with |", "|---|---|---|---|"]
    for name, each in found.items():
        without, with_vor = ([one[row]["accuracy"] for one in each] for row in ROWS)
        better = sum(b > a for a, b in zip(without, with_vor, strict=True))
        cells = f"{fmean(without):.1f} | {fmean(with_vor):.1f} | {better} of {len(each)} seeds"
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    todo = [(name, seed) for name in VARIANTS for seed in SEEDS]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    for name, seed in track(todo, "toys"):
        found[name].append(measure(VARIANTS[name], train_pair(VARIANTS[name], seed)))
    results = DOCS / "results/boundaries-controls.json"
    results.write_text(json.dumps(found, indent=1) + "\n")
    document = DOCS / "boundaries.md"
    block = f"<!-- controls -->\n{table(found)}\n<!-- /controls -->"
    marked = re.compile("<!-- controls -->.*?<!-- /controls -->", re.DOTALL)
    document.write_text(marked.sub(lambda _: block, document.read_text()))


if __name__ == "__main__":
    main()
