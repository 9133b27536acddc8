"""What the arguments of several commands have in common."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro

from ovor.cli.exits import wrong_usage

Arguments = TypeVar("Arguments")
Model = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
Device = Literal["auto", "cpu", "cuda", "mps"]
NOT_GIVEN: Any = tyro.conf.arg(help_behavior_hint="")


def parse(kind: type[Arguments], argv: list[str], name: str, description: str) -> Arguments:
    return tyro.cli(
        kind,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog=f"ovor {name}",
        description=description,
    )


def pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        sys.exit(wrong_usage(f"--rename takes OLD=NEW, not {text!r}."))
    return old, new
