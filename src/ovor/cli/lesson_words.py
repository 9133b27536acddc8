"""What `ovor learn` says of a lesson: what it would take, what was learned and how well."""

from collections import Counter
from pathlib import Path
from typing import Any

import ovor
from ovor.cli.inspect import size
from ovor.data.class_names import listed
from ovor.data.task_data import Lesson

SETTINGS = (
    "epochs",
    "batch_size",
    "lr",
    "seed",
    "false_alarms",
    "hold_out",
    "workers",
    "image_size",
)


def plan_in_words(plan: dict[str, Any]) -> str:
    """Return what learning would take, in sentences."""
    classes = "\n".join(f"  {name}: {count} images" for name, count in plan["classes"].items())
    return (
        f"Would learn task {plan['task']} with {plan['method']} on {plan['backbone']}, from "
        f"{plan['image_size']} x {plan['image_size']} pixels of an image:\n{classes}\n"
        f"About {duration(plan['seconds'])} and {plan['megabytes']:,} MB of memory, by one step "
        "on these images. Nothing was learned."
    )


def learned(model: "ovor.Classifier", path: Path) -> dict[str, Any]:
    """Return what was learned and how much the model holds now, as one value."""
    task = model.tasks_[-1]
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "task": len(model.tasks_),
        "classes": dict(zip(task.classes, task.images, strict=True)),
        "held_out": task.held_out,
        "threshold": task.threshold,
        "all_classes": len(model.classes_),
    }


def learned_in_words(model: "ovor.Classifier", path: Path) -> str:
    """Return what was learned, and how far its false alarms can be trusted, in sentences."""
    task = model.tasks_[-1]
    counts = ", ".join(f"{n} ({k})" for n, k in zip(task.classes, task.images, strict=True))
    words = (
        f"Task {len(model.tasks_)} learned: {counts}.\n"
        f"{path} knows {len(model.classes_)} classes in {size(path.stat().st_size)}."
    )
    wanted = model.false_alarms
    if task.held_out < 1 / max(wanted, 1e-9) - 1:
        few = f"{task.held_out} held-out image(s)" if task.held_out else "images learned from"
        words += (
            f"\nWhat is unknown was set by {few}. For {100 * wanted:g} % false alarms it takes at "
            f"least {round(1 / max(wanted, 1e-9)) - 1} that were held out, so expect more of them."
        )
    return words


def taught(report: dict[str, Any], lesson: Lesson) -> dict[str, int]:
    """Return how many images of each class were learned in a lesson of exact sums."""
    left_out = set(report["left_out"])
    pictures = zip(lesson.images.items, lesson.images.labels, strict=True)
    return Counter(
        lesson.class_names[label] for item, label in pictures if str(item) not in left_out
    )


def report_in_words(
    report: dict[str, Any], lesson: Lesson, model: "ovor.Classifier", path: Path
) -> str:
    """Return what a lesson of exact sums says of itself, in lines."""
    left_out = report["left_out"]
    counts = taught(report, lesson)
    lines = [f"Learned: {', '.join(f'{name} ({count})' for name, count in counts.items())}."]
    if left_out:
        names = listed(report["left_out"])
        lines.append(f"Learned before, {len(left_out):,} left out: {names}.")
    if report["expected"] is not None:
        lines.append(
            f"Of new images like these expect {report['expected']:g} % named right (each of "
            f"{report['judged']:,} judged by all others)."
        )
    for pair in report["pairs"][:3]:
        first, second = pair["classes"]
        lines.append(f"Most confused: {first} and {second} ({pair['images']} images).")
    for suspect in report["suspects"][:5]:
        lines.append(
            f"Look at {suspect['image']}: taught as {suspect['class']}, looks like "
            f"{suspect['looks_like']} ({100 * suspect['confidence']:.0f} %)."
        )
    more = len(report["suspects"]) - 5
    if more > 0:
        lines.append(f"And {more} more images that look mislabelled (--json lists them).")
    lines += [f"What would help: {line}" for line in worst(report)]
    known = len(model.classes_)
    lines.append(f"{path} knows {known} class{'es' * (known != 1)} in {size(path.stat().st_size)}.")
    return "\n".join(lines)


def worst(report: dict[str, Any], most: int = 3) -> list[str]:
    """Return advice on the classes that need it most."""
    of = {found["class"]: found["expected"] for found in report["classes"]}

    def need(line: str) -> float:
        return next((v or 0.0 for name, v in of.items() if line.startswith(f"{name}: ")), 100.0)

    return sorted(report["advice"], key=need)[:most]


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours, whichever fits it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
