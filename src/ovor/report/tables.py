"""The tables of the page: each cell's text, and the value in full behind it."""

from dataclasses import dataclass
from typing import Any

from ovor.report.classes import ClassFigures
from ovor.report.numbers import ERRORS, METRICS
from ovor.report.records import ENERGY_WORDS
from ovor.report.runs import Group, listing
from ovor.report.vega import Records

MOST_NAMES = 25  # classes of a task that are named


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None  # in full
    std: float | None = None
    heading: bool = False
    long: bool = False  # text that may be broken into lines


@dataclass(frozen=True)
class Table:
    name: str
    caption: str
    headings: list[str]
    rows: list[list[Cell]]


def name_cell(text: str) -> Cell:
    return Cell(text, heading=True)


def figure(value: float | None) -> Cell:
    return Cell("" if value is None else f"{value:.2f}", value)


def accuracy_table(group: Group, table: Records) -> Table:
    """Return A_T and F_T of every method, beside the paper's where it has any."""
    with_paper = any(row[f"{name}_paper"] is not None for row in table for name in METRICS)
    paper = [f"paper's {name} ({group.where})" for name in METRICS] if with_paper else []
    headings = ["method", "seeds", "A_T ↑ (%)", "F_T ↓ (points)", *paper]
    return Table(
        "accuracy",
        f"Accuracy and forgetting, {group.title}",
        [*headings, "learned parameters", "seconds"],
        [accuracy_cells(row, with_paper) for row in table],
    )


def accuracy_cells(row: dict[str, Any], with_paper: bool) -> list[Cell]:
    many, parameters = len(row["seeds"]) > 1, row["learnable_parameters"]
    cells = [name_cell(row["method"]), Cell(str(len(row["seeds"])), len(row["seeds"]))]
    for name in METRICS:
        mean, std = row[f"{name}_mean"], row[f"{name}_std"]
        cells.append(Cell(f"{mean:.2f} ± {std:.2f}" if many else f"{mean:.2f}", mean, std))
    for name in METRICS if with_paper else ():
        value, std = row[f"{name}_paper"], row[f"{name}_paper_std"]
        text = "" if value is None else f"{value:.2f}" + (f" ± {std:.2f}" if std else "")
        cells.append(Cell(text, value, std))
    seconds = Cell(f"{row['seconds']:.0f}", row["seconds"])
    return [*cells, Cell(f"{parameters:,}", parameters), seconds]


def difference_table(differences: Records) -> Table:
    rows = []
    for one in differences:
        seeds = one["A_T"]["seeds"]
        cells = [name_cell(f"{one['method']} vs. {one['against']}"), Cell(str(seeds), seeds)]
        cells += [Cell(interval(one[name]), one[name]["mean"]) for name in METRICS]
        rows.append([*cells, Cell(verdict(one["A_T"]))])
    headings = ["difference", "seeds", *METRICS, "in A_T"]
    return Table("differences", "Differences over paired seeds, in points", headings, rows)


def interval(found: dict[str, Any]) -> str:
    if found["low"] is None:
        return f"{found['mean']:+.2f}"
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def verdict(found: dict[str, Any]) -> str:
    if found["clear"] is None:
        return "one seed"
    if not found["clear"]:
        return "not told from 0"
    return "higher" if found["mean"] > 0 else "lower"


def error_table(table: Records) -> Table:
    return Table(
        "errors",
        "Errors after the last task, in percent of all test examples; the share between tasks is "
        "of the errors, beside what guessing among the wrong classes would give",
        [
            "method",
            "errors (%)",
            "between tasks",
            "within tasks",
            "share between (%)",
            "by guessing (%)",
        ],
        [
            [name_cell(row["method"]), *(figure(row[name]) for name in ERRORS)]
            for row in table
            if row["errors"] is not None
        ],
    )


def task_table(tasks: list[list[str]]) -> Table:
    """Return the classes of every task."""
    rows = [
        [name_cell(str(number)), Cell(listing(names, MOST_NAMES), long=True)]
        for number, names in enumerate(tasks, 1)
    ]
    return Table("tasks", "The classes of each task", ["task", "classes"], rows)


def class_table(method: str, classes: list[ClassFigures]) -> Table:
    """Return classes with what was right of them, and the interval that so few images leave."""
    learned = any(one.percent_learned is not None for one in classes)
    headings = ["class", "test examples", *["when learned (%)"] * learned, "at the end (%)"]
    rows = []
    for one in classes:
        low, high = one.interval
        images = one.images // one.runs  # every seed has the same
        cells = [name_cell(one.name), Cell(str(images), images)]
        before = one.percent_learned
        cells += [Cell("" if before is None else f"{before:.0f}", before)] * learned
        cells.append(Cell(f"{one.percent:.0f}", one.percent))
        rows.append([*cells, Cell(f"{low:.0f} to {high:.0f}")])
    caption = f"The classes that {method} names right least often"
    return Table("classes", caption, [*headings, "95 % interval"], rows)


def energy_table(means: Records) -> Table:
    kinds = [kind for kind in ENERGY_WORDS.values() if any(kind in one for one in means)]
    return Table(
        "energies",
        "Mean energies at the head of the middle task",
        ["method", *kinds],
        [[name_cell(one["method"]), *(figure(one.get(kind)) for kind in kinds)] for one in means],
    )
