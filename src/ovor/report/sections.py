"""What the page says about a group: each section's words, tables and charts."""

from dataclasses import dataclass, field
from typing import Any

from ovor.report import charts, numbers
from ovor.report.charts import Chart
from ovor.report.numbers import KINDS, Records, Seen
from ovor.report.runs import Group

PICKED = 6  # methods in colour at first, if there are too many for all


@dataclass(frozen=True)
class Cell:
    text: str
    value: float | None = None  # in full
    std: float | None = None
    heading: bool = False


@dataclass(frozen=True)
class Table:
    name: str
    caption: str
    headings: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Section:
    title: str
    words: list[str]
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)


@dataclass(frozen=True)
class Content:
    """All that is to be said about a group."""

    title: str
    facts: dict[str, str]
    rows: Records
    differences: Records
    sections: list[Section]
    methods: list[str]
    picked: list[str]

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in section.charts]


def content(group: Group, against: str | None = None) -> Content:
    seen = numbers.look_up(group)
    rows = numbers.table(seen)
    differences = numbers.differences(group, against)
    drawn = [
        accuracy(group, rows, differences, numbers.reference_of(group, against)),
        over_tasks(seen),
        matrices(seen),
        confusion(seen, rows),
        energies(seen),
        plane(seen),
        drift(seen),
        cost(rows),
        time(seen),
    ]
    return Content(
        group.title,
        numbers.facts(group),
        rows,
        differences,
        [section for section in drawn if section.tables or section.charts or section.words],
        [row.label for row in group.rows],
        picked(rows),
    )


def picked(rows: Records) -> list[str]:
    """All if they are few; else the first and its VOR, the best others, and the worst."""
    names = [row["method"] for row in rows]
    if len(names) <= charts.FEW:
        return names
    first = [name for name in names if name.removesuffix("+vor") == names[0].removesuffix("+vor")]
    others = [row for row in rows if row["method"] not in first]
    best = sorted(others, key=lambda row: -row["A_T_mean"])
    chosen = {*first, *(row["method"] for row in [*best[: PICKED - len(first) - 1], best[-1]])}
    return [name for name in names if name in chosen]


# --- section by section ----------------------------------------------------------------------


def accuracy(group: Group, rows: Records, differences: Records, reference: str) -> Section:
    many = any(len(row["seeds"]) > 1 for row in rows)
    spread = "Each is the mean ± population standard deviation over the seeds." if many else ""
    words = [
        "How good each method is after the last task. A_T is the share of test images that it "
        "names right, as the mean over all tasks: more is better. F_T is how many points a task "
        f"has lost since it was known best: less is better. {spread}"
    ]
    if any(row["A_T_paper"] is not None for row in rows) and not group.comparable:
        words.append(
            f"The paper has no figures for these data; those shown are of {group.where}, on other "
            "images with another backbone: compare their order, not their height."
        )
    tables = [accuracy_table(group, rows)]
    drawn = []
    if differences:
        words.append(certainty(differences, reference))
        tables.append(difference_table(differences))
        drawn = [charts.difference_bars(numbers.difference_records(differences))]
    return Section("Accuracy and forgetting", words, tables, drawn)


def certainty(differences: Records, reference: str) -> str:
    known = [one for one in differences if one["A_T"]["clear"] is not None]
    about = (
        "Below, each method with VOR against the same without, and each against "
        f"{reference}: the mean of the differences seed by seed. "
    )
    if not known:
        return about + "With one seed in common there is no interval: run more seeds."
    clear = sum(one["A_T"]["clear"] for one in known)
    return about + (
        "The brackets are 95 % confidence intervals (Student's t on the differences of paired "
        f"seeds). In A_T, {clear} of {len(known)} differences can be told from 0, in bold or in "
        "colour; of as many without any true difference, one in twenty would be."
    )


def accuracy_table(group: Group, rows: Records) -> Table:
    with_paper = any(row[f"{name}_paper"] is not None for row in rows for name in numbers.METRICS)
    paper = [f"paper's A_T ({group.where})", f"paper's F_T ({group.where})"] if with_paper else []
    headings = ["method", "seeds", "A_T ↑ (%)", "F_T ↓ (points)", *paper]
    headings += ["learned parameters", "seconds"]
    return Table(
        "accuracy",
        f"Accuracy and forgetting, {group.title}",
        headings,
        [accuracy_cells(row, with_paper) for row in rows],
    )


def accuracy_cells(row: dict[str, Any], with_paper: bool) -> list[Cell]:
    many = len(row["seeds"]) > 1
    cells = [Cell(row["method"], heading=True), Cell(str(len(row["seeds"])), len(row["seeds"]))]
    for name in numbers.METRICS:
        mean, std = row[f"{name}_mean"], row[f"{name}_std"]
        cells.append(Cell(f"{mean:.2f} ± {std:.2f}" if many else f"{mean:.2f}", mean, std))
    if with_paper:
        for name in numbers.METRICS:
            value, std = row[f"{name}_paper"], row[f"{name}_paper_std"]
            text = "" if value is None else f"{value:.2f}" + (f" ± {std:.2f}" if std else "")
            cells.append(Cell(text, value, std))
    parameters = row["learnable_parameters"]
    cells += [Cell(f"{parameters:,}", parameters), Cell(f"{row['seconds']:.0f}", row["seconds"])]
    return cells


def difference_table(differences: Records) -> Table:
    headings = ["difference", "seeds", "A_T", "F_T", "in A_T"]
    rows = []
    for one in differences:
        name = Cell(f"{one['method']} vs. {one['against']}", heading=True)
        cells = [name, Cell(str(one["A_T"]["seeds"]), one["A_T"]["seeds"])]
        cells += [Cell(interval(one[metric]), one[metric]["mean"]) for metric in numbers.METRICS]
        rows.append([*cells, Cell(verdict(one["A_T"]))])
    return Table("differences", "Differences over paired seeds, in points", headings, rows)


def interval(found: dict[str, Any]) -> str:
    if found["low"] is None:
        return f"{found['mean']:+.2f}"
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def verdict(found: dict[str, Any]) -> str:
    if found["clear"] is None:
        return "one seed"
    if not found["clear"]:
        return "not told from 0"
    return "higher" if found["mean"] > 0 else "lower"


def over_tasks(seen: list[Seen]) -> Section:
    many = any(len(one.row.runs) > 1 for one in seen)
    band = "the band is from the least to the most of the seeds" if many else "this is one seed"
    words = (
        "Each new task makes the question harder: more classes to choose from, and no old image "
        "to look at. The line is the mean accuracy over the tasks so far, dashed with VOR; "
        f"{band}."
    )
    if len({len(one.row.runs[0].result["tasks"]) for one in seen}) > 1:
        words += " What learns all tasks at once stands at the end."
    return Section(
        "Accuracy as tasks arrive", [words], charts=[charts.curves(numbers.curves(seen))]
    )


def matrices(seen: list[Seen]) -> Section:
    records = numbers.matrix(seen)
    words = (
        "A row is a moment: after task t was learned. A column is a task: read down to see how it "
        "fares while later ones are learned. Percent of its test images named right, mean over "
        "seeds."
    )
    return Section("Every task after every task", [words], charts=[charts.matrix(records)])


def confusion(seen: list[Seen], rows: Records) -> Section:
    records = numbers.confusions(seen)
    if not records:
        return Section("Confusion between tasks", [])
    words = [
        "The paper's argument: heads that were trained one by one have never met each other's "
        "images, so most errors take an image for a class of another task. A row is the task that "
        "an image is from, a column the task it was taken for; what is off the diagonal is such "
        "confusion.",
        *vor_effect(rows),
    ]
    drawn = [charts.confusion(records), charts.error_bars(numbers.error_records(rows))]
    return Section("Confusion between tasks", words, [error_table(rows)], drawn)


def vor_effect(rows: Records) -> list[str]:
    """For the first method that is there with and without VOR."""
    known = {row["method"]: row for row in rows if row["errors"] is not None}
    for name, row in known.items():
        tight = known.get(f"{name}+vor")
        if tight:
            return [
                f"{name} names {row['errors']:.1f} % of the test images wrong, "
                f"{row['errors_between']:.1f} between tasks and {row['errors_within']:.1f} within; "
                f"with VOR {tight['errors']:.1f} %, {tight['errors_between']:.1f} between and "
                f"{tight['errors_within']:.1f} within."
            ]
    return []


def error_table(rows: Records) -> Table:
    headings = ["method", "errors (%)", "between tasks", "within tasks", "share between (%)"]
    names = ("errors", "errors_between", "errors_within", "errors_between_share")
    return Table(
        "errors",
        "Errors after the last task, in percent of all test images",
        headings,
        [
            [Cell(row["method"], heading=True), *(figure(row[name]) for name in names)]
            for row in rows
            if row["errors"] is not None
        ],
    )


def figure(value: float | None) -> Cell:
    return Cell("" if value is None else f"{value:.2f}", value)


def energies(seen: list[Seen]) -> Section:
    records = numbers.energy_records(seen)
    if not records:
        return Section("Energies of one head", [])
    words = (
        "Energy is how strongly a task's head claims an image: low means “this is one of mine”. "
        "Here the head of the middle task looks at its own test images, at virtual outliers made "
        "from its training features, and at test images of tasks before and after, which it never "
        "met. VOR wants its own below tau current and outliers above tau outlier (dashed). All "
        "with the weights at the end of the run, of the first seed. Methods differ in the scale of "
        "their energies: compare within one."
    )
    means = numbers.energy_means(seen)
    kinds = [kind for kind in KINDS.values() if any(kind in one for one in means)]
    table = Table(
        "energies",
        "Mean energies at the head of the middle task",
        ["method", *kinds],
        [
            [Cell(one["method"], heading=True), *(figure(one.get(kind)) for kind in kinds)]
            for one in means
        ],
    )
    chart = charts.energies(records, numbers.tau_records(seen))
    return Section("Energies of one head", [words], [table], [chart])


def plane(seen: list[Seen]) -> Section:
    records = numbers.planes(seen)
    if not records:
        return Section("Features and outliers", [])
    shares = {record["method"]: record["shown"] for record in records}
    first, share = next(iter(shares.items()))
    words = (
        "The training features of the middle task, the samples at their boundary, and the virtual "
        "outliers that start from there, at the end of the run, first seed. A flat picture of a "
        "space with many dimensions: the two directions in which the features vary most hold "
        f"{share} ({first}), so outliers that lie far off may look near."
    )
    return Section("Features and outliers", [words], charts=[charts.planes(records)])


def drift(seen: list[Seen]) -> Section:
    records, moved = numbers.change_records(seen), numbers.drift_records(seen)
    words = [
        "If an image came with its task, would old tasks be forgotten? By how many points each "
        "task's accuracy, with the task given, changed from when it was learned to the end. Near "
        "0: what is lost is lost to confusion between tasks, not to features that went bad."
    ]
    drawn = [charts.changed(records)] if records else []
    if moved:
        words.append(
            "Below, how similar prompt and features are before and after each task, 100 being "
            "the same (Appendix E)."
        )
        drawn.append(charts.drift(moved))
    else:
        words.append(
            "How far prompt and features moved is measured for runs of OnePrompt with "
            "--keep tasks, and by ovor grid prompt-drift."
        )
    return Section("Drift", words if records else [], charts=drawn)


def cost(rows: Records) -> Section:
    records = numbers.cost_records(rows)
    if len(rows) > 1:
        words = (
            "What accuracy costs: numbers that training may change, ten times as many at every "
            "tick, and multiplications to look at one image. Up and left is better; a triangle "
            "is with VOR."
        )
        drawn = [charts.costs(records)]
        if all(record["multiply-accumulates"] for record in records):
            drawn.append(charts.work(records))
        return Section("Cost", [words], charts=drawn)
    row = rows[0]
    macs = f", and {row['macs']:,} multiplications to look at one image" if row["macs"] else ""
    return Section(
        "Cost", [f"{row['learnable_parameters']:,} numbers that training may change{macs}."]
    )


def time(seen: list[Seen]) -> Section:
    records = numbers.time_records(seen)
    if not records:
        return Section("Time", [])
    words = (
        "Where the time of a run goes: epochs of training, the head phase with virtual outliers, "
        "and what follows the epochs of each task. Runs of a grid that share their training "
        "show it in one of them."
    )
    return Section("Time", [words], charts=[charts.times(records)])
