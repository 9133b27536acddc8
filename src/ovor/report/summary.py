"""The first sentences of the page: how good, against what, and what was lost."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean, pstdev
from typing import Any

from ovor.metrics import wilson
from ovor.report.classes import ClassFigures, task_images
from ovor.report.runs import Finished, Group, Row

JOINT = "joint"  # the method that learns all data at once
MOST_LOST = 3  # classes that are named
EACH = 4  # methods up to which every one has its sentence
DRAWINGS = ("quickdraw", "quickdraw-dev")


@dataclass(frozen=True)
class Bound:
    """What is reached with all data at once, and how that is known."""

    accuracy: float
    source: str


def sentences(group: Group, classes: dict[str, list[ClassFigures]]) -> list[str]:
    """Say how good each method is; of many, the best one and the first."""
    bound = bound_of(group)
    return [sentence(row, bound, classes.get(row.label, [])) for row in worth_saying(group.rows)]


def sources(group: Group) -> list[str]:
    """Say where the figure for all data at once is from, and how sure the figures are."""
    bound, many = bound_of(group), any(len(row.runs) > 1 for row in group.rows)
    spread = "± is the standard deviation over seeds." if many else ""
    told = f"All data at once: {bound.source}." if bound else ""
    return [" ".join(filter(None, (told, spread)))] if told or spread else []


def worth_saying(rows: list[Row]) -> list[Row]:
    """Return all rows if they are few; else the best and the first that do not have all at once."""
    if len(rows) <= EACH:
        return rows
    learning = [row for row in rows if several_tasks(row)] or rows
    best = max(learning, key=accuracy_of)
    return [best] if best is learning[0] else [best, learning[0]]


def sentence(row: Row, bound: Bound | None, classes: list[ClassFigures]) -> str:
    """Say how good one method is, against chance and what all data at once would give."""
    run = row.runs[0]
    count = sum(run.result["tasks"])
    parts = [f"{row.label} names {how_many(row)} of {count} classes"]
    against = [f"{share(100 / count)} is chance"]
    if bound and row.label != JOINT:
        against.append(f"{bound.accuracy:.1f} % is reached with all data at once")
    parts[0] += f", where {' and '.join(against)}"
    if several_tasks(row):
        lost = fmean(result["metrics"]["F_T"] for result in row.results)
        nothing = f"loses nothing to forgetting, and gains {-lost:.1f} points"
        parts.append(f"loses {lost:.1f} points to forgetting" if lost >= 0 else nothing)
        parts += most_lost(classes)
    return "; ".join(parts) + "."


def several_tasks(row: Row) -> bool:
    return len(row.results[0]["tasks"]) > 1


def accuracy_of(row: Row) -> float:
    return fmean(pooled(result) for result in row.results)


def pooled(result: dict[str, Any]) -> float:
    """Return the share of all test images; old results may have the mean over tasks alone."""
    metrics: dict[str, float] = result["metrics"]
    return metrics.get("pooled_accuracy", metrics["A_T"])


def how_many(row: Row) -> str:
    """Return the share of images that are named right, how sure that is, and of how many."""
    values = [pooled(result) for result in row.results]
    images = test_images(row.runs[0], row.diagnostics[0])
    mean, sure = fmean(values), ""
    if len(values) > 1:
        sure = f" ± {pstdev(values):.1f}"
    elif images:
        low, high = wilson(mean / 100 * images, images)
        sure = f" (95 % interval {low:.1f} to {high:.1f})"
    of = f"{images:,} {things(row.runs[0])}" if images else f"the {things(row.runs[0])}"
    share = f"{mean:.1f}{sure} %" if len(values) > 1 else f"{mean:.1f} %{sure}"
    return f"{share} of {of}"


def test_images(run: Finished, look: dict[str, Any] | None) -> int | None:
    counts = task_images(run, look)
    return sum(counts) if counts else None


def things(run: Finished) -> str:
    return "drawings" if run.run.data in DRAWINGS else "test examples"


def share(percent: float) -> str:
    """Return a share with as many digits as it needs: 1 %, 0.5 %, 16.7 %."""
    return f"{percent:.1f}".removesuffix(".0") + " %" if percent >= 0.1 else f"{percent:.2g} %"


def most_lost(classes: list[ClassFigures]) -> list[str]:
    """Name the classes that lost most since they were learned."""
    lost = [(one.lost, one) for one in classes if one.lost]
    worst = [one for points, one in sorted(lost, key=lambda p: -p[0])[:MOST_LOST] if points > 0]
    if not worst:
        return []
    told = [f"{one.name} ({one.percent_learned:.0f} to {one.percent:.0f} %)" for one in worst]
    return [f"most lost: {', '.join(told)}"]


def bound_of(group: Group) -> Bound | None:
    """Return what all data at once give: of a run in the report, else as it was measured before.

    Where neither is known, nothing is said.
    """
    for row in group.rows:
        if row.runs[0].run.method == JOINT:
            seeds = f"{len(row.runs)} seeds" if len(row.runs) > 1 else "one seed"
            return Bound(accuracy_of(row), f"the runs of {JOINT} below, {seeds}")
    first = group.rows[0].runs[0]
    known = measured().get(first.run.data)
    if not known or first.run.arrival:
        return None
    if known["backbone"] == first.result["backbone"]["sha256"]:
        source = f"fine-tuning ({JOINT}), {len(known['A_T'])} seeds, from {known['source']}"
        return Bound(fmean(known["A_T"]), source)
    return None


@cache
def measured() -> dict[str, Any]:
    """Return what `python -m docs.tables` copied from the tables of the documents, by data set."""
    found: dict[str, Any] = json.loads((files("ovor") / "report" / "joint.json").read_text("utf-8"))
    return found
