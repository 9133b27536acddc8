"""`ovor fetch`: a model that others shared."""

import json
from dataclasses import dataclass
from typing import Annotated

from ovor.classifier.lock import locked
from ovor.cli.arguments import Debug, Json, Model, optional, parse
from ovor.cli.share import Where
from ovor.errors import OvorError


@dataclass(frozen=True)
class FetchArguments:
    """A copy of a shared model, checked before it is written."""

    where: Where
    model: Model
    """the model file to write"""
    revision: Annotated[str | None, optional("NAME")] = None
    """a commit, branch or tag of the repository"""
    json: Json = False
    debug: Debug = False


def fetch_command(argv: list[str]) -> None:
    """Copy a shared model into a file, and say what it holds."""
    arguments = parse(FetchArguments, argv)
    from ovor.classifier.hub import copy

    path = arguments.model
    with locked(path):
        if path.exists():
            raise OvorError(f"{path} exists already: remove it, or choose another name.")
        about = copy(arguments.where, arguments.revision, path)
    classes = sum(len(task.classes) for task in about.tasks)
    if arguments.json:
        print(json.dumps({"model": str(path), "classes": classes}))
    else:
        print(f"{path}: {classes} classes, on the backbone {about.backbone.name}.")
