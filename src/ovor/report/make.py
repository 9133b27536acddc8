"""Make the report: from result folders, or from the runs of a grid, to the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.progress import track

from ovor.atomic import write_atomically
from ovor.errors import OvorError
from ovor.experiments import summary
from ovor.experiments.diagnostics import read_diagnostics
from ovor.experiments.drift import measure_drift
from ovor.experiments.field_table import field_notes
from ovor.experiments.grid import done, folder_of
from ovor.experiments.runner import diagnose
from ovor.experiments.tables import Section as GridSection
from ovor.report import page
from ovor.report.content import Content, content_of
from ovor.report.numbers import check_reference
from ovor.report.runs import Finished, Group, Row, find, group, listing, read
from ovor.report.sections import Section
from ovor.report.tables import Cell, Table, name_cell
from ovor.terminal.console import Terminal


@dataclass(frozen=True)
class Report:
    """The contents of a page, one for each group of runs, and notes on what is left out."""

    title: str
    contents: list[Content]
    notes: list[str]
    overview: Section | None = None
    """what stands before all groups"""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.html().encode())

    def html(self) -> str:
        return page.html(self.contents, self.title, self.notes, self.overview)


def of_folders(paths: Sequence[Path], against: str | None = None, images: bool = True) -> Report:
    """Report on all finished runs in these folders, with `images` that were mistaken or without."""
    found, notes = find(paths)
    groups, more = group(found)
    return of_groups(groups, [*notes, *more], against, images)


def of_grid(
    sections: list[GridSection], seeds: list[int], out: Path, overview: Section | None = None
) -> Report:
    """Report on the runs of a table that are done, and name the rows of which none is."""
    groups, missing = [], []
    for part in sections:
        rows = []
        for row in part.rows:
            folders = [folder_of(out, row, seed) for seed in seeds]
            runs = [read(folder) for folder in folders if done(folder, row.run)]
            if runs:
                rows.append(Row(row.label, runs, row.paper, row.paper_std))
            else:
                missing.append(f"{row.label} ({part.way})" if part.way else row.label)
        if rows:
            groups.append(Group(part.title, rows, part.where, part.comparable))
    if not groups:
        raise OvorError("No run of the table is done yet: leave out --show to run them.")
    report = of_groups(groups, [f"Not run yet: {listing(missing)}."] if missing else [], None)
    return replace(report, overview=overview)


def field_overview(found: list[dict[str, Any]]) -> Section:
    """Return the one table that the field ends in, of its sections as they were collected."""
    [(title, headings, lines)] = summary.tables_of(found, "field")
    rows = [[name_cell(label), *map(Cell, cells)] for label, *cells in lines]
    table = Table("overview", title, ["method", *headings[1:]], rows)
    return Section(title, field_notes(found), [table])


def of_groups(
    groups: list[Group], notes: list[str], against: str | None, images: bool = True
) -> Report:
    check_reference(groups, against)  # what is wrong is said before what takes long
    runs = [one for part in groups for row in part.rows for one in row.runs]
    notes = [*notes, *measure_missing(runs)]
    titles = groups[0].title if len(groups) == 1 else f"{len(groups)} groups of runs"
    contents = [content_of(part, against, images) for part in groups]
    return Report(f"ovor: {title_of(groups, runs)} on {titles}", contents, notes)


def title_of(groups: list[Group], runs: list[Finished]) -> str:
    labels = list(dict.fromkeys(row.label for part in groups for row in part.rows))
    if len(runs) == 1:
        return f"{labels[0]}, seed {runs[0].run.seed},"
    return labels[0] if len(labels) == 1 else f"{len(labels)} methods"


def drift_is_missing(one: Finished) -> bool:
    """Tell whether the run kept the weights that drift is measured by, and it is not measured."""
    able = one.run.keep == "tasks" and one.run.method.startswith("oneprompt")
    return able and not one.folder.drift_file.exists()


def measure_missing(runs: Iterable[Finished]) -> list[str]:
    """Measure missing diagnostics and drift; return notes on runs that lack weights or images."""
    todo = [one for one in runs if lacks(one) or drift_is_missing(one)]
    console = Terminal(stderr=True)
    failed: dict[str, dict[str, str]] = {}
    silent = not (todo and console.is_terminal)
    for one in track(todo, "looking closely", console=console, transient=True, disable=silent):
        try:
            if lacks(one):
                diagnose(one.folder)
            if drift_is_missing(one):
                measure_drift(one.folder)
        except (OvorError, OSError) as error:
            failed.setdefault(lacks(one) or "drift", {})[one.folder.path.name] = str(error)
    return [
        f"Without {what}: {listing(list(why))}. {next(iter(why.values()))}"
        for what, why in failed.items()
    ]


def lacks(one: Finished) -> str:
    """Say what is not measured of a run; older versions did not look at classes."""
    found = read_diagnostics(one.folder)
    if found is None:
        return "confusion, energies and plane"
    return "" if "mistakes" in found else "mistakes by class"
