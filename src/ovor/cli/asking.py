"""A question on the terminal, where a person has to say what is meant; elsewhere a flag says it."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, TypeVar

import tyro

from ovor.data.class_names import AlikeNamesError
from ovor.errors import OvorError, one_line
from ovor.experiments.progress import Live

T = TypeVar("T")
Yes = Annotated[
    bool,
    tyro.conf.arg(help="take new names that differ from others only by case or look (Fish, fish)"),
]


def confirmed(act: Callable[[bool], T], yes: bool, live: Live | None = None) -> T:
    """Act, without leave to take names that are alike unless it was given; else ask for it.

    `live` is the bar that would be in the way.
    """
    try:
        return act(yes)
    except AlikeNamesError as error:
        if not at_terminal():
            raise AlikeNamesError(error.pairs, "--yes") from error
        with live.paused() if live else nullcontext():
            agree = agreed(error.question)
        if not agree:
            sentence = "Nothing was changed: give both the same name, and try again."
            raise OvorError(sentence) from error
    return act(True)


def at_terminal() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask on stderr, as stdout is for results; anything but yes is no."""
    print(f"{one_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")
