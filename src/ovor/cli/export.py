"""`ovor export`: a model as ONNX, as a file with its backbone inside, or as a page."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import ovor
from ovor.classifier.lock import locked
from ovor.classifier.onnx import check_place
from ovor.cli.arguments import Debug, Json, ModelFile, optional, parse
from ovor.cli.exits import wrong_usage
from ovor.errors import OvorError


@dataclass(frozen=True)
class ExportArguments:
    """ONNX with the prompts folded in and the labels, thresholds and preprocessing inside, for
    `ovor predict FILE.onnx` or any ONNX runtime; with --bundle, a model file that needs no other;
    with --predict-only, a small one for devices that do not learn; with --web, a page that asks and
    teaches it in the browser, without a server.
    """

    model: ModelFile
    file: Annotated[tyro.conf.Positional[Path | None], optional("FILE")] = None
    """an .onnx file; with --bundle or --predict-only, a model file; with --web, a folder, which
    alone is enough for a page that knows nothing yet"""
    bundle: bool = False
    """a model file with the backbone inside, for machines without network"""
    predict_only: bool = False
    """a model file without the sums that learning needs, which are most of it"""
    web: bool = False
    """a folder of static files: a page for any web server, which sends no image anywhere"""
    runtime: Annotated[Path | None, optional("FILE")] = None
    """with --web: a copy of npm's package onnxruntime-web, where npm cannot fetch it"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was; with --web and no model, the one to
    begin with, as for `ovor learn`"""
    json: Json = False
    debug: Debug = False


def export_command(argv: list[str]) -> None:
    """Write a model in another form, and say what was written."""
    arguments = parse(ExportArguments, argv)
    if arguments.web:
        found = web_page(arguments)
        print(json.dumps(found) if arguments.json else in_words(found))
        return
    file = check_suffix(arguments)
    check_place(file)  # before torch takes its seconds
    model_file = arguments.bundle or arguments.predict_only
    found = rewritten(arguments, file) if model_file else exported(arguments, file)
    if arguments.json:
        print(json.dumps(found))
        return
    same = f", equal to the model to {found['difference']:.0e}" if "difference" in found else ""
    beside = ", ".join(found.get("beside", []))
    print(
        f"{found['file']}: {found['classes']} classes, {found['bytes'] / 1e6:.1f} MB{same}."
        f"{f' Beside it, and needed with it: {beside}.' if beside else ''}"
    )


def web_page(arguments: ExportArguments) -> dict[str, Any]:
    """Write the folder of a page; returns what is said of it."""
    if arguments.bundle or arguments.predict_only:
        sys.exit(wrong_usage("ovor: --web makes a page, not a model file: give it alone."))
    file = arguments.model if arguments.file else None
    folder = arguments.file or arguments.model
    if file is None and folder.is_file():
        sys.exit(
            wrong_usage(
                "ovor: --web needs a FOLDER after the model: ovor export MODEL FOLDER --web."
            )
        )
    from ovor.classifier.new import new_classifier
    from ovor.web.exported_page import check_folder, export_page

    check_folder(folder)  # before torch takes its seconds
    empty = file is None
    model = new_classifier(arguments.backbone, device="cpu") if empty else opened(arguments)
    return export_page(model, file, folder, arguments.runtime)


def in_words(found: dict[str, Any]) -> str:
    """Say what a page is, and how to look at it."""
    knows = f"{found['classes']} classes" if found["classes"] else "nothing yet"
    return (
        f"{found['folder']}: a page of {found['files']} files, {found['bytes'] / 1e6:.1f} MB, that "
        f"knows {knows}. Put it on any web server, or try it here:\n"
        f"  python -m http.server --directory {shlex.quote(found['folder'])}"
    )


def check_suffix(arguments: ExportArguments) -> Path:
    """Return the file to write; refuse a name that does not go with what is to be written."""
    if arguments.runtime:
        sys.exit(wrong_usage("ovor: --runtime goes with --web."))
    if arguments.file is None:
        sys.exit(wrong_usage("ovor: say which FILE to write after the model."))
    is_onnx = arguments.file.suffix == ".onnx"
    flag = "--bundle" if arguments.bundle else "--predict-only" if arguments.predict_only else ""
    if flag and is_onnx:
        what = f"{flag} makes a model file: choose a FILE that does not end in .onnx."
    elif not flag and not is_onnx:
        what = "FILE must end in .onnx; to make a model file with its backbone add --bundle."
    else:
        return arguments.file
    sys.exit(wrong_usage(f"ovor: {what}"))


def rewritten(arguments: ExportArguments, path: Path) -> dict[str, Any]:
    """Write a model file with its backbone or without its sums; returns what is said of it."""
    if path.exists():
        raise OvorError(f"{path} exists already: remove it, or choose another name.")
    with locked(path):
        model = opened(arguments)
        model.save(path, bundle=arguments.bundle, sums=not arguments.predict_only)
    return {"file": str(path), **contents(model, path)}


def exported(arguments: ExportArguments, path: Path) -> dict[str, Any]:
    """Write an ONNX file; returns what is said of it."""
    from ovor.classifier.onnx_export import export_onnx

    model = opened(arguments)
    difference = export_onnx(model, path)
    beside = [str(path.with_suffix(end)) for end in model.reads.files()]
    return {"file": str(path), "difference": difference, "beside": beside, **contents(model, path)}


def opened(arguments: ExportArguments) -> "ovor.Classifier":
    """Return the model that is to be written."""
    return ovor.Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")


def contents(model: "ovor.Classifier", path: Path) -> dict[str, int]:
    """Return how much was written."""
    return {"classes": len(model.classes_), "bytes": path.stat().st_size}
