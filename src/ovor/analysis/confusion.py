"""The numbers beside Figure 1: how often the toy takes one task's points for another's.

With VOR and without, for the seed of the picture and over many.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch
from rich.console import Group
from rich.table import Table
from rich.text import Text
from torch import Tensor

from ovor.analysis.toy import CLASSES, TEST, Points, Toy, Trained, draw_points, train_toy
from ovor.losses import energy

ROWS = ("without VOR", "with VOR")


@dataclass(frozen=True)
class Sample:
    """A held-out point of class 1 that is taken for class 3 without VOR and is right with it."""

    position: tuple[float, float]
    scores: dict[str, tuple[float, ...]]  # by row, of the four classes
    of: int  # how many points are like it


@dataclass(frozen=True)
class Pair:
    """The trained heads of both rows of the picture, which differ in VOR alone."""

    seed: int
    test: Points
    rows: dict[str, Trained]


def train_pair(toy: Toy, seed: int) -> Pair:
    test = draw_points(toy, toy.test, seed, TEST)
    without, with_vor = (train_toy(toy, seed, vor) for vor in (None, toy.vor))
    return Pair(seed, test, dict(zip(ROWS, (without, with_vor), strict=True)))


@torch.no_grad()
def measure(toy: Toy, pair: Pair) -> dict[str, Any]:
    """Return shares of the held-out points in percent, and the energy of VOR's last outliers."""
    outliers = pair.rows["with VOR"].outliers
    nearest = torch.cdist(pair.test.features, torch.tensor(toy.means)).argmin(1)
    return {
        "seed": pair.seed,
        "best_possible": share(nearest == pair.test.labels),
        **{row: measure_row(trained, pair.test, outliers) for row, trained in pair.rows.items()},
    }


def measure_row(trained: Trained, test: Points, outliers: tuple[Tensor, ...]) -> dict[str, float]:
    scores = trained.classifier(test.features)
    predicted, task = scores.argmax(1), test.labels // CLASSES
    inside = scores.unflatten(1, (-1, CLASSES))[torch.arange(len(task)), task]
    energies = [
        energy(part(trained.classifier.lift(outside)))
        for part, outside in zip(trained.classifier.head.tasks, outliers, strict=True)
    ]
    return {
        "accuracy": share(predicted == test.labels),
        "accuracy_task_id_given": share(inside.argmax(1) == test.labels % CLASSES),
        "inter_task_confusion": share(predicted // CLASSES != task),
        "outlier_energy": float(torch.cat(energies).mean()),
    }


def share(right: Tensor) -> float:
    return 100 * int(right.sum()) / len(right)


@torch.no_grad()
def find_sample(toy: Toy, pair: Pair) -> Sample | None:
    """Return the point nearest the middle of its class: the most usual one, not the best."""
    first = pair.test.features[pair.test.labels == 0]
    scores = {row: trained.classifier(first) for row, trained in pair.rows.items()}
    wrong, right = (scores[row].argmax(1) for row in ROWS)
    (found,) = torch.nonzero((wrong == CLASSES) & (right == 0), as_tuple=True)
    if not len(found):
        return None
    x = found[(first[found] - torch.tensor(toy.means[0])).norm(dim=1).argmin()]
    a, b = first[x].tolist()
    return Sample((a, b), {row: tuple(s[x].tolist()) for row, s in scores.items()}, len(found))


def numbers(toy: Toy, pair: Pair, seeds: Iterable[int]) -> dict[str, Any]:
    """Return all that the command prints: the picture's seed, its sample, the mean over seeds."""
    sample = find_sample(toy, pair)
    each = [measure(toy, pair if seed == pair.seed else train_pair(toy, seed)) for seed in seeds]
    return {
        "toy": asdict(toy),
        "picture": measure(toy, pair),
        "sample": asdict(sample) if sample else None,
        "seeds": each,
        "mean": mean_over_seeds(each) if each else None,
    }


def mean_over_seeds(each: list[dict[str, Any]]) -> dict[str, Any]:
    without, with_vor = ([one[row] for one in each] for row in ROWS)
    pairs = list(zip(without, with_vor, strict=True))
    return {
        "seeds": len(each),
        "best_possible": fmean(one["best_possible"] for one in each),
        **{row: {key: fmean(one[row][key] for one in each) for key in without[0]} for row in ROWS},
        "vor_more_accurate": sum(v["accuracy"] > w["accuracy"] for w, v in pairs),
        "vor_less_confused": sum(
            v["inter_task_confusion"] < w["inter_task_confusion"] for w, v in pairs
        ),
    }


def as_tables(found: dict[str, Any]) -> Group:
    picture, mean = found["picture"], found["mean"]
    lines: list[Any] = [table_of(picture, f"Seed {picture['seed']}")]
    lines.append(Text(sentence_of(found["sample"])))
    if mean:
        better = (
            f"VOR is more accurate with {mean['vor_more_accurate']} and confuses the tasks "
            f"less with {mean['vor_less_confused']} of {mean['seeds']} seeds."
        )
        lines += ["", table_of(mean, f"Mean over {mean['seeds']} seeds"), Text(better)]
    return Group(*lines)


def table_of(row: dict[str, Any], title: str) -> Table:
    table = Table("held-out points", title=title, title_justify="left")
    for name in ROWS:
        table.add_column(name, justify="right")
    for key, words in {
        "accuracy": f"accuracy, % (best possible: {row['best_possible']:.1f})",
        "accuracy_task_id_given": "accuracy with the task given, %",
        "inter_task_confusion": "taken for the other task, %",
    }.items():
        table.add_row(words, *(f"{row[name][key]:.1f}" for name in ROWS))
    table.add_row("mean energy of the outliers", *(f"{row[n]['outlier_energy']:.1f}" for n in ROWS))
    return table


def sentence_of(sample: dict[str, Any] | None) -> str:
    if sample is None:
        return (
            "No held-out point of class 1 is taken for class 3 without VOR and right with it, "
            "so none is marked."
        )
    scores = [
        f"{row} class 1 has {sample['scores'][row][0]:.1f}, class 3 {sample['scores'][row][2]:.1f}"
        for row in ROWS
    ]
    return f"The marked x is one of {sample['of']} such points of class 1: {'; '.join(scores)}."
