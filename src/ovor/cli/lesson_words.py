"""What `ovor learn` says of a lesson: what it would take, what was learned and how well."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ovor
from ovor.cli.inspect import size
from ovor.data.class_names import listed
from ovor.data.modality import WORDS
from ovor.data.task_data import Lesson

Lines = list[tuple[str, str]]  # what is printed, and how: a verdict has a colour
COLOURS = {"good": "green", "fair": "yellow", "poor": "red"}
SHOWN = 8  # classes that are named, the worst first


def plan_in_words(plan: dict[str, Any]) -> str:
    """Return what learning would take, in sentences."""
    words = WORDS[plan["reads"]]
    classes = "\n".join(f"  {name}: {words.count(n)}" for name, n in plan["classes"].items())
    return (
        f"Would learn lesson {plan['lesson']} with {plan['method']} on {plan['backbone']}, of each "
        f"{words.one} {plan['seen']}:\n{classes}\n"
        f"About {duration(plan['seconds'])} and {plan['megabytes']:,} MB of memory, by one step "
        f"on these {words.many}. Nothing was learned."
    )


def learned(model: "ovor.Classifier", path: Path) -> dict[str, Any]:
    """Return what was learned and how much the model holds now, as one value."""
    task = model.tasks_[-1]
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "lesson": len(model.tasks_),
        "task": len(model.tasks_),  # what it was called
        "classes": dict(zip(task.classes, task.images, strict=True)),
        "held_out": task.held_out,
        "threshold": task.threshold,
        "all_classes": len(model.classes_),
    }


def false_alarms_in_words(model: "ovor.Classifier") -> str | None:
    """Return how far the false alarms of a model that trains can be trusted, if not far."""
    task, wanted = model.tasks_[-1], model.false_alarms
    if task.held_out >= 1 / max(wanted, 1e-9) - 1:
        return None
    one, many = model.reads.one, model.reads.many
    few = f"{task.held_out} held-out {one}(s)" if task.held_out else f"{many} learned from"
    return (
        f"What is unknown was set by {few}. For {100 * wanted:g} % false alarms it takes at least "
        f"{round(1 / max(wanted, 1e-9)) - 1} that were held out, so expect more of them."
    )


def taught(report: dict[str, Any], lesson: Lesson) -> dict[str, int]:
    """Return how many images of each class were learned in a lesson of exact sums."""
    left_out = set(report["left_out"])
    labels = enumerate(lesson.images.labels)
    return Counter(
        lesson.class_names[label]
        for number, label in labels
        if not left_out or lesson.images.called(number) not in left_out
    )


def report_in_words(
    report: dict[str, Any], lesson: Lesson, model: "ovor.Classifier", path: Path
) -> Lines:
    """Return what a lesson says of itself, in lines."""
    left_out = report["left_out"]
    counts = taught(report, lesson)
    lines = [f"Learned: {', '.join(f'{name} ({count})' for name, count in counts.items())}."]
    if report.get("shortened"):
        many = WORDS[report["reads"]].count(report["shortened"])
        lines.append(f"Longer than what is read, and learned by the beginning: {many}.")
    if left_out:
        lines.append(f"Learned before, {len(left_out):,} left out: {listed(left_out)}.")
    judgement = verdict_in_words(report, len(model.classes_))
    rest = [repeated(report), each_class(report), *mistakes(report)]
    rest.append(older_in_words(report["older"]))
    rest += [f"What would help: {line}" for line in report["advice"][:5]]
    if not model._exact:
        rest.append(false_alarms_in_words(model))
    known = len(model.classes_)
    rest.append(f"{path} knows {known} class{'es' * (known != 1)} in {size(path.stat().st_size)}.")
    return [
        *((line, "") for line in lines),
        (judgement, COLOURS[report["verdict"]]),
        *((line, "") for line in rest if line),
    ]


def verdict_in_words(report: dict[str, Any], classes: int) -> str:
    """Return how well a lesson went: a word, and the numbers that it stands for."""
    said, many = f"{report['verdict'].capitalize()}: ", report["reads"]
    if classes == 1:
        return f"{said}with one class there is nothing to tell apart."
    if report["expected"] is None and report.get("of_taught") is not None:
        return (
            f"{said}even of the {many} that it was taught {report['of_taught']:g} % are named "
            f"right (guessing: {report['chance']:g} %)."
        )
    if report["expected"] is None and report.get("repeated"):
        return f"{said}nothing says how well new {many} are named, as none of these is new."
    if report["expected"] is None:
        one = WORDS[many].one
        return f"{said}with one {one} of each class nothing says how well they are known."
    low, high = report["interval"]
    how = "each judged by all others" if report["by"] == "leave-one-out" else "held out"
    return (
        f"{said}of new {many} like these expect {report['expected']:g} % named right ({low:g} to "
        f"{high:g} %, by {WORDS[many].count(report['judged'])}, {how}; guessing: "
        f"{report['chance']:g} %)."
    )


def repeated(report: dict[str, Any]) -> str | None:
    """Return how many images said nothing, as their own copies would have judged them."""
    if not report.get("repeated"):
        return None
    many = WORDS[report["reads"]].count(report["repeated"])
    return f"Learned before, or twice in here, so not judged by: {many}. --once leaves such out."


def each_class(report: dict[str, Any]) -> str | None:
    """Return what to expect of every class, the worst first."""
    known = [found for found in report["classes"] if found["expected"] is not None]
    known.sort(key=lambda found: found["expected"])
    if len(report["classes"]) < 2 or not known:
        return None
    shown = ", ".join(f"{found['class']} {found['expected']:g} %" for found in known[:SHOWN])
    rest = len(known) - SHOWN
    return f"Expect of each: {shown}{f', and {rest} classes above' if rest > 0 else ''}."


def mistakes(report: dict[str, Any]) -> Iterator[str]:
    """Yield which classes are confused, and which images look mislabelled."""
    words = WORDS[report["reads"]]
    for pair in report["pairs"][:3]:
        first, second = pair["classes"]
        yield f"Most confused: {first} and {second} ({words.count(pair['images'])})."
    for suspect in report["suspects"][:5]:
        yield (
            f"Look at {words.quoted(suspect['image'])}: taught as {suspect['class']}, looks like "
            f"{suspect['looks_like']} ({100 * suspect['confidence']:.0f} %)."
        )
    more = len(report["suspects"]) - 5
    if more > 0:
        yield f"And {more} more {report['reads']} that look mislabelled (--json lists them)."


def older_in_words(older: dict[str, Any]) -> str | None:
    """Return what became of older classes."""
    if older["how"] != "estimated":
        return older["note"] or None
    worst = sorted(older["classes"], key=lambda found: -found["lost"])[:3]
    most = [
        f"{found['class']} (about {found['lost']:g} points, to {found['to']})"
        for found in worst
        if found["lost"] >= 2
    ]
    lost = f"about {older['lost']:g} point{'s' * (older['lost'] != 1)} to the new ones"
    if not most:
        return f"Older classes lose {lost} on average, by an estimate from the sums."
    return (
        f"Older classes lose {lost} on average, by an estimate from the sums; most: "
        f"{', '.join(most)}."
    )


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, whichever fits it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
