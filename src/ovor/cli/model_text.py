"""What people and programs read of a growing classifier: plans, lessons, predictions, exams."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ovor.classifier.prediction import BATCH, Answering
from ovor.data.class_names import UNKNOWN
from ovor.data.images import at_home, find_images, to_image
from ovor.data.task_data import Lesson, OnError
from ovor.errors import OvorError
from ovor.events import Event, ImageChecked, ImagesPredicted, Listener, silent
from ovor.experiments.progress import Live

if TYPE_CHECKING:
    from ovor.classifier.file import Model
    from ovor.classifier.model import Classifier


ON_ONE_LINE = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})


class Counting(Live):
    """A bar of images with the time left, on a terminal; passes events on to it."""

    def __init__(self, what: str) -> None:
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.row = self.bar.add_task(what, total=None)
        self.what = what
        self.kind: type | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case ImageChecked(total):
                self.advance(type(event), "checking images", total, 1)
            case ImagesPredicted(images, total):
                self.advance(type(event), self.what, total, images)

    def advance(self, kind: type, what: str, total: int, images: int) -> None:
        """Move the bar; another kind of event begins a new one."""
        if kind is not self.kind:
            self.kind = kind
            self.bar.reset(self.row, total=total, description=what)
        self.bar.update(self.row, advance=images)


# --- learning


def plan(model: "Classifier", lesson: Lesson) -> dict[str, Any]:
    """What `learn --dry-run` says."""
    from ovor.classifier.fit import estimate

    cost = estimate(model.past(), lesson, model.hold_out)
    return {
        "task": len(model.tasks_) + 1,
        "classes": dict(zip(lesson.class_names, lesson.counts, strict=True)),
        "known_classes": len(model.classes_),
        "backbone": model.network().name,
        "method": model.run().name,
        "seconds": round(cost.seconds, 1),
        "megabytes": round(cost.megabytes),
    }


def plan_in_words(plan: dict[str, Any]) -> str:
    classes = "\n".join(f"  {name}: {count} images" for name, count in plan["classes"].items())
    return (
        f"Would learn task {plan['task']} with {plan['method']} on {plan['backbone']}:\n{classes}\n"
        f"About {duration(plan['seconds'])} and {plan['megabytes']:,} MB of memory, by one step "
        "on these images. Nothing was learned."
    )


def learned(model: "Classifier", path: Path) -> dict[str, Any]:
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


def learned_in_words(model: "Classifier", path: Path) -> str:
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


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


# --- predicting


def image_paths(given: Sequence[str]) -> list[Path]:
    """Files as they are, folders with all images below them, - for standard input."""
    paths: list[Path] = []
    for path in spelled_out(given):
        if path.is_dir():
            found, _ = find_images(path)
            if not found:
                raise OvorError(f"There is no image in {path}: check the folder.")
            paths += found
        else:
            paths.append(path)
    if not paths:
        raise OvorError("There is no image to predict: give files or folders, or - and paths.")
    return paths


def spelled_out(given: Sequence[str]) -> Iterator[Path]:
    for text in given:
        if text != "-":
            yield at_home(text)
            continue
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # names need not be UTF-8
        lines = (line.removesuffix("\r") for line in sys.stdin.read().split("\n"))
        yield from (Path(line) for line in lines if line.strip())


def predictions(
    model: Answering,
    paths: Sequence[Path],
    top: int,
    on_error: OnError,
    listen: Listener = silent,
) -> Iterator[dict[str, Any]]:
    """A row an image, as the batches come."""
    names = model.classes_
    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        images, errors = {}, {}
        for path in batch:
            try:
                images[path] = to_image(path)
            except OvorError as error:
                if on_error == "stop":
                    raise OvorError(
                        f"{error} Or go on without such images (--on-error skip)."
                    ) from error
                errors[path] = str(error)
        rows = {}
        if images:
            answers = model.answer(list(images.values()))
            for path, chances, margin in zip(images, *answers, strict=True):
                rows[path] = row(path, names, chances, margin, top)
        listen(ImagesPredicted(len(batch), len(paths)))
        for path in batch:
            yield rows.get(path) or {"image": str(path), "error": errors[path]}


def row(path: Path, names: Any, chances: Any, margin: float, top: int) -> dict[str, Any]:
    order = np.argsort(-chances, kind="stable")[:top]
    best = [{"class": names[i], "confidence": round(float(chances[i]), 6)} for i in order]
    unknown = bool(margin < 0)
    return {
        "image": str(path),
        "label": UNKNOWN if unknown else best[0]["class"],
        "unknown": unknown,
        "margin": round(float(margin), 6),
        "best": best,
    }


def print_predictions(rows: Iterable[dict[str, Any]], paths: Sequence[Path]) -> bool:
    """Aligned on a terminal, with tabs in a pipe; unreadable images on stderr. Was any readable?"""
    console = Console()
    width = max(len(str(path)) for path in paths)
    readable = False
    for found in rows:
        if "error" in found:
            print(found["error"], file=sys.stderr)
            continue
        readable = True
        if console.is_terminal:
            console.print(aligned(found, width), highlight=False, soft_wrap=True)
        else:
            print(tabbed(found), flush=True)
    return readable


def tabbed(found: dict[str, Any]) -> str:
    columns = [found["image"].translate(ON_ONE_LINE), found["label"]]
    for best in found["best"]:
        columns += [best["class"], f"{best['confidence']:.4f}"]
    return "\t".join(columns)


def aligned(found: dict[str, Any], width: int) -> str:
    chances = [f"{best['class']} {100 * best['confidence']:.1f} %" for best in found["best"]]
    image, chances = escape(f"{found['image']:<{width}}"), [escape(text) for text in chances]
    if found["unknown"]:
        return f"{image}  [yellow]{UNKNOWN}[/yellow]  [dim](nearest: {', '.join(chances)})[/dim]"
    return f"{image}  [bold]{chances[0]}[/bold]  [dim]{', '.join(chances[1:])}[/dim]"


# --- exams


def print_exam(found: dict[str, Any]) -> None:
    console = Console()
    for note in found["notes"]:
        print(note, file=sys.stderr)
    table = Table()
    for column in ("class", "images", "right", "called unknown"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for entry in found["classes"]:
        table.add_row(escape(entry["class"]), *cells(entry))
    table.add_section()
    for entry in found["tasks"]:
        table.add_row(f"task {entry['task']}", *cells(entry))
    table.add_row("all", *cells(found))
    console.print(table)
    console.print(exam_in_words(found), highlight=False, soft_wrap=True)


def cells(entry: dict[str, Any]) -> tuple[str, str, str]:
    right, unknown = entry["accuracy"], entry["called_unknown"]
    return str(entry["images"]), f"{right:.1f} %", f"{unknown:.1f} %"


def exam_in_words(found: dict[str, Any]) -> str:
    words = "Right, as the likeliest class, whether called unknown or not: "
    words += f"{found['accuracy']:.1f} %"
    if found["accuracy_if_claimed"] is not None:
        words += f"; of those not called unknown: {found['accuracy_if_claimed']:.1f} %"
    words += "."
    if "unknown" in found:
        other = found["unknown"]
        words += (
            f"\n{other['images']} images of other things: {other['called_unknown']:.1f} % called "
            f"unknown, AUROC {other['auroc']:.1f} %, false positives at 95 % true ones "
            f"{other['fpr_at_95_tpr']:.1f} %."
        )
    return words


# --- inspecting


def inspection(model: "Model", path: Path) -> dict[str, Any]:
    about = model.about
    tensors = model.state
    return {
        "model": str(path),
        "bytes": path.stat().st_size,
        "method": about.run.name,
        "backbone": {
            "name": about.backbone.name,
            "source": about.backbone.source,
            "sha256": about.backbone.sha256,
            "bundled": about.backbone.bundled,
        },
        "numbers": sum(tensor.numel() for tensor in tensors.values()),
        "false_alarms": about.false_alarms,
        "tasks": [
            {
                "classes": dict(zip(task.classes, task.images, strict=True)),
                "held_out": task.held_out,
                "held_out_accuracy": task.accuracy,
                "threshold": task.threshold,
            }
            for task in about.tasks
        ],
    }


def print_inspection(found: dict[str, Any]) -> None:
    console = Console()
    classes = sum(len(task["classes"]) for task in found["tasks"])
    backbone = found["backbone"]
    table = Table()
    table.add_column("task", justify="right")
    table.add_column("classes (images)")
    table.add_column("held out", justify="right")
    table.add_column("right then", justify="right")
    table.add_column("threshold", justify="right")
    for number, task in enumerate(found["tasks"], 1):
        names = ", ".join(f"{name} ({count})" for name, count in task["classes"].items())
        right = "" if task["held_out_accuracy"] is None else f"{task['held_out_accuracy']:.1f} %"
        held_out, threshold = str(task["held_out"]), f"{task['threshold']:.3f}"
        table.add_row(str(number), escape(names), held_out, right, threshold)
    console.print(table)
    console.print(
        f"{found['model']}: {classes} classes by {found['method']}, {found['numbers']:,} learned "
        f"numbers, {size(found['bytes'])}; false alarms aimed at: "
        f"{100 * found['false_alarms']:g} %\n"
        f"backbone: {backbone['name']} ({backbone['source']}), SHA-256 {backbone['sha256'][:12]}, "
        f"{'in the file' if backbone['bundled'] else 'not in the file'}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
