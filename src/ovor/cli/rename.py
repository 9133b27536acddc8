"""`ovor rename`: another name for a class."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ovor.cli.arguments import Debug, Json, Model, MovedBackbone, parse
from ovor.cli.asking import Yes, confirmed
from ovor.cli.changes import changed, show


@dataclass(frozen=True)
class RenameArguments:
    """Give a class of MODEL another name. Nothing else changes."""

    model: Model
    """a model file; it is changed"""
    old: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="OLD")]
    """the class's name now"""
    new: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NEW")]
    """its name from now on, which no other class has"""
    yes: Yes = False
    backbone: MovedBackbone = None
    json: Json = False
    debug: Debug = False


def rename_command(argv: list[str]) -> None:
    """Rename a class in a model file, and say so."""
    arguments = parse(RenameArguments, argv)
    old, new = arguments.old, arguments.new
    change = changed(
        arguments.model,
        arguments.backbone,
        "cpu",
        lambda model: confirmed(lambda yes: model.rename(old, new, yes=yes), arguments.yes),
    )
    found = {"model": str(change.path), "old": old, "new": new, "classes": list(change.after)}
    show(found, f"{old!r} is called {new!r} in {change.path} from now on.", arguments.json)
