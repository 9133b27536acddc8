"""The cost of every method beside the paper's cost table, as JSON and in at most 80 columns."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ovor.analysis.cost import VIT_B, Cost, Setting, measure, vit_macs
from ovor.learners import LEARNERS, METHODS, listed, options_type
from ovor.learners.first_task import FirstTaskTuning
from ovor.paper import paper
from ovor.presets import ALIASES

UNIT = "oneprompt"  # the method that ratios refer to
RATIOS = ("parameters_ratio", "gflops_ratio")
# As printed; paper.json has the figures that they are ratios of.
PRINTED_RATIOS = {
    "l2p": (2.44, 1.99),
    "dualprompt": (4.26, 1.99),
    "coda-p": (13.28, 1.99),
    "oneprompt": (1.00, 1.00),
}


def paper_rows() -> dict[str, dict[str, float]]:
    """Return the paper's cost table by our method names; VOR costs nothing at inference."""
    return {plain(name): row for name, row in paper()["cost_imagenet-r/10"].items()}


def plain(method: str) -> str:
    """Return the method's row of the table: with VOR it costs the same."""
    return ALIASES.get(method, method).removesuffix("+vor")


def cost_table(setting: Setting, methods: Sequence[str] = ()) -> dict[str, Any]:
    """Return the cost of these methods or of all; the paper's setting has the paper's beside it."""
    names = list(dict.fromkeys(map(plain, methods or METHODS)))
    for name in names:
        options_type(name)  # raises if there is no such method, before anything is computed
    costs = {name: measure(name, setting) for name in dict.fromkeys([*names, UNIT])}
    printed = paper_rows() if setting == Setting() else {}
    rows = [compare(costs[name], costs[UNIT], printed.get(name)) for name in names]
    return {
        "tasks": setting.tasks,
        "classes_per_task": setting.classes,
        "image_size": setting.arch.image_size,
        "backbone_gflops": vit_macs(setting.arch) / 1e9,
        "methods": rows,
        "misprints": [misprint for row in rows for misprint in misprints(row)],
    }


def compare(cost: Cost, unit: Cost, printed: dict[str, float] | None) -> dict[str, Any]:
    """Return a row of the table; ratios are to `unit`."""
    gflops = cost.macs / 1e9
    row: dict[str, Any] = {
        "method": cost.method,
        "parameters": cost.parameters,
        "parameters_ratio": cost.parameters / unit.parameters,
        "stored": cost.stored,
        "passes": cost.passes,
        "gflops": gflops,
        "gflops_ratio": cost.macs / unit.macs,
        "gflops_computed_by_ovor": cost.own_macs / 1e9,
        "paper": None,
        "difference": None,
    }
    if printed is not None:
        ratios = zip(RATIOS, PRINTED_RATIOS[cost.method], strict=True)
        computed = {"params_m": cost.parameters / 1e6, "gflops": gflops}
        row["paper"] = {**printed, **dict(ratios)}
        row["difference"] = {name: difference(computed[name], printed[name]) for name in computed}
    return row


def difference(computed: float, printed: float) -> float:
    """Return computed minus printed, in the digits that the paper prints."""
    return round(round(computed, 2) - printed, 2) + 0.0  # no negative zero


def misprints(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return printed ratios that are not the computed one, neither rounded nor cut as 1.998 is."""
    if row["paper"] is None:
        return []
    return [
        {"method": row["method"], "what": what, "printed": printed, "computed": row[what]}
        for what in RATIOS
        if abs((printed := row["paper"][what]) - row[what]) >= 0.01
    ]


def as_tables(table: dict[str, Any]) -> Group:
    parameters = empty(
        "Learnable parameters, and all that is stored after the last task",
        ("parameters", "M", "paper", "diff.", "ratio", "paper", "stored\n(M)"),
    )
    flops = empty(
        "FLOPs (G) of one image",
        ("passes", "computed", "paper", "diff.", "ratio", "paper", "in ovor"),
    )
    for row in table["methods"]:
        count, own = f"{row['parameters']:,}", f"{row['gflops_computed_by_ovor']:.2f}"
        learned, stored = row["parameters"] / 1e6, f"{row['stored'] / 1e6:.2f}"
        parameters.add_row(row["method"], count, *cells(row, "params_m", learned), stored)
        passes, found = str(row["passes"]), cells(row, "gflops", row["gflops"])
        flops.add_row(row["method"], passes, *found, own)
    size, tasks, classes = table["image_size"], table["tasks"], table["classes_per_task"]
    heading = f"ViT-B/16, {size} pixels, {tasks} tasks of {classes} classes; +vor adds nothing."
    return Group(Text(heading), "", parameters, "", flops, "", *map(Text, notes(table)))


def empty(title: str, headings: tuple[str, ...]) -> Table:
    """Return a table without rows, narrow enough for 80 columns."""
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
    """Return computed, paper, difference, ratio and the paper's ratio of parameters or FLOPs."""
    ratio = RATIOS[what == "gflops"]
    ours = f"{computed:.2f}", f"{row[ratio]:.3f}x"
    if row["paper"] is None:
        return ours[0], "-", "-", ours[1], "-"
    mark = " !" if any(misprint["what"] == ratio for misprint in misprints(row)) else ""
    paper = f"{row['paper'][what]:.2f}", f"{row['paper'][ratio]:.2f}x{mark}"
    return ours[0], paper[0], f"{row['difference'][what]:+.2f}", ours[1], paper[1]


def tunes_first_task(method: str) -> bool:
    """Tell whether a method may tune a copy of the network on the first task."""
    return method in LEARNERS and issubclass(LEARNERS[method], FirstTaskTuning)


def notes(table: dict[str, Any]) -> list[str]:
    """Return what a reader must know of the rows shown, and the paper's misprints."""
    shown = {row["method"]: row["parameters"] for row in table["methods"]}
    lines = ["Learnable: what gradient descent may change in one task or another."]
    if any(count and tunes_first_task(name) for name, count in shown.items()):
        size = f"{table['classes_per_task']} x {VIT_B.embed_dim} + 1"
        lines[0] += (
            f" In adam-* and ranpac that includes the cosine head of the first task, {size}, "
            "although it classifies nothing later."
        )
    if solved := [name for name, count in shown.items() if not count]:
        lines[0] += (
            f" Nothing in {listed(solved, 'and')}: what classifies follows from sums and means, "
            "which are stored."
        )
    if "ease" in shown:
        lines[0] += " In ease, of all tasks' adapters and of the heads that they learn with."
    if "slca" in shown:
        lines[0] += " slca's second head, an aligned copy of the first, only counts as stored."
    lines += [
        "Stored: all numbers of the learned state without the pre-trained ViT: what was learned, "
        "and the class means, covariances, sums, projections and earlier weights kept besides.",
        "Passes: how often an image goes through the network"
        + ("; in ease once a task." if "ease" in shown else "."),
        "FLOPs as the paper counts them: multiply-accumulates at inference, LayerNorm at 5 an "
        f"element; the ViT alone has {table['backbone_gflops']:.3f} G.",
        "in ovor: the last block for the CLS token only, unless the method reads the others too "
        "(analytic, shapes), the image embedded once where a query needs a pass of its own.",
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
