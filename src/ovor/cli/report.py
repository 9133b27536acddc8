"""`ovor report`, and the report that `ovor run` and `ovor grid` end with."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.markup import escape
from rich.table import Table

from ovor.cli.arguments import Debug, optional, parse
from ovor.cli.exits import stopped, wrong_usage
from ovor.errors import OvorError
from ovor.terminal.console import Terminal

if TYPE_CHECKING:
    from ovor.report.content import Content

Folders = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN ...")]
Into = Annotated[Path | None, optional("FOLDER")]


@dataclass(frozen=True)
class ReportArguments:
    """One self-contained HTML page: a summary, accuracy with intervals, curves, matrices, the worst
    classes with their mistakes, confusion between tasks, energies, features, drift, cost and time.
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
    no_images: bool = False
    """leave out the test images that show mistakes, which else are inside the page"""
    json: bool = False
    """print the numbers as JSON, and nothing else"""
    debug: Debug = False


def report_command(argv: list[str]) -> None:
    """Write a page about runs, print the accuracy of each method, and say where the page is."""
    arguments = parse(ReportArguments, argv)
    if not arguments.runs:
        sys.exit(wrong_usage("ovor: name the runs, such as runs/grid: ovor report RUN ..."))
    from ovor.report import chart_files, make, page

    report = make.of_folders(arguments.runs, arguments.against, not arguments.no_images)
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
    console = Terminal()
    for content in report.contents:
        console.print(accuracies(content))
        for words in content.summary:
            console.print(words, markup=False, highlight=False, soft_wrap=True)
    print(f"Report in {arguments.out}")


def accuracies(content: "Content") -> Table:
    """Return the page's first table for the terminal, which has no room for the paper's figures."""
    shown = content.sections[0].tables[0]
    kept = [i for i, heading in enumerate(shown.headings) if not heading.startswith("paper's")]
    table = Table(title=content.title)
    for i in kept:
        table.add_column(shown.headings[i], justify="right" if i else "left")
    for row in shown.rows:
        table.add_row(*(escape(row[i].text) for i in kept))
    return table


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
