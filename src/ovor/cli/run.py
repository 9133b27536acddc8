"""`ovor run`: one experiment."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

import tyro
from pydantic import ValidationError
from pydantic.dataclasses import dataclass as checked

from ovor.cli.arguments import optional
from ovor.cli.exits import wrong_usage
from ovor.config import Run, Scenario
from ovor.errors import explain
from ovor.experiments.folder import read_run
from ovor.presets import SETTINGS, in_scenario, settings

Options = TypeVar("Options")
EARLY = ("method", "data", "vor_preset", "tasks", "from", "epochs", "scenario")
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
    from ovor.cli.running import carry_out  # imports torch, which the help does not wait for

    carry_out(arguments, argv)


def parse_run(argv: list[str]) -> RunArguments[Any]:
    """Return the arguments, with the defaults of the data set and method that they name.

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
    helping = bool({"-h", "--help"} & set(argv))
    if not helping:
        base = arriving(base, named["scenario"])
    options: Any = NoOptions()
    if named["method"] or not helping:
        from ovor.learners import check_vor, parse_options

        options = parse_options(base.method, base.options)
        check_vor(base)
    arguments_type: Any = RunArguments[type(options)]  # type: ignore[misc]
    with limits_in_a_sentence():
        parsed: RunArguments[Any] = tyro.cli(
            arguments_type,
            args=argv,
            default=RunArguments(run=replace(base, method=method), options=options),
            config=(tyro.conf.AvoidSubcommands, tyro.conf.FlagCreatePairsOff),
            prog="ovor run",
            description="One experiment: a frozen network learns tasks of new classes, one after "
            "another. Options of a method's own: ovor run --method NAME --help.",
        )
    check_names(parsed, named, preset, base)
    # Through JSON and back, as run.json will have them: lists, not tuples.
    own = json.loads(json.dumps(dataclasses.asdict(parsed.options)))
    run = replace(parsed.run, method=base.method, options=own)
    from ovor.learners import check_scenario

    check_scenario(run)
    return replace(parsed, run=run)


@contextmanager
def limits_in_a_sentence() -> Iterator[None]:
    """Say in a line what is wrong with a number of a part of the run, or with a method's option.

    tyro would draw a box of pydantic's words. It leaves those of the run itself to others.
    """
    said = StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as end:
        refused = end.__context__
        cause = refused and refused.__context__
        if not isinstance(cause, ValidationError):
            raise
        said = StringIO()
        part = str(getattr(refused, "arg", "")).removeprefix("run.").replace("options", "method")
        found = explain(cause)
        where = "" if found.startswith(f"{part}.") else f"{part}."  # where it names itself
        sys.exit(wrong_usage(f"ovor: {where}{found}."))
    finally:
        sys.stderr.write(said.getvalue())


def arriving(run: Run, named: str | None) -> Run:
    """Return the run in the scenario of this name; what is none, tyro refuses later."""
    known: tuple[Scenario, ...] = get_args(Scenario)
    others = run.imbalance, run.label_noise, run.shift
    return next((in_scenario(run, name, *others) for name in known if name == named), run)


def shortened(run: Run, argv: list[str], epochs: str) -> Run:
    """Return the run with as small a share of VOR's epochs, if fewer epochs are asked for."""
    few = int(epochs) if epochs.isdigit() else 0
    if not run.vor or "--vor.epochs" in flags(argv) or not 1 < few <= run.vor.epochs:
        return run
    share = round(run.vor.epochs * few / run.epochs)
    return replace(run, vor=replace(run.vor, epochs=min(max(1, share), few - 1)))


def name_first(argv: list[str]) -> tuple[dict[str, str | None], str]:
    """Return the flags that decide which other flags there are, and the preset."""
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
    """Refuse arguments of which `name_first` read others than were meant."""
    if parsed.preset != preset:
        sys.exit(wrong_usage(f"Put the preset first: ovor run {parsed.preset} ..."))
    if parsed.vor_preset != (named["vor_preset"] or "paper") or parsed.run.data != base.data:
        sys.exit(wrong_usage("Write --vor-preset and --data with dashes, once each."))
    if named["from"] and (named["method"] or named["data"] or named["vor_preset"]):
        sys.exit(wrong_usage("--from already names the method and the data."))
    if named["vor_preset"] and base.vor is None:
        sys.exit(wrong_usage(f"--vor-preset needs a method with +vor, not {base.method}."))


def flags(argv: list[str]) -> set[str]:
    """Return the names of all flags that are given."""
    return {argument.partition("=")[0] for argument in argv if argument.startswith("--")}
