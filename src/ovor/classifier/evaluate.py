"""How often a classifier is right on labelled images, and how well it tells the unknown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ovor.classifier.prediction import Answering, answers
from ovor.classifier.rejection import auroc, fpr_at_tpr
from ovor.data.class_names import listed
from ovor.data.images import Picture, at_home, spread
from ovor.data.task_data import Lesson, OnError, checked, from_folder, labelled, renamed
from ovor.errors import OvorError
from ovor.events import ImageChecked, ImagesPredicted, Listener


def examine(
    model: Answering,
    folder: Path,
    unknown: Path | None,
    rename: dict[str, str],
    on_error: OnError,
    listen: Listener,
) -> dict[str, Any]:
    """Everything `ovor evaluate` says, as one value; shares are in percent."""
    groups, notes = from_folder(at_home(folder))
    groups = renamed(groups, rename)
    names = model.classes_.tolist()
    strange = [name for name in groups if name not in names]
    if strange:
        raise OvorError(
            f"The model does not know {listed(strange)}: remove the folder, say what the model "
            "calls it (--rename), or give images of other things by --unknown."
        )
    known = readable(labelled(groups, notes), on_error, listen)
    chosen, claimed = ask(model, known.images.items, listen)
    position = {name: number for number, name in enumerate(names)}
    truth = np.array([position[known.class_names[label]] for label in known.images.labels])
    right = chosen == truth
    task_of = np.repeat(np.arange(len(model.task_sizes_)), model.task_sizes_)
    found: dict[str, Any] = {
        "images": len(truth),
        "accuracy": percent(right),
        "accuracy_if_claimed": percent(right[claimed >= 0]),
        "called_unknown": percent(claimed < 0),
        "tasks": [
            {"task": int(task) + 1, **counted(right, claimed, task_of[truth] == task)}
            for task in np.unique(task_of[truth])
        ],
        "classes": [
            {"class": names[label], **counted(right, claimed, truth == label)}
            for label in np.unique(truth)
        ],
        "notes": list(known.notes),
    }
    if unknown is not None:
        others = spread(unknown)
        if not others:
            raise OvorError(f"There is no image in {unknown}: give a folder with some.")
        strangers = readable(labelled({"unknown": others}, []), on_error, listen)
        _, strange_claims = ask(model, strangers.images.items, listen)
        found["unknown"] = {
            "images": len(strange_claims),
            "called_unknown": percent(strange_claims < 0),
            "auroc": round(100 * auroc(claimed, strange_claims), 4),
            "fpr_at_95_tpr": round(100 * fpr_at_tpr(claimed, strange_claims), 4),
        }
        found["notes"] += strangers.notes
    return found


def readable(lesson: Lesson, on_error: OnError, listen: Listener) -> Lesson:
    event = ImageChecked(total=len(lesson.images))
    return checked(lesson, on_error, lambda images: listen(event))


def ask(
    model: Answering, pictures: Sequence[Picture], listen: Listener
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The likeliest class and the margin of each picture."""
    chosen, claimed = [], []
    for found in answers(model, pictures):
        chosen.append(found.probabilities.argmax(1))
        claimed.append(found.margins)
        listen(ImagesPredicted(len(chosen[-1]), len(pictures)))
    return np.concatenate(chosen), np.concatenate(claimed)


def counted(
    right: NDArray[np.bool_], claimed: NDArray[np.float64], here: NDArray[np.bool_]
) -> dict[str, Any]:
    return {
        "images": int(here.sum()),
        "accuracy": percent(right[here]),
        "called_unknown": percent(claimed[here] < 0),
    }


def percent(flags: NDArray[np.bool_]) -> float | None:
    return round(100 * float(flags.mean()), 4) if len(flags) else None
