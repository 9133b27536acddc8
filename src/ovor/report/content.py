"""All that the page says about a group of runs, or about an evaluation."""

from dataclasses import dataclass

from ovor.report import numbers, sections
from ovor.report.classes import classes_of
from ovor.report.runs import Group, Row
from ovor.report.sections import Section
from ovor.report.summary import accuracy_of, sentences, sources, worth_saying
from ovor.report.vega import Chart, Records

FEW = 8  # methods up to which all are drawn in colour
PICKED = 6  # methods in colour at first, if there are more


@dataclass(frozen=True)
class Content:
    """All that the page says about a group."""

    title: str
    facts: dict[str, str]
    rows: Records
    differences: Records
    sections: list[Section]
    methods: list[str]
    picked: list[str]
    summary: list[str]
    sources: list[str]
    about: str = "What was run"
    intro: str = (
        "A frozen network learns task after task of new classes, and keeps no example of the "
        "earlier ones. In the end it is asked to name test examples of all tasks, without being "
        "told which task they are from."
    )

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in section.charts]


def content_of(group: Group, against: str | None = None, images: bool = True) -> Content:
    """Compute all that the page says about a group; a section with nothing to say is left out."""
    rows = group.rows
    told = {row.label: classes_of(row) for row in worth_saying(rows)}
    table = [numbers.figures(row) for row in rows]
    differences = numbers.differences(group, against)
    found = [
        sections.accuracy(group, table, differences, numbers.reference_of(group, against)),
        sections.over_tasks(rows),
        sections.matrices(rows),
        *(sections.worst_classes(name, told[name], images) for name in worth_showing(rows)),
        sections.confusion(rows, table),
        sections.energies(rows),
        sections.plane(rows),
        sections.drift(rows),
        sections.cost(table),
        sections.time(rows),
    ]
    shown = [section for section in found if section]
    facts, methods = numbers.facts(group), [row.label for row in rows]
    return Content(
        group.title,
        facts,
        table,
        differences,
        shown,
        methods,
        picked(table),
        sentences(group, told),
        sources(group),
    )


def worth_showing(rows: list[Row]) -> list[str]:
    """Return the methods whose mistakes are shown: two at most, the best one and the first."""
    told = worth_saying(rows)
    best = max(told, key=accuracy_of)
    shown = told if len(told) <= 2 else [best, told[0]]
    return list(dict.fromkeys(row.label for row in shown))


def picked(table: Records) -> list[str]:
    """Pick all methods if they are few; else the first and its VOR, the best others, the worst."""
    names = [row["method"] for row in table]
    if len(names) <= FEW:
        return names
    first = [name for name in names if name.removesuffix("+vor") == names[0].removesuffix("+vor")]
    others = [row for row in table if row["method"] not in first]
    best = sorted(others, key=lambda row: -row["A_T_mean"])
    chosen = {*first, *(row["method"] for row in [*best[: PICKED - len(first) - 1], best[-1]])}
    return [name for name in names if name in chosen]
