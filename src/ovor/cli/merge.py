"""`ovor merge`: one model of several that were taught apart."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import ovor
from ovor.classifier.lock import check_finished, locked
from ovor.cli.arguments import Debug, Json, MovedBackbone, optional, parse
from ovor.cli.changes import Counts, counts_of, images, show
from ovor.cli.exits import wrong_usage
from ovor.data.class_names import listed
from ovor.errors import OvorError


@dataclass(frozen=True)
class MergeArguments:
    """Write the model that one would have who had been taught all that these models were taught,
    without any of their images. A class that several know adds up.
    """

    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")]
    """the file to write; it must not exist, unless it is one of the models"""
    models: Annotated[tyro.conf.Positional[tuple[Path, ...]], optional("A B ...")] = ()
    """two model files or more, of the same backbone"""
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def merge_command(argv: list[str]) -> None:
    """Merge model files into one, and say what it knows."""
    arguments = parse(MergeArguments, argv)
    out, paths = arguments.out, arguments.models
    if len(paths) < 2:
        sys.exit(wrong_usage("ovor: Name a file to write and two models or more: OUT A B."))
    with locked(out):
        check_files(out, paths)
        first, *others = (
            ovor.Classifier.load(path, backbone=arguments.backbone, device="cpu") for path in paths
        )
        known = [counts_of(model) for model in (first, *others)]
        first.merge(*others)
        first.save(out)
    after = counts_of(first)
    shared = [name for name in after if sum(name in counts for counts in known) > 1]
    found = {
        "model": str(out),
        "merged": [str(path) for path in paths],
        "images": after,
        "shared": shared,
        "classes": list(after),
    }
    show(found, in_words(out, paths, after, shared), arguments.json)


def check_files(out: Path, paths: tuple[Path, ...]) -> None:
    """Refuse to overwrite what would be lost, to count a model twice, and unfinished lessons."""
    real = [os.path.realpath(path) for path in paths]
    for path in paths:
        if real.count(os.path.realpath(path)) > 1:
            raise OvorError(
                f"{path} is named twice, and its images would count twice: name it once."
            )
        check_finished(path)
    if out.exists() and os.path.realpath(out) not in real:
        raise OvorError(
            f"{out} exists already, and is none of the models to merge: remove it, or choose "
            "another name."
        )


def in_words(out: Path, paths: tuple[Path, ...], after: Counts, shared: list[str]) -> str:
    """Return what the merged model knows, in sentences."""
    names = f"{', '.join(map(str, paths[:-1]))} and {paths[-1]}"
    words = f"{out} knows what {names} know: {len(after)} classes by {images(sum(after.values()))}."
    if shared:
        words += f" In more than one of them, and added up: {listed(shared)}."
    return words
