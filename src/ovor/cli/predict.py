"""`ovor predict`: the class of images."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape

import ovor
from ovor.classifier.onnx import OnnxClassifier
from ovor.classifier.prediction import Predictor, predict_images, predict_readable
from ovor.cli.arguments import Debug, Device, Json, Model, MovedBackbone, OnError, parse
from ovor.cli.counting import Counting
from ovor.config import Count
from ovor.data.class_names import UNKNOWN
from ovor.data.images import at_home, find_images
from ovor.errors import OvorError
from ovor.events import ImagesPredicted, Listener
from ovor.terminal.console import Terminal

ON_ONE_LINE = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})
Row = dict[str, Any]  # what is printed of an image: its prediction, or its error


@dataclass(frozen=True)
class PredictArguments:
    """The class of each image with its confidence, or `unknown` if it is like none of them. Piped,
    the columns are separated by tabs.
    """

    model: Model
    """a model file, or an .onnx file that `ovor export` made"""
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGE")]
    """image files; folders, with all that is below them; - for paths on standard input"""
    top: Count = 1
    """how many classes to name, the likeliest first"""
    on_error: OnError = "stop"
    """at an image that cannot be read: stop, or say so and go on"""
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    debug: Debug = False


def predict_command(argv: list[str]) -> None:
    """Predict images, and print a row for each."""
    arguments = parse(PredictArguments, argv)
    paths = image_paths(arguments.images)
    model = open_predictor(arguments.model, arguments.backbone, arguments.device)
    if arguments.on_error == "stop":
        found = rows_or_stop(model, paths, arguments.top)
    else:
        found = rows(model, paths, arguments.top)
    if arguments.on_error == "skip" and not arguments.json:  # as they come: the lines tell enough
        if not print_rows(found, paths):
            raise OvorError("None of these images could be read: check the paths.")
        return
    with Counting("predicting") as listen:
        complete = list(counted(found, len(paths), listen))
    if arguments.json:
        print(json.dumps(complete))
    else:  # all or nothing: an error leaves no half of the predictions
        print_rows(complete, paths)


def open_predictor(path: Path, backbone: str | None, device: str) -> Predictor:
    """Return the classifier of a model file, or of an export by its suffix."""
    if path.suffix == ".onnx":
        return OnnxClassifier.load(path)
    return ovor.Classifier.load(path, backbone=backbone, device=device)


def image_paths(given: Sequence[str]) -> list[Path]:
    """Return files as they are, folders with all images below them, - as standard input says."""
    paths: list[Path] = []
    for path in spelled_out(given):
        if path.is_dir():
            found, _ = find_images(path)
            if not found:
                raise OvorError(f"There is no image in {path}: check the folder.")
            paths += found
        else:
            paths.append(path)
    if not paths:
        raise OvorError("There is no image given: give files or folders, or - and paths.")
    return paths


def spelled_out(given: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that are given, and in the place of a - those on standard input."""
    for text in given:
        if text != "-":
            yield at_home(text)
            continue
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # names need not be UTF-8
        lines = (line.removesuffix("\r") for line in sys.stdin.read().split("\n"))
        yield from (Path(line) for line in lines if line.strip())


def rows(model: Predictor, paths: Sequence[Path], top: int) -> Iterator[Row]:
    """Yield a row for each image, as the batches come; one that cannot be read has an error."""
    for path, found in zip(paths, predict_readable(model, paths), strict=True):
        said = {"error": str(found)} if isinstance(found, OvorError) else found.as_json(top)
        yield {"image": str(path), **said}


def rows_or_stop(model: Predictor, paths: Sequence[Path], top: int) -> Iterator[Row]:
    """Yield a row for each image; stop at one that cannot be read, and say what to do."""
    try:
        for path, found in zip(paths, predict_images(model, paths), strict=True):
            yield {"image": str(path), **found.as_json(top)}
    except OvorError as error:
        raise OvorError(f"{error} Or go on without such images (--on-error skip).") from error


def counted(found: Iterable[Row], total: int, listen: Listener) -> Iterator[Row]:
    """Yield the rows, and tell the listener of each."""
    for row in found:
        listen(ImagesPredicted(1, total))
        yield row


def print_rows(found: Iterable[Row], paths: Sequence[Path]) -> bool:
    """Print rows, aligned on a terminal and with tabs in a pipe, and errors on stderr.

    Returns whether any image could be read.
    """
    console = Terminal()
    width = max(len(str(path)) for path in paths)
    readable = False
    for row in found:
        if "error" in row:
            print(row["error"], file=sys.stderr)
            continue
        readable = True
        if console.is_terminal:
            console.print(aligned(row, width), highlight=False, soft_wrap=True)
        else:
            print(tabbed(row), flush=True)
    return readable


def tabbed(row: Row) -> str:
    """Return a row for a pipe: the image, its label, then classes and confidences."""
    columns = [row["image"].translate(ON_ONE_LINE), row["label"]]
    for best in row["best"]:
        columns += [best["class"], f"{best['confidence']:.4f}"]
    return "\t".join(columns)


def aligned(row: Row, width: int) -> str:
    """Return a row for a terminal, in rich's markup."""
    chances = [f"{best['class']} {100 * best['confidence']:.1f} %" for best in row["best"]]
    image, chances = escape(f"{row['image']:<{width}}"), [escape(text) for text in chances]
    if row["unknown"]:
        return f"{image}  [yellow]{UNKNOWN}[/yellow]  [dim](nearest: {', '.join(chances)})[/dim]"
    return f"{image}  [bold]{chances[0]}[/bold]  [dim]{', '.join(chances[1:])}[/dim]"
