"""What the arguments of several commands have in common."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from pydantic import TypeAdapter

from ovor.cli.exits import wrong_usage

Arguments = TypeVar("Arguments")
Model = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
Device = Literal["auto", "cpu", "cuda", "mps"]
Rename = Annotated[  # given twice, both count
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="OLD=NEW")
]


def optional(metavar: str) -> Any:
    """For a flag whose default its help tells in words, if at all."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


def parse(kind: type[Arguments], argv: list[str], name: str, description: str) -> Arguments:
    found = tyro.cli(
        kind,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog=f"ovor {name}",
        description=description,
    )
    # The limits of numbers: tyro would report them in pydantic's words, in a box.
    return TypeAdapter(kind).validate_python(vars(found))


def renames(given: Sequence[str]) -> dict[str, str]:
    """From OLD=NEW, each."""
    found: dict[str, str] = {}
    for text in given:
        old, _, new = text.partition("=")
        if not (old and new):
            sys.exit(wrong_usage(f"ovor: --rename takes OLD=NEW, not {text!r}."))
        if old in found:
            sys.exit(wrong_usage(f"ovor: --rename names {old!r} twice: choose one new name."))
        found[old] = new
    return found
