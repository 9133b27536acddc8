"""What the arguments of several commands have in common."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from pydantic import TypeAdapter

from ovor.cli.exits import wrong_usage
from ovor.terminal.guard import drawing

Arguments = TypeVar("Arguments")


def optional(metavar: str, about: str | None = None) -> Any:
    """Return what describes a flag whose default its help tells in words, if at all."""
    return tyro.conf.arg(metavar=metavar, help=about, help_behavior_hint="")


Model = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
ModelFile = Annotated[
    tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL", help="a model file")
]
Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")]
Label = Annotated[str | None, optional("CLASS", "the class that all of these are of")]
Folder = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FOLDER")]
MovedBackbone = Annotated[
    str | None, optional("NAME", "where the model's backbone is now, if not where it was")
]
Device = Literal["auto", "cpu", "cuda", "mps"]
OnError = Literal["stop", "skip"]
TextColumn = Annotated[
    str | None, optional("NAME", "of a table: the column of texts, if its name does not tell")
]
LabelColumn = Annotated[
    str | None, optional("NAME", "of a table: the column of labels, if its name does not tell")
]
Rename = Annotated[  # given twice, both count
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="OLD=NEW")
]
Json = Annotated[bool, tyro.conf.arg(help="print one JSON value, and nothing else")]
Debug = Annotated[bool, tyro.conf.arg(help="show tracebacks")]


def parse(kind: type[Arguments], argv: list[str], more: str = "") -> Arguments:
    """Return the arguments of a command, or print its help or what is wrong, and exit.

    `NameArguments` are those of the command `name`; its help begins with their docstring.
    """
    if "source" in kind.__annotations__ and unset(argv):  # it would be the folder where one is
        sys.exit(
            wrong_usage(
                "ovor: An argument is empty, perhaps a variable of the shell that is not set: name "
                "the model, and what is to be read."
            )
        )
    with drawing():  # its help has colours
        found = tyro.cli(
            kind,
            args=argv,
            config=(tyro.conf.FlagCreatePairsOff,),
            prog=f"ovor {kind.__name__.removesuffix('Arguments').lower()}",
            description=" ".join((kind.__doc__ or "").split()) + more,
        )
    # The limits of numbers: tyro would report them in pydantic's words, in a box.
    return TypeAdapter(kind).validate_python(vars(found))


def unset(argv: list[str]) -> bool:
    """Tell whether an argument is empty that is not the value of a flag."""
    return any(
        not one and not last.startswith("-")
        for last, one in zip(["", *argv[:-1]], argv, strict=True)
    )


def renames(given: Sequence[str]) -> dict[str, str]:
    """Return the new names of classes by the old ones, from texts OLD=NEW."""
    found: dict[str, str] = {}
    for text in given:
        old, _, new = text.partition("=")
        if not (old and new):
            sys.exit(wrong_usage(f"ovor: --rename takes OLD=NEW, not {text!r}."))
        if old in found:
            sys.exit(wrong_usage(f"ovor: --rename names {old!r} twice: choose one new name."))
        found[old] = new
    return found
