"""`ovor predict`, `ovor evaluate` and `ovor inspect`: what asks a growing classifier."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ovor.cli.arguments import Device, Model, Rename, optional, parse, renames
from ovor.config import Count
from ovor.errors import OvorError

if TYPE_CHECKING:
    from ovor.classifier.prediction import Answering


@dataclass(frozen=True)
class PredictArguments:
    model: Model
    """a model file, or an .onnx file that `ovor export` made"""
    images: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="IMAGE")]
    """image files; folders, with all that is below them; - for paths on standard input"""
    top: Count = 1
    """how many classes to name, the likeliest first"""
    on_error: Literal["stop", "skip"] = "stop"
    """at an image that cannot be read: stop, or say so and go on"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was"""
    device: Device = "auto"
    """where to compute"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def predict_command(argv: list[str]) -> None:
    """Name the class of images, or say that it is unknown."""
    arguments = parse(
        PredictArguments,
        argv,
        "predict",
        "The class of each image with its confidence, or `unknown` if no task claims it. Piped, "
        "the columns are separated by tabs.",
    )
    from ovor.cli import model_text

    paths = model_text.image_paths(arguments.images)
    model = open_any(arguments.model, arguments.backbone, arguments.device)
    asked = (model, paths, arguments.top, arguments.on_error)
    if arguments.on_error == "skip" and not arguments.json:  # as they come: the lines tell enough
        if not model_text.print_predictions(model_text.predictions(*asked), paths):
            raise OvorError("None of these images could be read: check the paths.")
        return
    with model_text.Counting("predicting") as listen:
        rows = list(model_text.predictions(*asked, listen))
    if arguments.json:
        print(json.dumps(rows))
    else:  # all or nothing: an error leaves no half of the answers
        model_text.print_predictions(rows, paths)


def open_any(path: Path, backbone: str | None, device: str) -> "Answering":
    if path.suffix == ".onnx":
        from ovor.classifier.onnx import OnnxClassifier

        return OnnxClassifier.load(path)
    from ovor.classifier.model import Classifier

    return Classifier.load(path, backbone=backbone, device=device)


@dataclass(frozen=True)
class EvaluateArguments:
    model: Model
    """a model file, or an .onnx file that `ovor export` made"""
    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """one sub-folder of images per class, of classes that the model knows"""
    unknown: Annotated[Path | None, optional("FOLDER")] = None
    """images of other things, which the model should not know"""
    rename: Rename = ()
    """classes that the model knows under other names than those of their folders"""
    on_error: Literal["stop", "skip"] = "stop"
    """at an image that cannot be read: stop, or list it and go on without it"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was"""
    device: Device = "auto"
    """where to compute"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def evaluate_command(argv: list[str]) -> None:
    """How often a model is right, per class and task, and how well it tells the unknown."""
    arguments = parse(
        EvaluateArguments,
        argv,
        "evaluate",
        "Accuracy on labelled images, per class and per task, and how many are called unknown; "
        "with --unknown also how well images of other things are told from them.",
    )
    rename = renames(arguments.rename)
    from ovor.classifier.evaluate import examine
    from ovor.cli import model_text

    model = open_any(arguments.model, arguments.backbone, arguments.device)
    with model_text.Counting("testing") as listen:
        found = examine(
            model, arguments.folder, arguments.unknown, rename, arguments.on_error, listen
        )
    if arguments.json:
        print(json.dumps(found))
    else:
        model_text.print_exam(found)


@dataclass(frozen=True)
class InspectArguments:
    model: Model
    """a model file"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def inspect_command(argv: list[str]) -> None:
    """What a model file holds: tasks, classes, counts, backbone, thresholds, size."""
    arguments = parse(
        InspectArguments, argv, "inspect", "What a model file says, without its backbone."
    )
    from ovor.classifier.file import read_model
    from ovor.cli import model_text

    found = model_text.inspection(read_model(arguments.model), arguments.model)
    if arguments.json:
        print(json.dumps(found))
    else:
        model_text.print_inspection(found)
