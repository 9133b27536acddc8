"""How often a classifier is right on labelled images, and how well it tells the unknown."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ovor.classifier.mistakes import calibration, confusions
from ovor.classifier.prediction import Floats, Prediction, Predictor, predict_images
from ovor.classifier.verdict import chance
from ovor.data.class_names import listed
from ovor.data.labelled import Labels
from ovor.data.modality import Columns, Item
from ovor.data.task_data import Lesson, OnError, check_kind, checked, labelled, renamed
from ovor.errors import OvorError
from ovor.events import ImageChecked, ImagesPredicted, Listener


def evaluate(
    model: Predictor,
    source: Any,
    unknown: Any,
    rename: dict[str, str],
    on_error: OnError,
    listen: Listener,
    labels: Labels | None = None,
    columns: Columns = (None, None),
) -> dict[str, Any]:
    """Return everything that `ovor evaluate` says, as one value; shares are in percent."""
    reads = model.reads
    check_kind(source, reads, columns)
    groups, notes = reads.labelled(source, labels, "test", columns)
    groups = renamed(groups, rename)
    names = model.classes_.tolist()
    strange = [name for name in groups if name not in names]
    if strange:
        raise OvorError(
            f"The model does not know {listed(strange)}: leave it out, say what the model calls "
            f"it (rename=...), or give {reads.many} of other things apart (unknown=...)."
        )
    known = readable(labelled(groups, notes, reads), on_error, listen)
    found = list(predictions(model, known.images.items, listen))
    number = {name: i for i, name in enumerate(names)}
    truth = np.array([number[known.class_names[label]] for label in known.images.labels])
    answers = np.array([number[p.likeliest] for p in found])
    confidences = np.array([p.confidence for p in found])
    right = answers == truth
    where = [known.images.called(i) for i in range(len(found))]
    margins = np.array([p.margin for p in found])
    task_of = np.repeat(np.arange(len(model.task_sizes_)), model.task_sizes_)
    result: dict[str, Any] = {
        "reads": reads.many,
        "images": len(truth),
        "accuracy": percent(right),
        "chance": chance(len(names)),
        "accuracy_if_claimed": percent(right[margins >= 0]),
        "called_unknown": percent(margins < 0),
        "lessons": (lessons := by_lesson(right, margins, task_of[truth])),
        "tasks": [{"task": one["lesson"], **one} for one in lessons],  # what they were called
        "classes": [
            {"class": names[label], **counted(right, margins, truth == label)}
            for label in np.unique(truth)
        ],
        "confusions": confusions(truth, answers, confidences, names, where),
        "calibration": calibration(right, confidences),
        "notes": list(known.notes),
    }
    if unknown is not None:
        check_kind(unknown, reads, columns)
        others = reads.found(unknown, columns=columns)
        if not others:
            raise OvorError(
                f"There is no {reads.one} in {unknown}: give some, or a folder with some."
            )
        strangers = readable(labelled({"unknown": others}, [], reads), on_error, listen)
        strange_margins = np.array(
            [p.margin for p in predictions(model, strangers.images.items, listen)]
        )
        result["unknown"] = {
            "images": len(strange_margins),
            "called_unknown": percent(strange_margins < 0),
            "auroc": round(100 * auroc(margins, strange_margins), 4),
            "fpr_at_95_tpr": round(100 * fpr_at_tpr(margins, strange_margins), 4),
        }
        result["notes"] += strangers.notes
    return result


def by_lesson(right: NDArray[np.bool_], margins: Floats, lesson: Any) -> list[dict[str, Any]]:
    """Return how the classes of each lesson fare; `lesson` is the number of each image's."""
    return [
        {"lesson": int(number) + 1, **counted(right, margins, lesson == number)}
        for number in np.unique(lesson)
    ]


def readable(lesson: Lesson, on_error: OnError, listen: Listener) -> Lesson:
    """Return the lesson after every image of it was read once."""
    event = ImageChecked(total=len(lesson.images))
    return checked(lesson, on_error, lambda images: listen(event))


def predictions(model: Predictor, images: Sequence[Item], listen: Listener) -> Iterator[Prediction]:
    """Yield a prediction for each image, and tell the listener of it."""
    for found in predict_images(model, images):
        listen(ImagesPredicted(1, total=len(images)))
        yield found


def counted(right: NDArray[np.bool_], margins: Floats, here: NDArray[np.bool_]) -> dict[str, Any]:
    """Return how many images are `here`, and the shares of them that are right and unknown."""
    return {
        "images": int(here.sum()),
        "accuracy": percent(right[here]),
        "called_unknown": percent(margins[here] < 0),
    }


def percent(flags: NDArray[np.bool_]) -> float | None:
    """Return the share of flags that are set, or None where there is no flag."""
    return round(100 * float(flags.mean()), 4) if len(flags) else None


def auroc(known: Floats, unknown: Floats) -> float:
    """Return the chance that a known image scores higher than an unknown one; a tie counts half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, known, "left")
    not_above = np.searchsorted(order, known, "right")
    return float((below + not_above).mean() / (2 * len(unknown)))


def fpr_at_tpr(known: Floats, unknown: Floats, tpr: float = 0.95) -> float:
    """Return the share of unknown images taken for known, where `tpr` of the known ones are."""
    rank = math.ceil(tpr * len(known))
    bar = np.sort(known)[::-1][rank - 1]
    return float((unknown >= bar).mean())
