"""`ovor cost`, `ovor figure` and `ovor doctor`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from ovor.cli.arguments import optional, parse
from ovor.config import Count


@dataclass(frozen=True)
class CostArguments:
    tasks: Count = 10
    """number of tasks"""
    classes: Count = 20
    """classes of each task"""
    methods: Annotated[tuple[str, ...], optional("NAME ...")] = ()
    """only these rows (default: every method)"""
    json: bool = False
    """print the tables as JSON, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def cost_command(argv: list[str]) -> None:
    """Learnable parameters, stored numbers and FLOPs of every method, beside the paper's."""
    arguments = parse(
        CostArguments,
        argv,
        "cost",
        "Learnable parameters, stored numbers and FLOPs of every method on a ViT-B/16 "
        "at 224 pixels, computed, beside the paper's (ImageNet-R in 10 tasks: the default).",
    )
    from rich.console import Console

    from ovor.analysis import cost_table
    from ovor.analysis.cost import Setting

    table = cost_table.cost_table(Setting(arguments.tasks, arguments.classes), arguments.methods)
    if arguments.json:
        print(cost_table.as_json(table), end="")
    else:
        Console().print(cost_table.as_tables(table), highlight=False)


@dataclass(frozen=True)
class FigureArguments:
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
    debug: bool = False
    """show tracebacks"""


def figure_command(argv: list[str]) -> None:
    """A figure of the paper, drawn from real training, and its numbers."""
    arguments = parse(
        FigureArguments,
        argv,
        "figure",
        "Train a toy of two tasks with and without virtual outliers, draw its features "
        "and scores as the paper's Figure 1 does, and print how often it confuses the tasks.",
    )
    from ovor.analysis import figures

    figures.check(arguments.out)
    import torch
    from rich.console import Console
    from rich.progress import track

    from ovor.analysis import boundaries, confusion
    from ovor.analysis.toy import Toy

    torch.set_num_threads(1)  # so small a network gains nothing by more
    toy, seeds = Toy(), list(dict.fromkeys(arguments.seeds))
    pair = confusion.train_pair(toy, arguments.seed)
    figures.save(boundaries.draw(toy, pair), arguments.out)
    waiting = track(
        seeds, "seeds", console=Console(stderr=True), transient=True, disable=len(seeds) < 2
    )
    found = confusion.numbers(toy, pair, waiting)
    if arguments.json:
        print(confusion.as_json(found), end="")
        return
    console = Console()
    console.print(confusion.as_tables(found), highlight=False)
    console.print(f"Picture in {arguments.out}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class DoctorArguments:
    json: bool = False
    """print the findings as JSON, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def doctor_command(argv: list[str]) -> None:
    """What this machine has, which data sets are found, and how to get what is missing."""
    arguments = parse(
        DoctorArguments,
        argv,
        "doctor",
        "Versions, devices, the embedded backbone, and the paper's data sets: found, "
        "or what to download and where to put it.",
    )
    from rich.console import Console

    from ovor.experiments import doctor

    found = doctor.examine()
    if arguments.json:
        print(json.dumps(found))
    else:
        Console().print(doctor.as_tables(found))
