"""`ovor inspect`: what a model file says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ovor.cli.arguments import Debug, Json, ModelFile, parse
from ovor.terminal.console import Terminal

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class InspectArguments:
    """What a model file says, without its backbone."""

    model: ModelFile
    json: Json = False
    debug: Debug = False


def inspect_command(argv: list[str]) -> None:
    """Print what a model file says; its backbone is not needed."""
    arguments = parse(InspectArguments, argv)
    found = inspection(arguments.model)
    if arguments.json:
        print(json.dumps(found))
    else:
        print_inspection(found)


def inspection(path: Path) -> dict[str, Any]:
    """Return what a model file holds, as one value."""
    from ovor.classifier.file import read_model
    from ovor.data.tokens import MODALITIES

    model = read_model(path)
    about = model.about
    reads = MODALITIES[about.backbone.reads]
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "method": about.run.name,
        "backbone": {
            "name": about.backbone.name,
            "source": about.backbone.source,
            "sha256": about.backbone.sha256,
            "reads": about.backbone.reads,
            "bundled": about.backbone.bundled,
        },
        "seen": reads.seen(about.run.transform),
        about.backbone.reads: reads.numbers(about.run.transform),
        "numbers": numbers(model.state),
        "false_alarms": about.false_alarms,
        "exact": about.run.method == "analytic",
        "learns": about.sums,
        "once": about.once,
        "expected": {
            name: {"expected": known.expected, "confused_with": list(known.confused_with)}
            for name, known in about.expected.items()
        },
        "tasks": [
            {
                "classes": dict(zip(task.classes, task.images, strict=True)),
                "held_out": task.held_out,
                "held_out_accuracy": task.accuracy,
                "threshold": task.threshold,
            }
            for task in about.tasks
        ],
    }


def numbers(state: "dict[str, Tensor]") -> int:
    """Count the numbers of a learner; sums that are packed have one for each pair of features."""
    packed = {name: tensor for name, tensor in state.items() if tensor.dtype.itemsize == 1}
    count = sum(tensor.numel() for name, tensor in state.items() if name not in packed)
    if packed:
        width, classes = state["weights"].shape
        count += width * (width + 1) // 2 + width * classes
    return count


def print_inspection(found: dict[str, Any]) -> None:
    """Print a table with a line a class or a lesson, and below it the model's size and backbone."""
    console = Terminal()
    classes = sum(len(task["classes"]) for task in found["tasks"])
    backbone = found["backbone"]
    console.print(class_table(found) if found["exact"] else lesson_table(found))
    console.print(
        f"{found['model']}: {classes} classes by {found['method']}, {found['numbers']:,} learned "
        f"numbers, {size(found['bytes'])}; false alarms aimed at: "
        f"{100 * found['false_alarms']:g} %\n"
        f"backbone: {backbone['name']} ({backbone['source']}), SHA-256 {backbone['sha256'][:12]}, "
        f"{'in the file' if backbone['bundled'] else 'not in the file'}\n"
        f"{backbone['reads']}: {found['seen']}"
        + (f"\nDigests of learned {backbone['reads']} are kept (--once)." if found["once"] else "")
        + ("" if found["learns"] else "\nFor predicting only: it has no sums to learn more with."),
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def class_table(found: dict[str, Any]) -> Table:
    """Return a table with a line a class: what to expect of it, and what it is taken for."""
    table = Table()
    for column in ("class", found["backbone"]["reads"], "expect", "confused with", "lesson"):
        left = column in ("class", "confused with")
        table.add_column(column, justify="left" if left else "right")
    for number, task in enumerate(found["tasks"], 1):
        for name, count in task["classes"].items():
            known = found["expected"].get(name, {"expected": None, "confused_with": []})
            expect = "" if known["expected"] is None else f"{known['expected']:g} %"
            others = ", ".join(known["confused_with"])
            table.add_row(escape(name), str(count), expect, escape(others), str(number))
    return table


def lesson_table(found: dict[str, Any]) -> Table:
    """Return a table with a line a lesson."""
    table = Table()
    classes = f"classes ({found['backbone']['reads']})"
    for column in ("lesson", classes, "held out", "right then", "threshold"):
        table.add_column(column, justify="left" if column.startswith("classes") else "right")
    for number, task in enumerate(found["tasks"], 1):
        names = ", ".join(f"{name} ({count})" for name, count in task["classes"].items())
        right = "" if task["held_out_accuracy"] is None else f"{task['held_out_accuracy']:.1f} %"
        held_out, threshold = str(task["held_out"]), f"{task['threshold']:.3f}"
        table.add_row(str(number), escape(names), held_out, right, threshold)
    return table


def size(count: int) -> str:
    """Return a number of bytes in kB or MB."""
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
