"""`ovor export`: a model as ONNX, or as a file with its backbone inside."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import ovor
from ovor.classifier.lock import locked
from ovor.classifier.onnx import check_place
from ovor.cli.arguments import Debug, Json, ModelFile, MovedBackbone, parse
from ovor.cli.exits import wrong_usage
from ovor.errors import OvorError


@dataclass(frozen=True)
class ExportArguments:
    """ONNX with the prompts folded in and the labels, thresholds and preprocessing inside, for
    `ovor predict FILE.onnx` or any ONNX runtime; with --bundle, a model file that needs no other;
    with --predict-only, a small one for devices that do not learn.
    """

    model: ModelFile
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """an .onnx file; with --bundle or --predict-only, a model file"""
    bundle: bool = False
    """a model file with the backbone inside, for machines without network"""
    predict_only: bool = False
    """a model file without the sums that learning needs, which are most of it"""
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def export_command(argv: list[str]) -> None:
    """Write a model in another form, and say what was written."""
    arguments = parse(ExportArguments, argv)
    check_suffix(arguments)
    check_place(arguments.file)  # before torch takes its seconds
    model_file = arguments.bundle or arguments.predict_only
    found = rewritten(arguments) if model_file else exported(arguments)
    if arguments.json:
        print(json.dumps(found))
        return
    same = f", equal to the model to {found['difference']:.0e}" if "difference" in found else ""
    print(f"{found['file']}: {found['classes']} classes, {found['bytes'] / 1e6:.1f} MB{same}.")


def check_suffix(arguments: ExportArguments) -> None:
    """Refuse a file's name that does not go with what is to be written."""
    is_onnx = arguments.file.suffix == ".onnx"
    flag = "--bundle" if arguments.bundle else "--predict-only" if arguments.predict_only else ""
    if flag and is_onnx:
        what = f"{flag} makes a model file: choose a FILE that does not end in .onnx."
    elif not flag and not is_onnx:
        what = "FILE must end in .onnx; to make a model file with its backbone add --bundle."
    else:
        return
    sys.exit(wrong_usage(f"ovor: {what}"))


def rewritten(arguments: ExportArguments) -> dict[str, Any]:
    """Write a model file with its backbone or without its sums; returns what is said of it."""
    path = arguments.file
    if path.exists():
        raise OvorError(f"{path} exists already: remove it, or choose another name.")
    with locked(path):
        model = opened(arguments)
        model.save(path, bundle=arguments.bundle, sums=not arguments.predict_only)
    return {"file": str(path), **contents(model, path)}


def exported(arguments: ExportArguments) -> dict[str, Any]:
    """Write an ONNX file; returns what is said of it."""
    from ovor.classifier.onnx_export import export_onnx

    model = opened(arguments)
    difference = export_onnx(model, arguments.file)
    found = contents(model, arguments.file)
    return {"file": str(arguments.file), "difference": difference, **found}


def opened(arguments: ExportArguments) -> "ovor.Classifier":
    """Return the model that is to be written."""
    return ovor.Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")


def contents(model: "ovor.Classifier", path: Path) -> dict[str, int]:
    """Return how much was written."""
    return {"classes": len(model.classes_), "bytes": path.stat().st_size}
