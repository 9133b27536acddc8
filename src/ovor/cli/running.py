"""What `ovor run` does once its arguments are known: choose the folder, run, show, report."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ovor.cli.exits import stopped
from ovor.cli.report import write_report
from ovor.cli.run import SHARING, SHOWING, RunArguments, flags
from ovor.config import Run
from ovor.distributed.cluster import Cluster, find_cluster
from ovor.distributed.launch import join, start
from ovor.errors import OvorError
from ovor.experiments.folder import Folder, new_folder, read_run, unfinished_folder
from ovor.experiments.progress import RunProgress, result_table
from ovor.experiments.runner import execute, take_part
from ovor.presets import SETTINGS
from ovor.report import make
from ovor.terminal.console import Terminal


def carry_out(arguments: RunArguments[Any], argv: list[str]) -> None:
    """Do the run, in as many processes as it wants, and show what came of it."""
    cluster = find_cluster(arguments.run)
    chosen: list[Folder] = []
    part = partial(take_part, asked=None if arguments.resume else arguments.run)

    def choose() -> tuple[Run, Path]:
        chosen.append(choose_folder(arguments))
        return what_to_run(arguments, argv, chosen[0]), chosen[0].path

    try:
        if cluster.started:
            result = join(cluster, arguments.run, part, choose, RunProgress)
        elif cluster.has_rank_0:
            result = begin_here(cluster, arguments, choose)
        else:
            result = start(cluster, arguments.run, part, None)
    except KeyboardInterrupt:
        if not cluster.has_rank_0:
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
        page = folder.report_file
        write_report(lambda: make.of_folders([folder.path]).write(page), page)


def begin_here(
    cluster: Cluster, arguments: RunArguments[Any], choose: Callable[[], tuple[Run, Path]]
) -> dict[str, Any] | None:
    """Do the run on the first machine: in this process, or in as many as the run wants."""
    try:
        run, path = choose()
    except OvorError as error:
        if cluster.nodes > 1:  # the other machines wait, and hear of it
            start(cluster, arguments.run, take_part, error)
        raise
    cluster, folder = find_cluster(run), Folder(path)
    with RunProgress(run) as listen:
        if cluster.size == 1 or (folder.finished and cluster.nodes == 1):
            return execute(run, folder, listen, diagnostics=not arguments.no_report)
        return start(cluster, run, take_part, (run, path), listen)


def how_to_continue(folder: Folder) -> str:
    """Return the command that continues a run; several machines must be told their number."""
    run = read_run(folder.run_file)
    many = f" --devices {run.devices} --nodes {run.nodes}, on each" if run.nodes > 1 else ""
    return f"ovor run --resume --out {folder.path}{many}"


def what_to_run(arguments: RunArguments[Any], argv: list[str], folder: Folder) -> Run:
    """Return the run that the arguments name, or the one in the folder that is resumed."""
    if not arguments.resume:
        return arguments.run
    run = read_run(folder.run_file)
    from ovor.learners import in_full  # brings torch

    if says_what_to_run(argv) and in_full(run).essence != in_full(arguments.run).essence:
        raise OvorError(
            f"{folder.path} was started with other settings: leave out every flag but --resume, "
            "--out, --devices and --nodes, or start anew without --resume."
        )
    names = [flag.removeprefix("--") for flag in SHARING & flags(argv)]
    return replace(run, **{name: getattr(arguments.run, name) for name in names})


def says_what_to_run(argv: list[str]) -> bool:
    """Tell whether any argument does more than say where a run is and how to show it."""
    return bool(flags(argv) - SHOWING - SHARING) or argv[0] in SETTINGS


def choose_folder(arguments: RunArguments[Any]) -> Folder:
    """Return the folder that the run goes to, or that it is continued in."""
    run = arguments.run
    data = re.sub(r"[/:*?{}\[\]]", "_", run.data)
    what = "-".join((data, *run.arrival, run.name)).replace(" ", "-")
    parent, name = Path("runs"), f"{what}-seed{run.seed}"
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


def show(result: dict[str, Any], where: Path) -> None:
    """Print the accuracies of a finished run, and where it is."""
    console = Terminal()
    console.print(result_table(result))
    console.print(f"Results in {where}", highlight=False, soft_wrap=True)
