"""`ovor figure`: a figure of the paper."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field
from rich.progress import track

from ovor.analysis import figures
from ovor.cli.arguments import Debug, parse
from ovor.terminal.console import Terminal


@dataclass(frozen=True)
class FigureArguments:
    """Train a toy of two tasks with and without virtual outliers, draw its features and scores as
    the paper's Figure 1 does, and print how often it confuses the tasks.
    """

    figure: tyro.conf.Positional[Literal["boundaries"]]
    """boundaries: Figure 1, inter-task confusion and what VOR does to it, on a toy in a plane"""
    seed: Annotated[int, Field(ge=0)] = 0
    """of the picture: points, initial weights and noise"""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """also train with these, and print the mean over them"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("boundaries.png")
    """a .png, .svg or .html file"""
    json: bool = False
    """print the numbers as JSON, and nothing else"""
    debug: Debug = False


def figure_command(argv: list[str]) -> None:
    """Train a toy, draw it, and print its numbers."""
    arguments = parse(FigureArguments, argv)
    figures.check(arguments.out)
    import torch

    from ovor.analysis import boundaries, confusion, toy

    torch.set_num_threads(1)  # so small a network gains nothing by more
    setting, seeds = toy.Toy(), list(dict.fromkeys(arguments.seeds))
    pair = confusion.train_pair(setting, arguments.seed)
    figures.save(boundaries.draw(setting, pair), arguments.out)
    waiting = track(
        seeds, "seeds", console=Terminal(stderr=True), transient=True, disable=len(seeds) < 2
    )
    found = confusion.numbers(setting, pair, waiting)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    console = Terminal()
    console.print(confusion.as_tables(found), highlight=False)
    console.print(f"Picture in {arguments.out}", highlight=False, soft_wrap=True)
