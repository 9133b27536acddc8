"""The cost table as the command prints it, in at most 80 columns."""

import json
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ovor.analysis.cost import UNIT, VIT_B, misprints
from ovor.learners import LEARNERS
from ovor.learners.aper import FirstTaskTuning


def as_json(table: dict[str, Any]) -> str:
    return json.dumps(table, indent=1) + "\n"


def as_tables(table: dict[str, Any]) -> Group:
    parameters = empty(
        "Learnable parameters, and all that is stored after the last task",
        ("parameters", "M", "paper", "diff.", "ratio", "paper", "stored\n(M)"),
    )
    flops = empty(
        "FLOPs (G) of one image",
        ("computed", "paper", "diff.", "ratio", "paper", "in ovor"),
    )
    for row in table["methods"]:
        count, own = f"{row['parameters']:,}", f"{row['gflops_computed_by_ovor']:.2f}"
        learned, stored = row["parameters"] / 1e6, f"{row['stored'] / 1e6:.2f}"
        parameters.add_row(row["method"], count, *cells(row, "params_m", learned), stored)
        flops.add_row(row["method"], *cells(row, "gflops", row["gflops"]), own)
    return Group(heading_of(table), "", parameters, "", flops, "", *map(Text, notes(table)))


def empty(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        "method",
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def cells(row: dict[str, Any], what: str, computed: float) -> tuple[str, str, str, str, str]:
    ratio = "parameters_ratio" if what == "params_m" else "gflops_ratio"
    ours = f"{computed:.2f}", f"{row[ratio]:.3f}x"
    if row["paper"] is None:
        return ours[0], "-", "-", ours[1], "-"
    mark = " !" if any(misprint["what"] == ratio for misprint in misprints(row)) else ""
    paper = f"{row['paper'][what]:.2f}", f"{row['paper'][ratio]:.2f}x{mark}"
    return ours[0], paper[0], f"{row['difference'][what]:+.2f}", ours[1], paper[1]


def heading_of(table: dict[str, Any]) -> Text:
    size, tasks, classes = table["image_size"], table["tasks"], table["classes_per_task"]
    return Text(f"ViT-B/16, {size} pixels, {tasks} tasks of {classes} classes; +vor adds nothing.")


def notes(table: dict[str, Any]) -> list[str]:
    shown = [row["method"] for row in table["methods"]]
    lines = ["Learnable: what gradient descent may change in one task or another."]
    if any(name in LEARNERS and issubclass(LEARNERS[name], FirstTaskTuning) for name in shown):
        size = f"{table['classes_per_task']} x {VIT_B.embed_dim} + 1"
        lines[0] += (
            f" In adam-* and ranpac that includes the cosine head of the first task, {size}, "
            "although it classifies nothing later."
        )
    if "slca" in shown:
        lines[0] += " slca's second head, an aligned copy of the first, only counts as stored."
    lines += [
        "Stored: all numbers of the learned state without the pre-trained ViT: what was learned, "
        "and the class means, covariances, sums, projections and earlier weights kept besides.",
        "FLOPs as the paper counts them: multiply-accumulates at inference, LayerNorm at 5 an "
        f"element; the ViT alone has {table['backbone_gflops']:.3f} G.",
        "in ovor: the last block for the CLS token only, the image embedded once where a query "
        "needs a pass of its own.",
        f"Ratios are to {UNIT}.",
    ]
    if any(row["paper"] for row in table["methods"]):
        lines[-1] += " The paper cuts its own after two digits."
    for misprint in table["misprints"]:
        lines.append(
            f"! A misprint in the paper: {misprint['method']} has {misprint['computed']:.2f}x the "
            f"{misprint['what'].removesuffix('_ratio')} of {UNIT}, not {misprint['printed']:.2f}x."
        )
    return lines
