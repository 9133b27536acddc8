"""`ovor forget`: a class out of a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ovor.cli.arguments import (
    Debug,
    Device,
    Json,
    Model,
    MovedBackbone,
    optional,
    parse,
)
from ovor.cli.changes import Change, changed, show
from ovor.cli.counting import Counting


@dataclass(frozen=True)
class ForgetArguments:
    """Take a class out of MODEL. With --images, all that it was taught by, the others are told
    apart as if it had never been (models of the method analytic). Without, its name, its count and
    its weights go, but not what its images changed in numbers that all classes share, and that
    cannot be made up for later. This cannot be undone.
    """

    model: Model
    """a model file; it is changed"""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CLASS")]
    """the class to take out"""
    images: Annotated[Path | None, optional("IMAGES")] = None
    """all images that the class was taught by: a folder, a table of paths and labels, or a zip"""
    backbone: MovedBackbone = None
    device: Device = "auto"
    """where to compute"""
    json: Json = False
    debug: Debug = False


def forget_command(argv: list[str]) -> None:
    """Take a class out of a model file, and say what stays of it."""
    arguments = parse(ForgetArguments, argv)
    name, folder = arguments.name, arguments.images
    with Counting("taking back") as listen:
        change = changed(
            arguments.model,
            arguments.backbone,
            arguments.device,
            lambda model: model.forget(name, folder, listen=listen),
        )
    exact = folder is not None
    found = {**change.as_json(), "forgotten": name, "exact": exact}
    show(found, f"{what_went(name, change)}\n{what_stays(change, exact)}", arguments.json)


def what_went(name: str, change: Change) -> str:
    """Return what is no longer in the model."""
    left = len(change.after)
    return (
        f"{name!r} is out of {change.path}: its weights in the head, its name and its count are "
        f"gone, and {left} class{' is' if left == 1 else 'es are'} left."
    )


def what_stays(change: Change, exact: bool) -> str:
    """Return what is not erased, and what it would take."""
    many = change.words.many
    if exact:
        return (
            "The others are told apart as if it had never been. Not erased: the part that its "
            f"{many} had in how sure the model is of its answers, and any copy or export made "
            "before."
        )
    if change.method == "analytic":
        return (
            f"Not erased: how its {many} differed from one another, which is in one sum with that "
            "of all classes, and any copy or export made before. To erase that too takes the "
            f"{many} when it is forgotten (--images), or now to learn the model anew without the "
            "class."
        )
    return (
        f"Not erased: what its {many} changed in weights that classes share (the prompt), what "
        "they changed in the weights of classes learned with it, the threshold of their lesson, "
        "and any copy or export made before. To erase those too, learn the model anew without the "
        "class."
    )
