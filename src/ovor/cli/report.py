"""`ovor report`, and the report that `ovor run` and `ovor grid` end with."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ovor.cli.arguments import Debug, optional, parse
from ovor.cli.exits import stopped, wrong_usage
from ovor.errors import OvorError

Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN ...")]
Into = Annotated[Path | None, optional("FOLDER")]


@dataclass(frozen=True)
class ReportArguments:
    """One self-contained HTML page: accuracy with intervals, curves, matrices, confusion between
    tasks, energies, features, drift, cost and time.
    """

    runs: Folders
    """result folders, or folders of them such as runs/grid"""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html")
    """the page"""
    against: Annotated[str | None, optional("METHOD")] = None
    """the row that others are compared with (default: the first)"""
    svg: Into = None
    """also write every chart as .svg, for a paper"""
    csv: Into = None
    """also write every chart's data as .csv"""
    json: bool = False
    """print the numbers as JSON, and nothing else"""
    debug: Debug = False


def report_command(argv: list[str]) -> None:
    """Write a page about runs, and say where it is."""
    arguments = parse(ReportArguments, argv)
    if not arguments.runs:
        sys.exit(wrong_usage("ovor: name the runs, such as runs/grid: ovor report RUN ..."))
    from ovor.report import chart_files, make, page

    report = make.of_folders(arguments.runs, arguments.against)
    report.write(arguments.out)
    if arguments.csv:
        chart_files.write_csv(report.contents, arguments.csv)
    if arguments.svg:
        chart_files.write_svg(report.contents, arguments.svg)
    if arguments.json:
        print(page.as_json(report.contents, report.notes))
        return
    for note in report.notes:
        print(note, file=sys.stderr)
    print(f"Report in {arguments.out}")


def write_report(write: Callable[[], None], path: Path) -> None:
    """Write the page that a run or grid ends with; its results stand whatever becomes of it."""
    try:
        write()
    except (OvorError, OSError) as error:
        print(f"There is no report: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        sys.exit(stopped("Stopped. The results are complete; ovor report makes the page."))
    else:
        print(f"Report in {path}", file=sys.stderr)
