"""A page about one model on labelled images: what `ovor evaluate` found, in the report's style."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ovor.classifier.model import Classifier
from ovor.classifier.prediction import Predictor
from ovor.data.modality import WORDS
from ovor.data.tokens import MODALITIES
from ovor.errors import OvorError
from ovor.metrics import wilson
from ovor.report import evaluation_charts as charts
from ovor.report.cards import EXAMPLES, TAKEN_FOR, Card, Picture, Taken
from ovor.report.content import Content
from ovor.report.make import Report
from ovor.report.pictures import thumbnail
from ovor.report.records import rounded
from ovor.report.runs import listing
from ovor.report.sections import WORST, Section
from ovor.report.summary import share
from ovor.report.tables import MOST_NAMES, Cell, Table, name_cell
from ovor.report.vega import Records

MOST_MISTAKEN = 3  # that the first sentence names
MOST_ROWS = 60  # classes of the chart

Found = dict[str, Any]  # what `ovor evaluate --json` prints


@dataclass(frozen=True)
class Subject:
    """What was evaluated: the model, what it was taught, and the images that it was asked about."""

    model: str
    source: str
    lessons: Sequence[Mapping[str, int | None]]
    """by lesson, the images of each class, where the model tells"""
    many: str = "images"
    """what it reads"""

    @property
    def classes(self) -> int:
        return sum(map(len, self.lessons))


def subject_of(model: Predictor, name: str, source: str) -> Subject:
    """Describe what is evaluated; an export does not tell of how many images it was taught."""
    if isinstance(model, Classifier):
        counts = [dict(zip(task.classes, task.images, strict=True)) for task in model.tasks_]
        return Subject(name, source, counts, model.reads.many)
    names = iter(model.classes_.tolist())
    lessons = [dict.fromkeys(islice(names, n)) for n in model.task_sizes_]
    return Subject(name, source, lessons, model.reads.many)


def report_on(found: Found, subject: Subject, images: bool = True) -> Report:
    """Make the page; with `images` that were mistaken, where their files are there, or without."""
    found = {"reads": "images", **found}  # which older values do not say
    sections = [
        by_class(found),
        mistakes(found, images),
        calibration(found),
        unknown(found),
        taught(subject),
    ]
    content = Content(
        title=subject.model,
        facts=facts(found, subject),
        rows=[],
        differences=[],
        sections=[section for section in sections if section],
        methods=[],
        picked=[],
        summary=[sentence(found, subject.model)],
        sources=[],
        about="What was asked",
        intro=f"The model was shown {found['reads']} of classes that it knows, and asked to name "
        "them.",
    )
    title = f"ovor: {subject.model} on {found['images']:,} {found['reads']}"
    return Report(title, [content], list(found["notes"]))


def sentence(found: Found, model: str) -> str:
    """Say how good the model is, against chance, what it mistakes, and what it makes of others."""
    right, count = right_images(found), found["images"]
    low, high = wilson(right, count)
    said = [
        f"{model} names {found['accuracy']:.1f} % (95 % interval {low:.1f} to {high:.1f}) of "
        f"{count:,} {found['reads']} of {len(found['classes'])} classes, where "
        f"{share(found['chance'])} is chance"
    ]
    again = [one for one in found["confusions"] if one["images"] > 1] or found["confusions"][:1]
    worst = [
        f"{one['class']} for {one['taken_for']} ({one['images']} of {images_of(found, one)})"
        for one in again[:MOST_MISTAKEN]
    ]
    if worst:
        said.append(f"most often mistaken: {', '.join(worst)}")
    if "unknown" in found:
        other = found["unknown"]
        said.append(
            f"calls {other['called_unknown']:.1f} % of {other['images']:,} {found['reads']} of "
            f"other things unknown, and {found['called_unknown']:.1f} % of those of its own classes"
        )
    return "; ".join(said) + "."


def right_images(found: Found) -> int:
    return round(float(found["accuracy"]) / 100 * int(found["images"]))


def images_of(found: Found, mistake: dict[str, Any]) -> int:
    """Return how many images there are of the class that is mistaken."""
    own = (one["images"] for one in found["classes"] if one["class"] == mistake["class"])
    return int(next(own))


def facts(found: Found, subject: Subject) -> dict[str, str]:
    return {
        "model": subject.model,
        "knows": f"{subject.classes} classes of {count_of(len(subject.lessons), 'lesson')}",
        found["reads"]: f"{found['images']:,} of {subject.source}",
        "right": f"{found['accuracy']:.1f} %, whether called unknown or not",
        "called unknown": f"{found['called_unknown']:.1f} %",
    }


def count_of(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def by_class(found: Found) -> Section:
    rows = class_records(found)
    words = (
        f"The share of each class's {found['reads']} that are named right, the worst first, with "
        f"the 95 % interval that so few {found['reads']} leave (Wilson's); the dotted line is "
        "guessing."
    )
    if len(rows) > MOST_ROWS:
        words += f" The {MOST_ROWS} worst are drawn; the table has all."
    chart = charts.class_bars(rows[:MOST_ROWS], found["chance"], found["reads"])
    return Section("Class by class", [words], [class_table(rows, found["reads"])], [chart])


def class_records(found: Found) -> Records:
    """Return a record for each class, the worst first."""
    rows = []
    for one in found["classes"]:
        low, high = wilson(one["accuracy"] / 100 * one["images"], one["images"])
        row = {"class": one["class"], found["reads"]: one["images"]}
        row |= {"right": rounded(one["accuracy"], 1), "low": rounded(low), "high": rounded(high)}
        rows.append({**row, "called unknown": rounded(one["called_unknown"], 1)})
    return sorted(rows, key=lambda row: row["right"])


def class_table(rows: Records, many: str) -> Table:
    cells = [
        [
            name_cell(row["class"]),
            Cell(f"{row[many]:,}", row[many]),
            Cell(f"{row['right']:.1f}", row["right"]),
            Cell(f"{row['low']:.0f} to {row['high']:.0f}"),
            Cell(f"{row['called unknown']:.1f}", row["called unknown"]),
        ]
        for row in rows
    ]
    headings = ["class", many, "right (%)", "95 % interval", "called unknown (%)"]
    return Table("classes", "Every class, the worst first", headings, cells)


def mistakes(found: Found, images: bool) -> Section | None:
    """Show what the worst classes are taken for, with a few of the images."""
    cards = [card_of(found, row["class"], images) for row in class_records(found)]
    cards = [card for card in cards if card.taken][:WORST]
    if not cards:
        return None
    many = found["reads"]
    words = [f"What the {many} of the worst classes are taken for, most often first."]
    shown = any(taken.pictures or taken.quotes for card in cards for taken in card.taken)
    if images and not shown:
        words.append(f"The {many} cannot be shown: names and counts alone.")
    return Section("What is mistaken for what", words, cards=cards)


def card_of(found: Found, name: str, images: bool) -> Card:
    (one,) = (one for one in found["classes"] if one["class"] == name)
    own = [mistake for mistake in found["confusions"] if mistake["class"] == name]
    taken = [taken_for(mistake, found["reads"], images) for mistake in own[:TAKEN_FOR]]
    right = round(one["accuracy"] / 100 * one["images"])
    return Card(name, f"{right} of {one['images']} right", taken)


def taken_for(mistake: dict[str, Any], many: str, shown: bool) -> Taken:
    """Return one mistake with small copies, or the words, of what was mistaken."""
    pictures, quotes = [], []
    for name in mistake["examples"][:EXAMPLES] if shown else ():
        try:
            preview = MODALITIES[many].preview(name)
        except OvorError:  # such as a file in a zip
            continue
        if isinstance(preview, str):
            quotes.append(preview)
        else:
            pictures.append(Picture(thumbnail(preview), name))
    words = f"{mistake['images']} taken for {mistake['taken_for']}"
    return Taken(words, pictures, quotes)


def calibration(found: Found) -> Section | None:
    """Set how sure the model was against how often it was right."""
    rows: Records = []
    known = found["calibration"]
    for one in known["bins"]:
        low, high = wilson(one["accuracy"] / 100 * one["images"], one["images"])
        rows.append(
            {
                found["reads"]: one["images"],
                "confidence": rounded(one["confidence"], 1),
                "right": rounded(one["accuracy"], 1),
                "low": rounded(low),
                "high": rounded(high),
            }
        )
    if not rows:
        return None
    words = (
        f"{found['reads'].capitalize()} by how sure the model was of its answer, and how many of "
        "them are right. On the dashed line it is as often right as it is sure; below, it is too "
        f"sure. Bar by bar the two are {known['error']:.1f} points apart; so few "
        f"{found['reads']} would give {known['by_chance']:.1f} by chance alone."
    )
    return Section("How sure it is", [words], charts=[charts.calibration(rows, found["reads"])])


def unknown(found: Found) -> Section | None:
    if "unknown" not in found:
        return None
    other, many = found["unknown"], found["reads"]
    words = (
        f"Shown {WORDS[many].count(other['images'])} of other things, the model calls "
        f"{other['called_unknown']:.1f} % unknown; of {many} of its own classes, "
        f"{found['called_unknown']:.1f} %. In {other['auroc']:.1f} % of all pairs of one of "
        "its own and one of other things the latter looks stranger to it (AUROC; guessing gives "
        f"50 %). With a limit at which it claims 95 % of its own, it claims "
        f"{other['fpr_at_95_tpr']:.1f} % of the others too."
    )
    return Section(f"{many.capitalize()} of other things", [words])


def taught(subject: Subject) -> Section | None:
    """Say what the model was taught, lesson by lesson."""
    if not subject.lessons:
        return None
    rows = []
    for number, classes in enumerate(subject.lessons, 1):
        names = [name if n is None else f"{name} ({n:,})" for name, n in classes.items()]
        rows.append([name_cell(str(number)), Cell(listing(names, MOST_NAMES), long=True)])
    known = all(n is not None for classes in subject.lessons for n in classes.values())
    heading = f"classes ({subject.many})" if known else "classes"
    table = Table("tasks", "What it learned, lesson by lesson", ["lesson", heading], rows)
    words = f"None of the {subject.many} that it was taught is in the model."
    return Section("What it was taught", [words], [table])
