"""A table's sections in another scenario: which rows they can have, and what they show."""

from dataclasses import replace

from ovor.config import Scenario, Shift
from ovor.experiments.tables import Figures, Section
from ovor.presets import in_scenario


def with_arrival(part: Section) -> Section:
    """Name the scenario in the title, and leave out the paper's figures, which are of none."""
    arrival = part.rows[0].run.arrival
    if not arrival:
        return part
    nothing: Figures = (None, None)
    rows = [replace(row, paper=nothing, paper_std=nothing) for row in part.rows]
    title = ", ".join((part.title, *arrival))
    return replace(part, title=title, rows=rows, comparable=False, deviations=False)


def arriving(
    part: Section,
    scenario: Scenario,
    imbalance: tuple[int, int] | None,
    label_noise: float = 0.0,
    shift: Shift = "none",
) -> Section:
    """Return the section in another scenario; refuse one that a row's method cannot learn in."""
    from ovor.learners import check_scenario  # brings torch

    way = scenario, imbalance, label_noise, shift
    rows = [replace(row, run=in_scenario(row.run, *way)) for row in part.rows]
    for row in rows:
        check_scenario(row.run)
    return with_arrival(replace(part, rows=rows))
