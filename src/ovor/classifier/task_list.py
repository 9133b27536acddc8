"""What a model remembers of its lessons: which classes came when, and of how many images."""

from collections.abc import Sequence
from dataclasses import replace

from ovor.classifier.file import TaskInfo

Tasks = tuple[TaskInfo, ...]


def with_more(tasks: Tasks, names: Sequence[str], counts: Sequence[int]) -> Tasks:
    """Return the tasks with more images of known classes; new ones are another task."""
    added = dict(zip(names, counts, strict=True))
    known = {name for task in tasks for name in task.classes}
    grown = changed(tasks, added)
    new = [name for name in names if name not in known]
    if not new:
        return grown
    return (*grown, TaskInfo(tuple(new), tuple(added[n] for n in new), 0, 0.0))


def with_fewer(tasks: Tasks, names: Sequence[str]) -> Tasks:
    """Return the tasks with one image less for each time that a class is named.

    A class without any keeps one, until it is dropped.
    """
    return changed(tasks, {name: -names.count(name) for name in set(names)})


def changed(tasks: Tasks, by: dict[str, int]) -> Tasks:
    """Return the tasks with other numbers of images."""
    return tuple(
        replace(
            task,
            images=tuple(
                max(1, count + by.get(name, 0))
                for name, count in zip(task.classes, task.images, strict=True)
            ),
        )
        for task in tasks
    )


def without_class(tasks: Tasks, name: str) -> Tasks:
    """Return the tasks without a class."""
    result = []
    for task in tasks:
        kept = [i for i, own in enumerate(task.classes) if own != name]
        classes = tuple(task.classes[i] for i in kept)
        result.append(replace(task, classes=classes, images=tuple(task.images[i] for i in kept)))
    return tuple(result)


def names_of(tasks: Tasks) -> list[str]:
    """Return the classes in the order of their rows."""
    return [name for task in tasks for name in task.classes]
