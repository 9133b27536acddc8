"""The command line: one small function a command.

Progress and errors go to stderr, results to stdout. Exit code 0 done, 1 failed with a sentence
that names the fix, 2 wrong usage. Torch is imported only by what needs it.
"""

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import tyro
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass as checked

from ovor.config import Count, OvorError, Run, explain
from ovor.presets import SETTINGS, settings

if TYPE_CHECKING:
    from ovor.experiments.folder import Folder

Options = TypeVar("Options")


@checked(frozen=True)
class NoOptions:
    """Stands for a method's own options while no method is named."""


@dataclass(frozen=True)
class RunArguments(Generic[Options]):
    preset: tyro.conf.Positional[Literal["quickdraw", "quickdraw-dev"]] = "quickdraw"
    """a named run to start from"""
    run: Annotated[Run, tyro.conf.arg(name="")] = field(default_factory=Run)
    options: Annotated[Options, tyro.conf.arg(name="method")] = field(
        default_factory=NoOptions  # type: ignore[assignment]
    )
    vor_preset: str = "paper"
    """paper; released: outliers as the authors' code makes them; ce-only, current-only and
    outlier-only leave a part of VOR out. Needs a method with +vor"""
    from_: Annotated[
        Path | None, tyro.conf.arg(name="from", metavar="FILE", help_behavior_hint="")
    ] = None
    """repeat the run of this run.json"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")] = None
    """result folder (default: runs/DATA-METHOD-seedN)"""
    resume: bool = False
    """continue the unfinished run in that folder"""
    json: bool = False
    """print result.json to stdout, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def run_command(argv: list[str]) -> None:
    """One experiment: method x data x tasks x seed. With no argument, OVOR on drawings."""
    arguments = parse_run(argv)
    from ovor.experiments.folder import read_run
    from ovor.experiments.progress import RunProgress, result_table
    from ovor.experiments.single import execute

    folder = choose_folder(arguments)
    run = arguments.run
    if arguments.resume:
        run = read_run(folder.run_file)
        if says_what_to_run(argv) and run.essence != arguments.run.essence:
            raise OvorError(
                f"{folder.path} was started with other settings: leave out every flag but --resume "
                "and --out, or start anew without --resume."
            )
    try:
        with RunProgress(run) as progress:
            result = execute(run, folder, progress)
    except KeyboardInterrupt:
        if not folder.run_file.exists():
            raise
        sys.exit(stopped(f"Stopped. Continue with: ovor run --resume --out {folder.path}"))
    if arguments.json:
        print(json.dumps(result))
        return
    from rich.console import Console

    console = Console()
    console.print(result_table(result))
    console.print(f"Results in {folder.path}", highlight=False, soft_wrap=True)


def parse_run(argv: list[str]) -> RunArguments[Any]:
    """The arguments, with the defaults of the data set and method that they name.

    Those must be known first: a method's own options are flags only if it is the one chosen.
    """
    named, preset = name_first(argv)
    if named["from"]:
        from ovor.experiments.folder import read_run

        base = read_run(Path(named["from"]))
        method = base.method
    else:
        method = named["method"] or "ovor"
        tasks = named["tasks"] or ""
        base = settings(
            named["data"] or preset,
            method,
            named["vor_preset"] or "paper",
            int(tasks) if tasks.isdigit() else None,
        )
    options: Any = NoOptions()
    if named["method"] or not {"-h", "--help"} & set(argv):
        from ovor.learners import parse_options

        options = parse_options(base.method, base.options)
    arguments_type: Any = RunArguments[type(options)]  # type: ignore[misc]
    parsed: RunArguments[Any] = tyro.cli(
        arguments_type,
        args=argv,
        default=RunArguments(run=replace(base, method=method), options=options),
        config=(tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff),
        prog="ovor run",
        description="One experiment: a frozen ViT learns tasks of new classes, one after another. "
        "Options of a method's own: ovor run --method NAME --help.",
    )
    check_names(parsed, named, preset, base)
    # Through JSON and back, as run.json will have them: lists, not tuples.
    own = json.loads(json.dumps(dataclasses.asdict(parsed.options)))
    return replace(parsed, run=replace(parsed.run, method=base.method, options=own))


def name_first(argv: list[str]) -> tuple[dict[str, str | None], str]:
    """The flags that decide which other flags there are, and the preset."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for flag in ("--method", "--data", "--vor-preset", "--tasks", "--from"):
        early.add_argument(flag)
    try:
        named = vars(early.parse_known_args(argv)[0])
    except argparse.ArgumentError:  # a value is missing: tyro says so better
        named = dict.fromkeys(("method", "data", "vor_preset", "tasks", "from"))
    return named, argv[0] if argv and argv[0] in SETTINGS else "quickdraw"


def check_names(
    parsed: RunArguments[Any], named: dict[str, str | None], preset: str, base: Run
) -> None:
    """What was read first must be what was meant."""
    if parsed.preset != preset:
        sys.exit(wrong_usage(f"Put the preset first: ovor run {parsed.preset} ..."))
    if parsed.vor_preset != (named["vor_preset"] or "paper") or parsed.run.data != base.data:
        sys.exit(wrong_usage("Write --vor-preset and --data with dashes, once each."))
    if named["from"] and (named["method"] or named["data"] or named["vor_preset"]):
        sys.exit(wrong_usage("--from already names the method and the data."))
    if named["vor_preset"] and base.vor is None:
        sys.exit(wrong_usage(f"--vor-preset needs a method with +vor, not {base.method}."))


def says_what_to_run(argv: list[str]) -> bool:
    """Whether any argument does more than say where a run is and how to show it."""
    flags = {argument.partition("=")[0] for argument in argv if argument.startswith("--")}
    return bool(flags - {"--resume", "--out", "--json", "--debug"}) or argv[0] in SETTINGS


def choose_folder(arguments: RunArguments[Any]) -> "Folder":
    from ovor.experiments.folder import Folder, new_folder, unfinished_folder

    run = arguments.run
    parent, name = Path("runs"), f"{re.sub('[/:]', '_', run.data)}-{run.name}-seed{run.seed}"
    if arguments.out is None:
        return unfinished_folder(parent, name) if arguments.resume else new_folder(parent, name)
    folder = Folder(arguments.out)
    if arguments.resume and not folder.run_file.exists():
        raise OvorError(f"There is no run in {folder.path} to resume.")
    if not arguments.resume and folder.path.exists() and any(folder.path.iterdir()):
        raise OvorError(
            f"{folder.path} is not empty: add --resume to continue the run in it, or name another."
        )
    return folder


@checked(frozen=True)
class GridArguments:
    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE")] = "core"
    """one of the tables above"""
    data: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """data sets instead of the paper's: quickdraw needs no download"""
    tasks: Annotated[tuple[Count, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """numbers of tasks instead of the paper's"""
    methods: Annotated[tuple[str, ...], tyro.conf.arg(help_behavior_hint="")] = ()
    """some rows of the table, by their methods"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """each seed is a class order, initial weights, augmentation and noise"""
    backbone: Annotated[str | None, tyro.conf.arg(help_behavior_hint="")] = None
    """another backbone than the data set's"""
    epochs: Annotated[Count | None, tyro.conf.arg(help_behavior_hint="")] = None
    """other epochs than the method's; VOR's share stays the same"""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """where to compute; --jobs 1 to give one run all of a GPU"""
    precision: Literal["fp32", "bf16"] = "fp32"
    """of the ViT"""
    workers: Annotated[int | None, tyro.conf.arg(help_behavior_hint="")] = None
    """processes of each run that load images (the paper's data sets have 4, the drawings none)"""
    cache: Annotated[float, Field(ge=0)] = 0.0
    """GB of decoded images to keep on disk, so that later epochs decode nothing"""
    jobs: Count = field(default_factory=lambda: os.cpu_count() or 1)
    """runs at a time, each in a process with one thread"""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/grid")
    """folder of the result folders; tables share the runs that they have in common"""
    show: bool = False
    """run nothing, print what is there"""
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
    arguments = tyro.cli(
        GridArguments,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog="ovor grid",
        description="Every run of a table that is not done yet, then the table: mean ± population "
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
                for row, seed, result in grid.run_grid(rows, seeds, arguments.out, arguments.jobs):
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


@checked(frozen=True)
class CostArguments:
    tasks: Count = 10
    """number of tasks"""
    classes: Count = 20
    """classes of each task"""
    methods: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")
    ] = ()
    """only these rows (default: every method)"""
    json: bool = False
    """print the tables as JSON, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def cost_command(argv: list[str]) -> None:
    """Learnable parameters, stored numbers and FLOPs of every method, beside the paper's."""
    arguments = tyro.cli(
        CostArguments,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog="ovor cost",
        description="Learnable parameters, stored numbers and FLOPs of every method on a ViT-B/16 "
        "at 224 pixels, computed, beside the paper's (ImageNet-R in 10 tasks: the default).",
    )
    from rich.console import Console

    from ovor.analysis import cost, cost_text

    setting = cost.Setting(arguments.tasks, arguments.classes)
    table = cost.cost_table(setting, arguments.methods)
    if arguments.json:
        print(cost_text.as_json(table), end="")
    else:
        Console().print(cost_text.as_tables(table), highlight=False)


@checked(frozen=True)
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
    arguments = tyro.cli(
        FigureArguments,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog="ovor figure",
        description="Train a toy of two tasks with and without virtual outliers, draw its features "
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
    arguments = tyro.cli(
        DoctorArguments,
        args=argv,
        config=(tyro.conf.FlagCreatePairsOff,),
        prog="ovor doctor",
        description="Versions, devices, the embedded backbone, and the paper's data sets: found, "
        "or what to download and where to put it.",
    )
    from rich.console import Console

    from ovor.experiments import doctor

    found = doctor.examine()
    if arguments.json:
        print(json.dumps(found))
    else:
        Console().print(doctor.as_tables(found))


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "run": run_command,
    "grid": grid_command,
    "cost": cost_command,
    "figure": figure_command,
    "doctor": doctor_command,
}


def overview() -> str:
    lines = [
        "usage: ovor COMMAND [OPTIONS]",
        "",
        "Class-incremental learning that keeps no old image.",
        "",
        "commands:",
    ]
    for name, command in COMMANDS.items():
        lines.append(f"  {name:<10} {(command.__doc__ or '').strip()}")
    lines += ["", "ovor COMMAND --help tells more; ovor --version prints the version."]
    return "\n".join(lines)


def wrong_usage(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def stopped(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 130


def main() -> None:
    argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(overview())
        sys.exit(0 if argv else 2)
    if argv[0] == "--version":
        from importlib.metadata import version

        print(version("ovor"))
        return
    if argv[0] not in COMMANDS:
        sys.exit(wrong_usage(f"ovor: there is no command {argv[0]!r}; ovor --help lists them."))
    try:
        COMMANDS[argv[0]](argv[1:])
    except OvorError as error:
        if "--debug" in argv:
            raise
        print(f"ovor: {error}", file=sys.stderr)
        sys.exit(1)
    except ValidationError as error:
        sys.exit(wrong_usage(f"ovor: {explain(error)}."))
    except BrokenPipeError:  # `ovor run | head`: nobody reads on
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        if "--debug" in argv:
            raise
        print(f"ovor: {error.filename or ''}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(stopped("Stopped before anything was done."))
