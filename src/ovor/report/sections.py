"""The sections of the report: each one's words, with its tables, charts and mistakes."""

from collections.abc import Sequence
from dataclasses import dataclass

from ovor.metrics import wilson
from ovor.report import charts, records, tables
from ovor.report.cards import Card, card_of
from ovor.report.classes import (
    TASK_NAMES,
    ClassFigures,
    task_classes,
    task_images,
)
from ovor.report.runs import Group, Row, listing
from ovor.report.tables import Table
from ovor.report.vega import Chart, Records

WORST = 9  # classes that are shown with images
IN_TABLE = 15


@dataclass(frozen=True)
class Section:
    title: str
    words: Sequence[str]
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    cards: Sequence[Card] = ()


def accuracy(group: Group, table: Records, differences: Records, reference: str) -> Section:
    many = any(len(row["seeds"]) > 1 for row in table)
    spread = "Each is the mean ± population standard deviation over the seeds." if many else ""
    words = [
        "How good each method is after the last task. A_T is the share of test examples that "
        "it names right, as the mean over all tasks: more is better. F_T is how many points a task "
        f"has lost since it was known best: less is better. {spread}"
    ]
    if any(row["A_T_paper"] is not None for row in table) and not group.comparable:
        words.append(
            f"The paper has no figures for these data; those shown are of {group.where}, on other "
            "data with another backbone: compare their order, not their height."
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
    bar = (
        "a bar is from the least to the most of the seeds"
        if many
        else "this is one seed, and a bar is the 95 % interval of as many test examples"
    )
    words = (
        "Each new task makes the question harder: more classes to choose from, and no old "
        "example to look at. The line is the mean accuracy over the tasks so far, dashed with VOR; "
        f"{bar}. The dotted line at the bottom is guessing."
    )
    if len({len(row.results[0]["tasks"]) for row in rows}) > 1:
        words += " What learns all tasks at once stands at the end."
    chart = charts.curves(records.curves(rows))
    return Section("Accuracy as tasks arrive", [words], charts=[chart])


def matrices(rows: list[Row]) -> Section:
    words = (
        "A row is a moment: after task t was learned. A column is a task: read down to see how it "
        "fares while later ones are learned. Percent of its test examples named right, mean "
        "over seeds."
    )
    chart, tasks = charts.matrix(records.matrix(rows)), task_classes(rows)
    named = [tables.task_table(tasks)] if tasks else []
    return Section("Every task after every task", [words, *few_images(rows)], named, [chart])


def few_images(rows: list[Row]) -> list[str]:
    """Say how far chance alone moves the accuracy of a task."""
    counts = task_images(rows[0].runs[0], rows[0].diagnostics[0])
    if not counts:
        return []
    least = min(counts)
    low, high = wilson(least / 2, least)
    return [
        f"A task has {least:,} test examples{' or more' if max(counts) > least else ''}: by chance "
        f"alone, a number of one seed is off by up to {(high - low) / 2:.0f} points (95 %)."
    ]


def one_image(rows: list[Row]) -> list[str]:
    """Say how coarse the accuracy of a task is."""
    counts = task_images(rows[0].runs[0], rows[0].diagnostics[0])
    return [f"One test example of a task is {100 / min(counts):.1g} points."] if counts else []


def worst_classes(method: str, classes: list[ClassFigures], images: bool) -> Section | None:
    """Show the classes that are right least often, what they are taken for, and examples."""
    worst = [one for one in classes if one.right < one.images]
    if not worst:
        return None
    cards = [card_of(one, images) for one in worst[:WORST] if one.mistakes]
    words = [
        "The classes that are named right least often, and what theirs are taken for. A class "
        "has few test examples: the interval says how little is known of it."
    ]
    recorded = any(mistake.examples for one in worst for mistake in one.mistakes)
    shown = any(taken.pictures for card in cards for taken in card.taken)
    if recorded and images and not shown:
        words.append("The images are not there any more, or have changed: names and counts alone.")
    table = tables.class_table(method, worst[:IN_TABLE])
    return Section(f"Worst classes of {method}", words, [table], cards=cards)


def confusion(rows: list[Row], table: Records) -> Section | None:
    shares = records.confusion(rows)
    if not shares:
        return None
    words = [
        "The paper's argument: heads that were trained one by one have never met each other's "
        "examples, so most errors take one for a class of another task. A row is the task that "
        "an example is from, a column the task it was taken for; what is off the diagonal is such "
        "confusion. But most classes are of other tasks: with wrong answers that are mere guesses, "
        "most errors would be between tasks too.",
        *by_chance(table),
        *vor_effect(table),
    ]
    drawn = [charts.confusion(shares), charts.error_bars(records.errors(table))]
    return Section("Confusion between tasks", words, [tables.error_table(table)], drawn)


def by_chance(table: Records) -> list[str]:
    """Set the errors between tasks of the first method against those of guessing."""
    known = [row for row in table if row["errors_between_share"] is not None]
    return [
        f"Of the errors of {row['method']}, {row['errors_between_share']:.1f} % are between tasks; "
        "guessing among the wrong classes would give "
        f"{row['errors_between_share_by_chance']:.1f} %."
        for row in known[:1]
    ]


def vor_effect(table: Records) -> list[str]:
    """Compare the errors of the first method that is there with and without VOR."""
    known = {row["method"]: row for row in table if row["errors"] is not None}
    pairs = [(row, known[f"{name}+vor"]) for name, row in known.items() if f"{name}+vor" in known]
    return [
        f"{row['method']} names {row['errors']:.1f} % of the test examples wrong, "
        f"{row['errors_between']:.1f} between tasks and {row['errors_within']:.1f} within; "
        f"with VOR {tight['errors']:.1f} %, {tight['errors_between']:.1f} between and "
        f"{tight['errors_within']:.1f} within."
        for row, tight in pairs[:1]
    ]


def energies(rows: list[Row]) -> Section | None:
    shares = records.energies(rows)
    if not shares:
        return None
    (_, _, look), *_ = records.first_diagnostics(rows, "energies")
    tasks, middle = task_classes(rows), look["middle_task"]
    named = f" ({listing(tasks[middle], TASK_NAMES)})" if tasks else ""
    words = (
        "Energy is how strongly a task's head claims an example: low means “this is one of mine”. "
        f"Here the head of the middle task{named} looks at its own test examples, at virtual "
        "outliers made from its training features, and at those of tasks before and after, "
        "which it never met. VOR wants its own below tau current and outliers above tau outlier "
        "(dashed). All with the weights at the end of the run, of the first seed. Methods differ "
        "in the scale of their energies: compare within one."
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
        "If an example came with its task, would old tasks be forgotten? By how many points each "
        "task's accuracy, with the task given, changed from when it was learned to the end. Near "
        "0: what is lost is lost to confusion between tasks, not to features that went bad.",
        *one_image(rows),
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
        work = f", and {macs:,} multiplications to look at one example" if macs else ""
        learned = f"{table[0]['learnable_parameters']:,} numbers that training may change"
        return Section("Cost", [f"{learned}{work}."])
    words = (
        "What accuracy costs: numbers that training may change, ten times as many at every "
        "tick, and multiplications to look at one example. Up and left is better; a triangle "
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
