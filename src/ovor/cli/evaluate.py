"""`ovor evaluate`: how often a model is right on labelled images, or texts."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ovor.classifier.evaluate import evaluate
from ovor.classifier.prediction import Predictor
from ovor.cli.arguments import (
    Debug,
    Device,
    Json,
    Label,
    LabelColumn,
    Model,
    MovedBackbone,
    OnError,
    Rename,
    Source,
    TextColumn,
    optional,
    parse,
    renames,
)
from ovor.cli.counting import Counting
from ovor.cli.predict import open_predictor
from ovor.data.modality import WORDS
from ovor.errors import one_line
from ovor.terminal.console import Terminal

WORST = 3  # classes whose mistakes are told
CLOSE = 5.0  # points beyond chance between confidence and right answers that nobody need mind


@dataclass(frozen=True)
class EvaluateArguments:
    """Accuracy on labelled images or texts, per class and per lesson, what is mistaken for what,
    and how many are called unknown; with --unknown also how well other things are told from them.
    """

    model: Model
    """a model file, or an .onnx file that `ovor export` made"""
    source: Source
    """images of classes that the model knows: a folder with one sub-folder per class (of `train`
    and `test` the latter), a table of paths and labels, a zip, or with --label any images; of texts
    likewise"""
    label: Label = None
    text_column: TextColumn = None
    label_column: LabelColumn = None
    unknown: Annotated[Path | None, optional("IMAGES")] = None
    """images of other things, which the model should not know"""
    rename: Rename = ()
    """classes that the model knows under other names than those of their folders"""
    on_error: OnError = "stop"
    """at an image that cannot be read: stop, or list it and go on without it"""
    report: Annotated[Path | None, optional("FILE")] = None
    """also write all of it as a page, such as report.html, with images that were mistaken"""
    no_images: bool = False
    """leave the images out of that page"""
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    debug: Debug = False


def evaluate_command(argv: list[str]) -> None:
    """Evaluate a model on labelled images, and print how often it is right."""
    arguments = parse(EvaluateArguments, argv)
    rename = renames(arguments.rename)
    model = open_predictor(arguments.model, arguments.backbone, arguments.device)
    with Counting("testing") as listen:
        found = evaluate(
            model,
            arguments.source,
            arguments.unknown,
            rename,
            arguments.on_error,
            listen,
            arguments.label,
            (arguments.text_column, arguments.label_column),
        )
    if arguments.json:
        print(json.dumps(found))
    else:
        print_evaluation(found)
    if arguments.report:
        write_page(arguments.report, arguments, model, found)


def write_page(
    path: Path, arguments: EvaluateArguments, model: Predictor, found: dict[str, Any]
) -> None:
    """Write what was found as a page, and say where it is."""
    from ovor.report.evaluation import report_on, subject_of

    subject = subject_of(model, arguments.model.name, str(arguments.source))
    report_on(found, subject, images=not arguments.no_images).write(path)
    print(f"Report in {path}", file=sys.stderr)


def print_evaluation(found: dict[str, Any]) -> None:
    """Print a table with a line a class and a lesson, and what it means in words."""
    console = Terminal()
    for note in found["notes"]:
        print(one_line(note), file=sys.stderr)
    table = Table()
    for column in ("class", found["reads"], "right", "called unknown"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for entry in found["classes"]:
        table.add_row(escape(entry["class"]), *cells(entry))
    table.add_section()
    for entry in found["lessons"]:
        table.add_row(f"lesson {entry['lesson']}", *cells(entry))
    table.add_row("all", *cells(found))
    console.print(table)
    for line in in_words(found):
        console.print(Text(one_line(line)), highlight=False, soft_wrap=True)


def cells(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Return the number of images and the two shares of a line."""
    right, unknown = entry["accuracy"], entry["called_unknown"]
    return str(entry["images"]), f"{right:.1f} %", f"{unknown:.1f} %"


def in_words(found: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences below the table."""
    words = "Right, as the likeliest class, whether called unknown or not: "
    words += f"{found['accuracy']:.1f} % (guessing: {found['chance']:g} %)"
    if found["accuracy_if_claimed"] is not None:
        words += f"; of those not called unknown: {found['accuracy_if_claimed']:.1f} %"
    yield f"{words}."
    yield from mistaken(found)
    yield sure(found)
    if "unknown" in found:
        other = found["unknown"]
        yield (
            f"{other['images']} {found['reads']} of other things: {other['called_unknown']:.1f} % "
            f"called unknown, AUROC {other['auroc']:.1f} %, false positives at 95 % true ones "
            f"{other['fpr_at_95_tpr']:.1f} %."
        )


def mistaken(found: dict[str, Any]) -> Iterator[str]:
    """Yield what the worst classes are taken for, and by which images that can be seen."""
    quoted = WORDS[found["reads"]].quoted
    worst = sorted(found["classes"], key=lambda one: one["accuracy"])[:WORST]
    for one in worst:
        own = [pair for pair in found["confusions"] if pair["class"] == one["class"]]
        if not own:
            continue
        wrong = round(one["images"] * (100 - one["accuracy"]) / 100)
        others = ", ".join(f"{pair['taken_for']} {pair['images']}" for pair in own[:3])
        yield (
            f"Mistaken: {one['class']}, {wrong} of {one['images']} {found['reads']}, for {others}; "
            f"such as {', '.join(map(quoted, own[0]['examples'][:2]))}."
        )


def sure(found: dict[str, Any]) -> str:
    """Return whether the model's confidence can be believed."""
    known, many = found["calibration"], found.get("reads", "images")
    if found.get("chance") == 100:
        return "The model knows one class only, so how sure it is says nothing: teach it another."
    apart, bias = known["error"], known["bias"]
    words = (
        f"It is {known['confidence']:.1f} % sure on average, and {found['accuracy']:.1f} % right; "
        f"among {many} of like confidence the two are {apart:.1f} points apart "
        f"(calibration error; by chance alone {known['by_chance']:.1f})"
    )
    if apart < known["by_chance"] + CLOSE:
        return f"{words}: its confidence can be taken as it is."
    if abs(bias) < CLOSE:
        return f"{words}: here too sure, there not sure enough."
    return f"{words}: it is {'too sure of itself' if bias > 0 else 'surer than it says'}."
