"""`ovor export`, `share`, `fetch` and `drawings`: models for others, and images to practise on."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ovor.cli.arguments import Model, optional, parse
from ovor.cli.exits import wrong_usage
from ovor.config import Count
from ovor.errors import OvorError


@dataclass(frozen=True)
class ExportArguments:
    model: Model
    """a model file"""
    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """an .onnx file; with --bundle, a model file"""
    bundle: bool = False
    """a model file with the backbone inside, for machines without network"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def export_command(argv: list[str]) -> None:
    """Write a model as ONNX, or as a file with its backbone inside."""
    arguments = parse(
        ExportArguments,
        argv,
        "export",
        "ONNX with the prompts folded in and the labels, thresholds and preprocessing inside, for "
        "`ovor predict FILE.onnx` or any ONNX runtime; or, with --bundle, a model file that needs "
        "no other.",
    )
    path = arguments.file
    if arguments.bundle == (path.suffix == ".onnx"):
        sys.exit(
            wrong_usage(
                "ovor: FILE must end in .onnx; to make a model file with its backbone add --bundle."
                if not arguments.bundle
                else "ovor: --bundle makes a model file: choose a FILE that does not end in .onnx."
            )
        )
    from ovor.classifier.onnx import check_place, export_onnx

    check_place(path)  # before torch takes its seconds
    from ovor.classifier.file import alone
    from ovor.classifier.model import Classifier

    found: dict[str, Any] = {"file": str(path)}
    if arguments.bundle:
        if path.exists():
            raise OvorError(f"{path} exists already: remove it, or choose another name.")
        with alone(path):
            model = Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
            model.save(path, bundle=True)
    else:
        model = Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
        found["difference"] = export_onnx(model, path)
    found |= {"classes": len(model.classes_), "bytes": path.stat().st_size}
    if arguments.json:
        print(json.dumps(found))
        return
    same = f", equal to the model to {found['difference']:.0e}" if "difference" in found else ""
    print(f"{path}: {found['classes']} classes, {found['bytes'] / 1e6:.1f} MB{same}.")


@dataclass(frozen=True)
class ShareArguments:
    model: Model
    """a model file"""
    where: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WHERE")]
    """a repository of the Hugging Face hub (owner/name), or a folder (./name)"""
    private: bool = False
    """make a new repository private"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """where the model's backbone is now, if not where it was"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def share_command(argv: list[str]) -> None:
    """Put a model on the Hugging Face hub, or into a folder, with a description."""
    arguments = parse(
        ShareArguments,
        argv,
        "share",
        "The model file and a page that describes it, in a repository or a folder.",
    )
    from ovor.classifier.model import Classifier

    model = Classifier.load(arguments.model, backbone=arguments.backbone, device="cpu")
    place = model.push_to_hub(arguments.where, private=arguments.private)
    if arguments.json:
        print(json.dumps({"shared": place}))
    else:
        print(f"Shared in {place}: others get it by `ovor fetch {arguments.where} MODEL`.")


@dataclass(frozen=True)
class FetchArguments:
    where: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="WHERE")]
    """a repository of the Hugging Face hub (owner/name), or a folder (./name)"""
    model: Model
    """the model file to write"""
    revision: Annotated[str | None, optional("NAME")] = None
    """a commit, branch or tag of the repository"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def fetch_command(argv: list[str]) -> None:
    """Get a model that was shared."""
    arguments = parse(
        FetchArguments, argv, "fetch", "A copy of a shared model, checked before it is written."
    )
    from ovor.classifier.file import alone, read_model
    from ovor.classifier.hub import fetch
    from ovor.tensor_file import write_atomically

    path = arguments.model
    with alone(path):
        if path.exists():
            raise OvorError(f"{path} exists already: remove it, or choose another name.")
        source = fetch(arguments.where, arguments.revision)
        about = read_model(source).about
        write_atomically(path, source.read_bytes())
    classes = sum(len(task.classes) for task in about.tasks)
    if arguments.json:
        print(json.dumps({"model": str(path), "classes": classes}))
    else:
        print(f"{path}: {classes} classes, on the backbone {about.backbone.name}.")


@dataclass(frozen=True)
class DrawingsArguments:
    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
    """where the folders of the classes go; made if it does not exist"""
    classes: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="CLASS")] = ()
    """which to write; none prints the names that there are"""
    each: Count = 40
    """drawings of each class"""
    part: Literal["train", "test"] = "train"
    """80 drawings of a class are for training, 20 others for testing"""
    json: bool = False
    """print one JSON value, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def drawings_command(argv: list[str]) -> None:
    """Write some of the embedded drawings as image files, to practise on."""
    arguments = parse(
        DrawingsArguments,
        argv,
        "drawings",
        "Folders of drawings (Quick, Draw! by Google, 28 x 28 pixels) to try ovor with.",
    )
    from ovor.data.embedded import quickdraw, write_drawings

    written = write_drawings(
        quickdraw(), arguments.folder, arguments.classes, arguments.each, arguments.part
    )
    if arguments.json:
        print(json.dumps(written))
        return
    print(f"{arguments.folder}: {sum(written.values())} drawings of {', '.join(written)}")
