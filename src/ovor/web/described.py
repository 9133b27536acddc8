"""What GET /model says: what is known, by how many images, and how well it is kept."""

from typing import TYPE_CHECKING, Any

from ovor.data.modality import Modality
from ovor.web.predictor import ServedModel
from ovor.web.schemas import LimitsShown

if TYPE_CHECKING:
    from ovor.web.service import Service


def described(service: "Service", can_teach: bool) -> dict[str, Any]:
    """Return what GET /model responds to somebody who may teach or not."""
    served, lesson = service.predictor.served, service.lessons.current
    model, exams = served.model, service.evaluation.results
    return {
        "name": service.settings.model.name,
        "reads": shown(model.reads),
        "method": model.run().name,
        "exact": served.exact,
        "backbone": model.network().name,
        "drawing": model.network().name == "embedded",
        "image_size": model.transform().size,
        "megabytes": round(served.stamp[1] / 1e6, 3),
        "version": served.version,
        "empty": served.empty,
        "can_teach": can_teach,
        "can_undo": served.can_undo,
        "lessons": lessons_of(served),
        "exams": exams,
        "memory": memory_of(served, exams),
        "limits": {name: getattr(service.limits, name) for name in LimitsShown.model_fields},
        "learning": lesson.id if lesson else None,
        "inbox": len(service.inbox) if can_teach else None,
    }


def shown(reads: Modality) -> dict[str, Any]:
    """Return what a page must know of what a model is asked about."""
    return {"one": reads.one, "many": reads.many, "written": reads.written}


def lessons_of(served: ServedModel) -> list[dict[str, Any]]:
    """Return the lessons that brought new classes, with what is known of each class."""
    expected = served.model.expected_
    return [
        {
            "lesson": number,
            "held_out": task.held_out,
            "held_out_accuracy": task.accuracy,
            "classes": [
                {
                    "name": name,
                    "images": images,
                    "expected": expected[name].expected if name in expected else None,
                    "confused_with": list(expected[name].confused_with) if name in expected else [],
                }
                for name, images in zip(task.classes, task.images, strict=True)
            ],
        }
        for number, task in enumerate(served.model.tasks_, 1)
        if task.classes  # all of them may have been forgotten
    ]


def memory_of(served: ServedModel, exams: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a line a class: how many of so many images were named right, lesson after lesson.

    The first point is what the model's file says, so that models which were taught on the command
    line have one: the class's own images, each judged by all others, when they last came.
    """
    found = []
    for lesson in lessons_of(served):
        for known in lesson["classes"]:
            line = {"name": known["name"], "lesson": lesson["lesson"], "images": known["images"]}
            found.append({**line, "points": [*own_point(known, lesson["lesson"])]})
    lines = {line["name"]: line for line in found}
    for exam in exams:
        for asked in exam["classes"]:
            if asked["name"] in lines:
                point = {"images": asked["images"], "right": asked["right"], "by": "exam"}
                lines[asked["name"]]["points"].append({"lessons": exam["lessons"], **point})
    return found


def own_point(known: dict[str, Any], lesson: int) -> list[dict[str, Any]]:
    """Return what was expected of a class when its images came, if that is known."""
    if known["expected"] is None:
        return []
    right = round(known["expected"] * known["images"] / 100)
    return [{"lessons": lesson, "images": known["images"], "right": right, "by": "lesson"}]
