"""`ovor run`: one experiment."""

import argparse
import dataclasses
import json
import re
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

import tyro
from pydantic.dataclasses import dataclass as checked

from ovor.cli.arguments import optional
from ovor.cli.exits import stopped, wrong_usage
from ovor.cli.report import write_report
from ovor.config import Run
from ovor.errors import OvorError
from ovor.events import silent
from ovor.presets import SETTINGS, settings

if TYPE_CHECKING:
    from ovor.distributed.cluster import Crew
    from ovor.distributed.launch import Beginning
    from ovor.experiments.folder import Folder

Options = TypeVar("Options")
EARLY = ("method", "data", "vor_preset", "tasks", "from", "epochs")
SHOWING = {"--resume", "--out", "--json", "--debug", "--no-report"}
SHARING = {"--devices", "--nodes", "--tensorboard"}  # what may change when a run is resumed


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
    out: Annotated[Path | None, optional("FOLDER")] = None
    """result folder (default: runs/DATA-METHOD-seedN)"""
    resume: bool = False
    """continue the unfinished run in that folder"""
    no_report: bool = False
    """do not write report.html"""
    json: bool = False
    """print result.json to stdout, and nothing else"""
    debug: bool = False
    """show tracebacks"""


def run_command(argv: list[str]) -> None:
    """One experiment: method x data x tasks x seed. With no argument, OVOR on drawings."""
    arguments = parse_run(argv)
    from ovor.distributed.cluster import crew_of
    from ovor.distributed.launch import given, join, start
    from ovor.experiments.progress import RunProgress
    from ovor.report import make

    crew = crew_of(arguments.run)
    chosen: list[Folder] = []
    asked = None if arguments.resume else arguments.run

    def begin() -> tuple[Run, Path]:
        chosen.append(choose_folder(arguments))
        return what_to_run(arguments, argv, chosen[0]), chosen[0].path

    try:
        if crew.started:
            result = join(crew, arguments.run, begin, RunProgress, asked)
        elif crew.first:
            result = begin_here(crew, arguments.run, begin)
        else:
            nothing = partial(given, Run(), Path())
            result = start(crew, arguments.run, nothing, silent, asked)
    except KeyboardInterrupt:
        if not crew.first:
            sys.exit(130)
        if not chosen or not chosen[0].run_file.exists():
            raise
        sys.exit(stopped(f"Stopped. Continue with: {how_to_continue(chosen[0])}"))
    if result is None:  # the first process tells
        return
    (folder,) = chosen
    if arguments.json:
        print(json.dumps(result), flush=True)
    else:
        show(result, folder.path)
    if not arguments.no_report:
        write_report(lambda: make.of_folders([folder.path]), folder.report_file)


def begin_here(crew: "Crew", asked: Run, begin: "Beginning") -> dict[str, Any] | None:
    """On the first machine: in this process, or in as many as the run wants."""
    from ovor.distributed.cluster import crew_of
    from ovor.distributed.launch import given, refused, start
    from ovor.experiments.folder import Folder
    from ovor.experiments.progress import RunProgress
    from ovor.experiments.runner import execute

    try:
        run, path = begin()
    except OvorError as error:
        if crew.nodes > 1:  # other machines wait
            start(crew, asked, partial(refused, error), silent)
        raise
    crew, folder = crew_of(run), Folder(path)
    with RunProgress(run) as listen:
        if crew.size == 1 or (folder.finished and crew.nodes == 1):
            return execute(run, folder, listen)
        return start(crew, run, partial(given, run, path), listen)


def how_to_continue(folder: "Folder") -> str:
    """With the numbers of processes, which several machines must be told."""
    from ovor.experiments.folder import read_run

    run = read_run(folder.run_file)
    many = f" --devices {run.devices} --nodes {run.nodes}, on each" if run.nodes > 1 else ""
    return f"ovor run --resume --out {folder.path}{many}"


def what_to_run(arguments: RunArguments[Any], argv: list[str], folder: "Folder") -> Run:
    from ovor.experiments.folder import read_run

    if not arguments.resume:
        return arguments.run
    run = read_run(folder.run_file)
    if says_what_to_run(argv) and run.essence != arguments.run.essence:
        raise OvorError(
            f"{folder.path} was started with other settings: leave out every flag but --resume, "
            "--out, --devices and --nodes, or start anew without --resume."
        )
    names = [flag.removeprefix("--") for flag in SHARING & flags(argv)]
    return replace(run, **{name: getattr(arguments.run, name) for name in names})


def show(result: dict[str, Any], where: Path) -> None:
    from rich.console import Console

    from ovor.experiments.progress import result_table

    console = Console()
    console.print(result_table(result))
    console.print(f"Results in {where}", highlight=False, soft_wrap=True)


def parse_run(argv: list[str]) -> RunArguments[Any]:
    """The arguments, with the defaults of the data set and method that they name.

    Those must be known first: a method's own options are flags only if it is the one chosen.
    """
    if sum(argument.startswith("shards:") for argument in argv) > 1:
        sys.exit(
            wrong_usage(
                "ovor: Quote what --data names, as --data 'shards:PATTERN': the shell has made "
                "several words of it."
            )
        )
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
        base = shortened(base, argv, named["epochs"] or "")
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


def shortened(run: Run, argv: list[str], epochs: str) -> Run:
    """With fewer epochs than are usual for VOR alone, it has the same share of them."""
    few = int(epochs) if epochs.isdigit() else 0
    if not run.vor or "--vor.epochs" in flags(argv) or not 1 < few <= run.vor.epochs:
        return run
    share = round(run.vor.epochs * few / run.epochs)
    return replace(run, vor=replace(run.vor, epochs=min(max(1, share), few - 1)))


def name_first(argv: list[str]) -> tuple[dict[str, str | None], str]:
    """The flags that decide which other flags there are, and the preset."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in EARLY:
        early.add_argument("--" + name.replace("_", "-"))
    try:
        named = vars(early.parse_known_args(argv)[0])
    except argparse.ArgumentError:  # a value is missing: tyro says so better
        named = dict.fromkeys(EARLY)
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
    return bool(flags(argv) - SHOWING - SHARING) or argv[0] in SETTINGS


def flags(argv: list[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in argv if argument.startswith("--")}


def choose_folder(arguments: RunArguments[Any]) -> "Folder":
    from ovor.experiments.folder import Folder, new_folder, unfinished_folder

    run = arguments.run
    data = re.sub(r"[/:*?{}\[\]]", "_", run.data)
    parent, name = Path("runs"), f"{data}-{run.name}-seed{run.seed}"
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
