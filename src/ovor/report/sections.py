"""What the report says about a group: each section's words, with its tables and charts."""

from collections.abc import Sequence
from dataclasses import dataclass

from ovor.report import charts, numbers, records, tables
from ovor.report.runs import Group, Row
from ovor.report.tables import Table
from ovor.report.vega import Chart, Records

FEW = 8  # methods up to which all are drawn in colour
PICKED = 6  # methods in colour at first, if there are more


@dataclass(frozen=True)
class Section:
    title: str
    words: Sequence[str]
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()


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

    @property
    def charts(self) -> list[Chart]:
        return [chart for section in self.sections for chart in section.charts]


def content_of(group: Group, against: str | None = None) -> Content:
    """Compute all that the page says about a group; a section with nothing to say is left out."""
    rows = group.rows
    table = [numbers.figures(row) for row in rows]
    differences = numbers.differences(group, against)
    found = [
        accuracy(group, table, differences, numbers.reference_of(group, against)),
        over_tasks(rows),
        matrices(rows),
        confusion(rows, table),
        energies(rows),
        plane(rows),
        drift(rows),
        cost(table),
        time(rows),
    ]
    sections = [section for section in found if section]
    facts, methods = numbers.facts(group), [row.label for row in rows]
    return Content(group.title, facts, table, differences, sections, methods, picked(table))


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


def accuracy(group: Group, table: Records, differences: Records, reference: str) -> Section:
    many = any(len(row["seeds"]) > 1 for row in table)
    spread = "Each is the mean ± population standard deviation over the seeds." if many else ""
    words = [
        "How good each method is after the last task. A_T is the share of test images that it "
        "names right, as the mean over all tasks: more is better. F_T is how many points a task "
        f"has lost since it was known best: less is better. {spread}"
    ]
    if any(row["A_T_paper"] is not None for row in table) and not group.comparable:
        words.append(
            f"The paper has no figures for these data; those shown are of {group.where}, on other "
            "images with another backbone: compare their order, not their height."
        )
    shown, drawn = [tables.accuracy_table(group, table)], []
    if differences:
        words.append(certainty(differences, reference))
        shown.append(tables.difference_table(differences))
        drawn = [charts.difference_bars(records.differences(differences))]
    return Section("Accuracy and forgetting", words, shown, drawn)


def certainty(differences: Records, reference: str) -> str:
    """Say what the differences are of, and how many of them can be told from 0."""
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


def over_tasks(rows: list[Row]) -> Section:
    many = any(len(row.runs) > 1 for row in rows)
    band = "the band is from the least to the most of the seeds" if many else "this is one seed"
    words = (
        "Each new task makes the question harder: more classes to choose from, and no old image "
        "to look at. The line is the mean accuracy over the tasks so far, dashed with VOR; "
        f"{band}."
    )
    if len({len(row.results[0]["tasks"]) for row in rows}) > 1:
        words += " What learns all tasks at once stands at the end."
    chart = charts.curves(records.curves(rows))
    return Section("Accuracy as tasks arrive", [words], charts=[chart])


def matrices(rows: list[Row]) -> Section:
    words = (
        "A row is a moment: after task t was learned. A column is a task: read down to see how it "
        "fares while later ones are learned. Percent of its test images named right, mean over "
        "seeds."
    )
    chart = charts.matrix(records.matrix(rows))
    return Section("Every task after every task", [words], charts=[chart])


def confusion(rows: list[Row], table: Records) -> Section | None:
    shares = records.confusion(rows)
    if not shares:
        return None
    words = [
        "The paper's argument: heads that were trained one by one have never met each other's "
        "images, so most errors take an image for a class of another task. A row is the task that "
        "an image is from, a column the task it was taken for; what is off the diagonal is such "
        "confusion.",
        *vor_effect(table),
    ]
    drawn = [charts.confusion(shares), charts.error_bars(records.errors(table))]
    return Section("Confusion between tasks", words, [tables.error_table(table)], drawn)


def vor_effect(table: Records) -> list[str]:
    """Compare the errors of the first method that is there with and without VOR."""
    known = {row["method"]: row for row in table if row["errors"] is not None}
    pairs = [(row, known[f"{name}+vor"]) for name, row in known.items() if f"{name}+vor" in known]
    return [
        f"{row['method']} names {row['errors']:.1f} % of the test images wrong, "
        f"{row['errors_between']:.1f} between tasks and {row['errors_within']:.1f} within; "
        f"with VOR {tight['errors']:.1f} %, {tight['errors_between']:.1f} between and "
        f"{tight['errors_within']:.1f} within."
        for row, tight in pairs[:1]
    ]


def energies(rows: list[Row]) -> Section | None:
    shares = records.energies(rows)
    if not shares:
        return None
    words = (
        "Energy is how strongly a task's head claims an image: low means “this is one of mine”. "
        "Here the head of the middle task looks at its own test images, at virtual outliers made "
        "from its training features, and at test images of tasks before and after, which it never "
        "met. VOR wants its own below tau current and outliers above tau outlier (dashed). All "
        "with the weights at the end of the run, of the first seed. Methods differ in the scale of "
        "their energies: compare within one."
    )
    table = tables.energy_table(records.energy_means(rows))
    return Section("Energies of one head", [words], [table], [charts.energies(shares)])


def plane(rows: list[Row]) -> Section | None:
    points = records.plane(rows)
    if not points:
        return None
    words = (
        "The training features of the middle task, the samples at their boundary, and the virtual "
        "outliers that start from there, at the end of the run, first seed. A flat picture of a "
        "space with many dimensions: the two directions in which the features vary most hold "
        f"{points[0]['shown']} ({points[0]['method']}), so outliers that lie far off may look near."
    )
    return Section("Features and outliers", [words], charts=[charts.plane(points)])


def drift(rows: list[Row]) -> Section | None:
    changes, moved = records.changes(rows), records.drift(rows)
    if not changes:  # one task alone
        return None
    words = [
        "If an image came with its task, would old tasks be forgotten? By how many points each "
        "task's accuracy, with the task given, changed from when it was learned to the end. Near "
        "0: what is lost is lost to confusion between tasks, not to features that went bad."
    ]
    drawn = [charts.changes(changes)]
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
    return Section("Drift", words, charts=drawn)


def cost(table: Records) -> Section:
    if len(table) == 1:
        macs = table[0]["macs"]
        work = f", and {macs:,} multiplications to look at one image" if macs else ""
        learned = f"{table[0]['learnable_parameters']:,} numbers that training may change"
        return Section("Cost", [f"{learned}{work}."])
    words = (
        "What accuracy costs: numbers that training may change, ten times as many at every "
        "tick, and multiplications to look at one image. Up and left is better; a triangle "
        "is with VOR."
    )
    found = records.costs(table)
    drawn = [charts.costs(found)]
    if all(record["multiply-accumulates"] for record in found):
        drawn.append(charts.work(found))
    return Section("Cost", [words], charts=drawn)


def time(rows: list[Row]) -> Section | None:
    seconds = records.times(rows)
    if not seconds:
        return None
    words = (
        "Where the time of a run goes: epochs of training, the head phase with virtual outliers, "
        "and what follows the epochs of each task. Runs of a grid that share their training "
        "show it in one of them."
    )
    return Section("Time", [words], charts=[charts.times(seconds)])
