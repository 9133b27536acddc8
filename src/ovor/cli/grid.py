"""`ovor grid`: the runs of a table of the paper."""

import json
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import Field

from ovor.cli.arguments import Debug, Device, optional, parse
from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.report import write_report
from ovor.config import Count, Positive, Run, Scenario, Shift
from ovor.errors import MissingDataError, OvorError
from ovor.experiments import grid, summary
from ovor.experiments.executors.base import Executor
from ovor.experiments.executors.local import on_this_machine
from ovor.experiments.executors.ray import on_ray
from ovor.experiments.executors.slurm import on_slurm
from ovor.experiments.progress import GridProgress
from ovor.experiments.scenarios import arriving
from ovor.experiments.tables import TABLES, Row, Section, sections
from ovor.terminal.console import Terminal

USUAL_WAY = ("classes", None, 0.0, "none")


@dataclass(frozen=True)
class GridArguments:
    """Every run of a table that is not done yet, then the table: mean ± population standard
    deviation over the seeds, beside the paper's figures and the difference where the data are the
    paper's. Stop and continue it at will.
    """

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
    scenario: Scenario = "classes"
    """how training images come, as for ovor run; --methods chooses those that can: in repetition
    joint and those that keep sums, in a stream those that look at each image once"""
    imbalance: Annotated[tuple[Count, Count] | None, optional("FEW MANY")] = None
    """unequal classes, with FEW to MANY training images; the seed says which has how many"""
    label_noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """share of training images with the label of another class of their task"""
    shift: Shift = "none"
    """how tasks differ in their look: ink (drawn thicker, rotated) or light (blurred, darker)"""
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
    """GB of decoded images to keep on disk, so that later epochs decode nothing, or of the features
    of texts"""
    jobs: Annotated[Count | None, optional("INT")] = None
    """runs at a time, each in a process with one thread: as many as there are cores, and on Ray or
    SLURM as many as they have room for"""
    ray: Annotated[str | None, optional("ADDRESS")] = None
    """run on a Ray cluster: HOST:PORT of its head, auto for the one that this machine is in, or
    local for one of its own; all machines must share --out under the same path"""
    slurm: Annotated[str | None, optional("PARTITION")] = None
    """run as jobs of a SLURM partition, from a machine with sbatch that shares --out with it"""
    slurm_options: Annotated[tuple[str, ...], optional("KEY=VALUE ...")] = ()
    """options of sbatch for each job, such as time=8:00:00 mem=16G account=NAME (24 hours, 8G)"""
    gpus_per_run: Annotated[Positive | None, optional("NUMBER")] = None
    """on Ray and SLURM: one with --device cuda; on Ray also a part, such as 0.5"""
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
    debug: Debug = False


def grid_command(argv: list[str]) -> None:
    """Do the runs of a table that are missing, and print the table."""
    listing = "\n".join(f"  {name:<29}{table.about}" for name, table in TABLES.items())
    arguments = parse(GridArguments, argv, f"\n\nTables:\n{listing}")
    if arguments.preset not in TABLES:
        sys.exit(
            wrong_usage(f"There is no table {arguments.preset!r}: choose from {', '.join(TABLES)}.")
        )
    check_flags(arguments)
    table, parts = sections(
        arguments.preset,
        list(arguments.data),
        list(arguments.tasks),
        list(arguments.methods),
        lambda run: adapt(run, arguments),
    )
    parts = [in_scenario(part, arguments) for part in parts]
    seeds = list(dict.fromkeys(arguments.seeds))
    if not arguments.show:
        do_runs([row for part in parts for row in part.rows], seeds, arguments)
    found = summary.collect(parts, table.measure, seeds, arguments.out)
    if arguments.json:
        value = {"table": arguments.preset, "seeds": seeds, "sections": found}
        print(json.dumps(value, indent=1))
    elif arguments.markdown:
        print(summary.as_markdown(found, table.measure), end="")
    else:
        console = Terminal()
        console.print(summary.as_tables(found, table.measure, console.width))
    if not arguments.no_report:
        from ovor.report import make

        arrival = parts[0].rows[0].run.arrival
        name = "-".join(("report", arguments.preset, *arrival)).replace(" ", "-")
        page = arguments.out / f"{name}.html"
        first = make.field_overview(found) if table.measure == "field" else None
        write_report(lambda: make.of_grid(parts, seeds, arguments.out, first).write(page), page)


def in_scenario(part: Section, arguments: GridArguments) -> Section:
    """Return the section with its images coming as the flags say."""
    if way_of(arguments) == USUAL_WAY:
        return part
    try:
        return arriving(part, *way_of(arguments))
    except OvorError as error:
        raise OvorError(f"{error} --methods chooses rows of the table.") from error


def way_of(arguments: GridArguments) -> tuple[Scenario, tuple[int, int] | None, float, Shift]:
    """Return how images come, by the flags."""
    return arguments.scenario, arguments.imbalance, arguments.label_noise, arguments.shift


def do_runs(rows: list[Row], seeds: list[int], arguments: GridArguments) -> None:
    """Do the runs of these rows that have no result yet, and print a line for each."""
    try:
        with GridProgress(len(rows) * len(seeds)) as progress:
            place = chosen_place(arguments)
            for row, seed, result in grid.run_on(place, rows, seeds, arguments.out, progress):
                progress.done(f"{row.label}, seed {seed}", result)
    except KeyboardInterrupt:
        sys.exit(stopped("Stopped. The same command continues; --show prints what is there."))
    except MissingDataError as error:
        hint = "With --data quickdraw the table runs on drawings, without a download."
        raise OvorError(f"{error} {hint}") from error


def check_flags(arguments: GridArguments) -> None:
    """Refuse flags that exclude each other, or one without the other that it needs."""
    if not arguments.seeds:
        sys.exit(wrong_usage("ovor: --seeds names none: give one or more, or leave it out."))
    if arguments.ray and arguments.slurm:
        sys.exit(wrong_usage("ovor: --ray and --slurm are two places for the runs: choose one."))
    if arguments.preset == "field" and way_of(arguments) != USUAL_WAY:
        sys.exit(wrong_usage("ovor: the table field has its own scenarios: leave out the others."))
    if arguments.scenario == "stream" and (arguments.epochs or 1) > 1:
        sys.exit(wrong_usage("ovor: a stream shows every image once: leave out --epochs."))
    if arguments.slurm_options and not arguments.slurm:
        sys.exit(wrong_usage("ovor: --slurm-options needs --slurm PARTITION."))
    if arguments.gpus_per_run and not (arguments.ray or arguments.slurm):
        sys.exit(wrong_usage("ovor: --gpus-per-run needs --ray or --slurm."))
    if arguments.slurm and not float(arguments.gpus_per_run or 1).is_integer():
        sys.exit(wrong_usage("ovor: SLURM gives whole GPUs alone: choose whole --gpus-per-run."))


def chosen_place(arguments: GridArguments) -> AbstractContextManager[Executor]:
    """Return who does the runs: Ray, SLURM or processes of this machine."""
    if arguments.ray:
        return on_ray(
            arguments.ray, arguments.out, arguments.device, arguments.gpus_per_run, arguments.jobs
        )
    if arguments.slurm:
        return on_slurm(sbatch_options(arguments), arguments.out, arguments.jobs)
    return on_this_machine(arguments.jobs or os.cpu_count() or 1, grid.execute_one)


def sbatch_options(arguments: GridArguments) -> dict[str, str | bool]:
    """Return the options of each job by sbatch's names; one without a value is a switch."""
    found: dict[str, str | bool] = {"partition": arguments.slurm or ""}
    gpus = arguments.gpus_per_run or (1 if arguments.device == "cuda" else 0)
    if gpus:
        found["gpus_per_node"] = f"{gpus:g}"
    for text in arguments.slurm_options:
        key, given, value = text.lstrip("-").partition("=")
        found[key.replace("-", "_")] = value if given else True
    return found


def adapt(run: Run, arguments: GridArguments) -> Run:
    """Return the run of a table as the flags change it."""
    changed = replace(
        run,
        device=arguments.device,
        precision=arguments.precision,
        tensorboard=arguments.tensorboard,
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
