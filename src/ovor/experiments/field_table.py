"""The field as one table: a line a method, its cost, and its accuracy in each scenario."""

from typing import Any

import numpy as np

from ovor.experiments.field import PLAIN, WAYS, able, left_out
from ovor.presets import settings

CANNOT, NOT_YET = "-", "..."
Lines = list[tuple[str, ...]]


def field_lines(sections: list[dict[str, Any]], data: str) -> tuple[tuple[str, ...], Lines]:
    """Return headings and cells; a scenario that no section has, has no column."""
    by_way = {part["way"]: {row["label"]: row for row in part["rows"]} for part in sections}
    ways = [way for way in WAYS if way.name in by_way]
    labels = list(dict.fromkeys(label for rows in by_way.values() for label in rows))
    usual = by_way.get(PLAIN.name, {})
    headings = ("", "passes", "MB kept", "core s", "F_T ↓", *(way.name for way in ways))
    lines = []
    for label in labels:
        row = usual.get(label) or next(rows[label] for rows in by_way.values() if label in rows)
        cells = [accuracy(by_way[way.name].get(label), way, data, label) for way in ways]
        lines.append((label, *costs(row), mean(row["F_T"]), *cells))
    return headings, lines


def fitting_field(
    headings: tuple[str, ...], lines: Lines, width: int
) -> tuple[tuple[str, ...], Lines]:
    """Leave out deviations, and then columns, that would squeeze the others in a terminal."""
    columns = dict(zip(headings, zip(*lines, strict=True), strict=True))
    if needed(columns) > width:
        columns = {name: plain(cells) for name, cells in columns.items()}
    for spare in ("core s", "F_T ↓", "MB kept", "passes"):
        if needed(columns) > width:
            columns.pop(spare, None)
    headings = tuple(name.replace(" ", "\n") for name in columns)
    return headings, list(zip(*columns.values(), strict=True))


def plain(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Return cells without their deviations."""
    return tuple(cell.partition(" ±")[0] for cell in cells)


def needed(columns: dict[str, tuple[str, ...]]) -> int:
    """Return the width of a table with these columns; headings break between words."""
    widths = (max(map(len, (*name.split(), *cells, ""))) for name, cells in columns.items())
    return 2 + sum(width + 2 for width in widths)


def costs(row: dict[str, Any]) -> tuple[str, str, str]:
    """Write passes of an image, megabytes kept after the last task, and seconds of a core."""
    kept = [size / 1e6 for size in row["bytes"]]
    passes = "" if row["passes"] is None else str(row["passes"])
    return passes, mean(kept), mean(row["core_seconds"], ".0f")


def mean(values: list[float], form: str = ".1f") -> str:
    return f"{np.mean(values):{form}}" if values else NOT_YET


def accuracy(row: dict[str, Any] | None, way: Any, data: str, label: str) -> str:
    """Write A_T over the seeds, or whether the method cannot or was left out."""
    if row is not None:
        values = row["A_T"]
        deviation = f" ± {np.std(values):.1f}" if len(values) > 1 else ""
        return f"{np.mean(values):.1f}{deviation}" if values else NOT_YET
    if left_out(way, label) or able(way, settings(data, label)):
        return ""
    return CANNOT


def field_notes(sections: list[dict[str, Any]]) -> list[str]:
    """Return what a reader must know of the columns."""
    names = {part["way"] for part in sections}
    ways = "; ".join(f"{way.name}: {way.about}" for way in WAYS if way.name in names)
    return [
        f"A_T ↑ in each scenario ({ways}).",
        f"{CANNOT}: the method cannot learn in it. Nothing: it was left out, to save time. "
        f"{NOT_YET}: not run yet.",
        "Passes: of one image through the network, to classify it. MB kept, core s and F_T are of "
        "the first scenario; core s: seconds that a processor core worked for a run, evaluation "
        "after every task included.",
    ]
