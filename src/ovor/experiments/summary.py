"""The results of a grid as tables: means over seeds, beside the paper's figures."""

import json
from functools import reduce
from itertools import zip_longest
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from ovor.config import Run
from ovor.errors import OvorError
from ovor.experiments.field_table import field_lines, field_notes, fitting_field
from ovor.experiments.grid import done, folder_of
from ovor.experiments.tables import Measure, Row, Section
from ovor.paper import paper

NOT_RUN = "not run yet"
LABEL = 25  # characters, from which a label is wrapped
Lines = list[tuple[str, ...]]

DRIFTS = "representation_drift_percent_tasks_2_to_10"
# By measure: the heading of each column, and where paper.json has its figures.
BY_TASK: dict[Measure, dict[str, tuple[str, list[str]]]] = {
    "task-id-given": {"change": ("change", ["task_id_given_change_oneprompt_imagenet-r/10"])},
    "prompt-drift": {
        "prompt": ("cosine", ["prompt_drift_cosine_percent_tasks_2_to_10"]),
        "prompt_centered": ("cosine, centred", []),
    },
    "representation-drift": {
        "cosine": ("cosine", [DRIFTS, "cosine"]),
        "cka_linear": ("CKA (linear)", [DRIFTS, "cka_linear"]),
        "cka_kernel": ("CKA (kernel)", [DRIFTS, "cka_kernel"]),
    },
}


def collect(
    sections: list[Section], measure: Measure, seeds: list[int], out: Path
) -> list[dict[str, Any]]:
    """Return each section with the results of its rows that exist, as values of JSON."""
    found: list[dict[str, Any]] = [
        {
            "title": part.title,
            "paper": part.where,
            "comparable": part.comparable,
            "deviations": part.deviations,
            **({"way": part.way} if part.way else {}),
            "rows": [collect_row(row, measure, seeds, out) for row in part.rows],
        }
        for part in sections
    ]
    backbones = {row["backbone"] for part in found for row in part["rows"] if row["backbone"]}
    if len(backbones) > 1:
        raise OvorError(f"The runs in {out} used different backbones: remove the older ones.")
    return found


def collect_row(row: Row, measure: Measure, seeds: list[int], out: Path) -> dict[str, Any]:
    """Return the results of one row by seed, beside the paper's figures."""
    folders = [folder_of(out, row, seed) for seed in seeds]
    finished = [folder for folder in folders if done(folder, row.run)]
    results = [folder.result() for folder in finished]
    entry: dict[str, Any] = {
        "label": row.label,
        "runs": [folder.path.name for folder in finished],
        "seeds": [result["seed"] for result in results],
        "A_T": [round(result["metrics"]["A_T"], 3) for result in results],
        "F_T": [round(result["metrics"]["F_T"], 3) for result in results],
        "paper": {"A_T": row.paper[0], "F_T": row.paper[1]},
        "paper_std": {"A_T": row.paper_std[0], "F_T": row.paper_std[1]},
        "seconds": [result["seconds"] for result in results],
        "learnable_parameters": results[0]["learnable_parameters"] if results else None,
        "backbone": ", ".join({result["backbone"]["sha256"] for result in results}),
    }
    if measure == "field":
        # Older runs did not measure it.
        entry["core_seconds"] = [r.get("core_seconds", r["seconds"]) for r in results]
        entry["bytes"] = [folder.weights.stat().st_size for folder in finished]
        entry["passes"] = passes_of(row.run, results[0]["tasks"]) if results else None
    elif measure == "task-id-given":
        entry["by_task"] = {"change": [changes(result) for result in results]}
    elif measure != "accuracy":
        drifts = [json.loads(folder.drift_file.read_text()) for folder in finished]
        entry["by_task"] = {
            name: [[round(x, 4) for x in drift[name]] for drift in drifts]
            for name in BY_TASK[measure]
        }
    return entry


def passes_of(run: Run, sizes: list[int]) -> int:
    """Return how often one image goes through the network to be classified."""
    from ovor.analysis.cost import Setting, measure  # brings torch

    return measure(run.method, Setting(len(sizes), max(sizes))).passes


def changes(result: dict[str, Any]) -> list[float]:
    """Return how much each task's accuracy, with the task given, changed since it was learned."""
    given = result["accuracy_task_id_given"]
    return [round(given[-1][t] - given[t][t], 4) for t in range(len(given) - 1)]


def mean_std(values: list[float], form: str = ".2f", none: str = NOT_RUN) -> str:
    """Write mean ± population standard deviation, the paper's convention; one value has none."""
    deviation = f" ± {np.std(values):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{deviation}" if values else none


def accuracy_lines(part: dict[str, Any]) -> tuple[tuple[str, ...], Lines]:
    """Return headings and cells; a row with VOR has its gain over the row without, by seed."""
    rows = {row["label"]: row for row in part["rows"]}
    counts = [row["learnable_parameters"] for row in rows.values()]
    columns = {
        "": list(rows),
        "A_T ↑": [mean_std(row["A_T"]) for row in rows.values()],
        "F_T ↓": [mean_std(row["F_T"]) for row in rows.values()],
        "VOR's gain": [gain(row, rows) for row in rows.values()],
        "paper": [of_paper(row, part["deviations"]) for row in rows.values()],
        "difference": [difference(row) if part["comparable"] else "" for row in rows.values()],
        "parameters": ["" if count is None else f"{count:,}" for count in counts],
    }
    shown = {heading: cells for heading, cells in columns.items() if any(cells)}
    return tuple(shown), list(zip(*shown.values(), strict=True))


def gain(row: dict[str, Any], rows: dict[str, dict[str, Any]]) -> str:
    """Write what VOR adds to A_T over the seeds that both rows have."""
    plain = rows.get(row["label"].removesuffix("+vor"))
    if plain is None or plain is row:
        return ""
    before = dict(zip(plain["seeds"], plain["A_T"], strict=True))
    pairs = zip(row["seeds"], row["A_T"], strict=True)
    gains = [value - before[seed] for seed, value in pairs if seed in before]
    return mean_std(gains, "+.2f", none="")


def of_paper(row: dict[str, Any], deviations: bool) -> str:
    """Write the paper's A_T / F_T, as far as it has them."""
    cells = []
    for name, mean in row["paper"].items():
        std = row["paper_std"][name]
        if mean is not None:
            cells.append(f"{mean:.2f}" + (f" ± {std:.2f}" if deviations and std else ""))
    return " / ".join(cells)


def difference(row: dict[str, Any]) -> str:
    """Write ours minus the paper's of A_T / F_T, as far as both exist."""
    pairs = [(row[name], row["paper"][name]) for name in ("A_T", "F_T")]
    return " / ".join(f"{np.mean(o) - p:+.2f}" for o, p in pairs if o and p is not None)


def task_lines(part: dict[str, Any], measure: Measure) -> tuple[tuple[str, ...], Lines]:
    """Return headings and cells with one line a task, from the first that the measure has."""
    columns: list[tuple[str, list[str]]] = []
    for row in part["rows"]:
        for name, (label, keys) in BY_TASK[measure].items():
            own = label if len(part["rows"]) == 1 else row["label"]
            values = row["by_task"].get(name, [])
            by_task = [mean_std(list(column)) for column in zip(*values, strict=True)]
            columns.append((own, by_task or [NOT_RUN]))
            if keys and row is part["rows"][0]:
                figures = reduce(getitem, keys, paper())
                columns.append(("paper", [f"{x:.2f}" for x in figures]))
                if part["comparable"] and values:
                    means = np.mean(values, axis=0)
                    off = [f"{a - b:+.2f}" for a, b in zip(means, figures, strict=True)]
                    columns.append(("difference", off))
    first = 1 if measure == "task-id-given" else 2
    rows = zip_longest(*(cells for _, cells in columns), fillvalue="")
    lines = [(str(task), *cells) for task, cells in enumerate(rows, first)]
    return ("task", *(heading for heading, _ in columns)), lines


def lines_of(part: dict[str, Any], measure: Measure) -> tuple[tuple[str, ...], Lines]:
    return accuracy_lines(part) if measure == "accuracy" else task_lines(part, measure)


def tables_of(
    sections: list[dict[str, Any]], measure: Measure
) -> list[tuple[str, tuple[str, ...], Lines]]:
    """Return title, headings and cells of each table: one a section, and one for all the field."""
    if measure == "field":
        data = str(sections[0]["title"]).rpartition(", ")[0]
        return [(f"The field on {data}", *field_lines(sections, data))]
    parts = [(part, *lines_of(part, measure)) for part in sections]
    return [(title_of(part, headings), headings, lines) for part, headings, lines in parts]


def footer(sections: list[dict[str, Any]]) -> str:
    rows = [row for part in sections for row in part["rows"]]
    # A run that stands in several rows counts once.
    seconds = {run: s for row in rows for run, s in zip(row["runs"], row["seconds"], strict=True)}
    minutes = sum(seconds.values()) / 60
    return f"{len(seconds)} runs, {minutes:.0f} minutes by the clock, one thread each."


def title_of(part: dict[str, Any], headings: tuple[str, ...]) -> str:
    if part["comparable"] or "paper" not in headings:
        return str(part["title"])
    return f"{part['title']} (paper: {part['paper']})"


def as_tables(sections: list[dict[str, Any]], measure: Measure, width: int) -> Group:
    """Return the sections as tables of a terminal of this width."""
    shown: list[RichTable | Text] = []
    for title, headings, lines in tables_of(sections, measure):
        if measure == "accuracy":
            headings, lines = fitting(headings, lines, width)
        elif measure == "field":
            headings, lines = fitting_field(headings, lines, width)
        table = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        if measure == "field":
            table.padding = (0, 1, 0, 0)
            table.add_column("", no_wrap=True)
            headings = headings[1:]
        for heading in headings:
            table.add_column(heading, no_wrap=bool(heading), justify="right" if heading else "left")
        for line in lines:
            table.add_row(*line)
        shown.append(table)
    return Group(*shown, *map(Text, notes(sections, measure)))


def notes(sections: list[dict[str, Any]], measure: Measure) -> list[str]:
    """Return what stands below the tables."""
    return [*(field_notes(sections) if measure == "field" else []), footer(sections)]


def fitting(headings: tuple[str, ...], lines: Lines, width: int) -> tuple[tuple[str, ...], Lines]:
    """Leave out columns that would squeeze the others; JSON and Markdown have them all."""
    columns = dict(zip(headings, zip(*lines, strict=True), strict=True))
    for spare in ("parameters", "VOR's gain", "F_T ↓"):
        if needed(columns) > width:
            columns.pop(spare, None)
    return tuple(columns), list(zip(*columns.values(), strict=True))


def needed(columns: dict[str, tuple[str, ...]]) -> int:
    """Return the width of a table with these columns."""
    first, *rest = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    return min(first, LABEL) + sum(rest) + 3 * len(columns) - 1


def as_markdown(sections: list[dict[str, Any]], measure: Measure) -> str:
    blocks = []
    for title, headings, lines in tables_of(sections, measure):
        rule = "|" + "---|" * len(headings)
        body = ["| " + " | ".join(line) + " |" for line in (headings, *lines)]
        blocks.append("\n".join([f"*{title}*", "", body[0], rule, *body[1:]]))
    return "\n\n".join([*blocks, *notes(sections, measure)]) + "\n"
