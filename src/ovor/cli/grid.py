"""`ovor grid`: the runs of a table of the paper."""

import os
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from ovor.cli.arguments import Device, optional, parse
from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.report import write_report
from ovor.config import Count, OvorError, Run


@dataclass(frozen=True)
class GridArguments:
    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE")] = "core"
    """one of the tables above"""
    data: Annotated[tuple[str, ...], optional("NAME ...")] = ()
    """data sets instead of the paper's: quickdraw needs no download"""
    tasks: Annotated[tuple[Count, ...], optional("INT ...")] = ()
    """numbers of tasks instead of the paper's"""
    methods: Annotated[tuple[str, ...], optional("NAME ...")] = ()
    """some rows of the table, by their methods"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """each seed is a class order, initial weights, augmentation and noise"""
    backbone: Annotated[str | None, optional("NAME")] = None
    """another backbone than the data set's"""
    epochs: Annotated[Count | None, optional("INT")] = None
    """other epochs than the method's; VOR's share stays the same"""
    device: Device = "auto"
    """where to compute; --jobs 1 to give one run all of a GPU"""
    precision: Literal["fp32", "bf16"] = "fp32"
    """of the ViT"""
    workers: Annotated[int | None, optional("INT")] = None
    """processes of each run that load images (the paper's data sets have 4, the drawings none)"""
    cache: Annotated[float, Field(ge=0)] = 0.0
    """GB of decoded images to keep on disk, so that later epochs decode nothing"""
    jobs: Count = field(default_factory=lambda: os.cpu_count() or 1)
    """runs at a time, each in a process with one thread"""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/grid")
    """folder of the result folders; tables share the runs that they have in common"""
    show: bool = False
    """run nothing, print what is there"""
    no_report: bool = False
    """do not write report-TABLE.html"""
    tensorboard: bool = False
    """also write losses and accuracies of every run for TensorBoard, into its result folder"""
    markdown: bool = False
    """print the table as Markdown"""
    json: bool = False
    """print the table as JSON, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def grid_command(argv: list[str]) -> None:
    """A table of the paper: every run that is missing, then means against the paper's figures."""
    from ovor.experiments.tables import TABLES, sections

    listing = "\n".join(f"  {name:<29}{table.about}" for name, table in TABLES.items())
    arguments = parse(
        GridArguments,
        argv,
        "grid",
        "Every run of a table that is not done yet, then the table: mean ± population "
        "standard deviation over the seeds, beside the paper's figures and the difference where "
        f"the data are the paper's. Stop and continue it at will.\n\nTables:\n{listing}",
    )
    if arguments.preset not in TABLES:
        sys.exit(
            wrong_usage(f"There is no table {arguments.preset!r}: choose from {', '.join(TABLES)}.")
        )
    from rich.console import Console

    from ovor.experiments import grid, summary
    from ovor.experiments.progress import GridProgress
    from ovor.report import make

    table, parts = sections(
        arguments.preset,
        list(arguments.data),
        list(arguments.tasks),
        list(arguments.methods),
        lambda run: adapt(run, arguments),
    )
    seeds = list(dict.fromkeys(arguments.seeds))
    if not arguments.show:
        rows = [row for part in parts for row in part.rows]
        try:
            with GridProgress(len(rows) * len(seeds)) as progress:
                for row, seed, result in grid.run_grid(
                    rows, seeds, arguments.out, arguments.jobs, arguments.tensorboard
                ):
                    progress.done(f"{row.label}, seed {seed}", result)
        except KeyboardInterrupt:
            sys.exit(stopped("Stopped. The same command continues; --show prints what is there."))
        except OvorError as error:
            if arguments.data:
                raise
            hint = "With --data quickdraw the table runs on drawings, without a download."
            raise OvorError(f"{error} {hint}") from error
    found = summary.collect(parts, table.measure, seeds, arguments.out)
    if arguments.json:
        print(summary.as_json(arguments.preset, seeds, found), end="")
    elif arguments.markdown:
        print(summary.as_markdown(found, table.measure), end="")
    else:
        console = Console()
        console.print(summary.as_tables(found, table.measure, console.width))
    if not arguments.no_report:
        page = arguments.out / f"report-{arguments.preset}.html"
        write_report(lambda: make.of_grid(parts, seeds, arguments.out), page)


def adapt(run: Run, arguments: GridArguments) -> Run:
    """The run of a table on another backbone or device, or shorter."""
    changed = replace(
        run,
        device=arguments.device,
        precision=arguments.precision,
        cache=arguments.cache,
        workers=run.workers if arguments.workers is None else arguments.workers,
    )
    if arguments.backbone:
        changed = replace(changed, backbone=arguments.backbone)
    if arguments.epochs:
        vor = run.vor
        if vor:
            vor = replace(vor, epochs=max(1, round(vor.epochs * arguments.epochs / run.epochs)))
        changed = replace(changed, epochs=arguments.epochs, vor=vor)
    return changed
