"""How the training images of tasks come: of unequal classes, and again in later tasks.

Each is a function of (seed, class) alone, and leaves the test images as they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ovor.config import Run
from ovor.data.base import Integers
from ovor.data.tasks import Part, Task

# The first number of every seed sequence, going on from those of loader.py.
SIZES, KEPT, RETURNS = 3, 4, 5

Tasks = tuple[Task, ...]


def arrange(tasks: Tasks, run: Run) -> Tasks:
    """Return the tasks with their training images as the run's scenario brings them."""
    if run.imbalance is not None:
        tasks = unequal(tasks, *run.imbalance, seed=run.seed)
    return returning(tasks, run.seed) if run.scenario == "repetition" else tasks


def class_sizes(classes: int, few: int, many: int, seed: int) -> Integers:
    """Return how many training images each class may have, by label.

    They grow by the same factor from class to class, and an order drawn by the seed says which
    class has how many: so half of the classes have less than the geometric mean of few and many.
    """
    place = np.random.default_rng((SIZES, seed)).permutation(classes) / max(1, classes - 1)
    return np.rint(few * (many / few) ** place).astype(np.int64)


def unequal(tasks: Tasks, few: int, many: int, seed: int) -> Tasks:
    """Keep from few to many training images of each class; one that has fewer keeps them all."""
    sizes = class_sizes(sum(len(task.classes) for task in tasks), few, many, seed)

    def keep(task: Task) -> Part:
        kept = []
        for label in task.labels:
            own = np.flatnonzero(task.train.labels == label)
            draw = np.random.default_rng((KEPT, seed, label))
            kept.append(draw.permutation(own)[: sizes[label]])
        return chosen(task.train, kept)

    return tuple(replace(task, train=keep(task)) for task in tasks)


def returning(tasks: Tasks, seed: int) -> Tasks:
    """Give a class's first task half of its training images, and later tasks the others.

    Half of the later tasks, drawn by the seed, share the others as equally as possible. Odd ones go
    to the first task, and so do all where no task is later. Every image comes in exactly one task.
    """
    every = Part(
        np.concatenate([task.train.indices for task in tasks]),
        np.concatenate([task.train.labels for task in tasks]),
    )
    rows: list[list[Integers]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        later = range(number + 1, len(tasks))
        for label in task.labels:
            draw = np.random.default_rng((RETURNS, seed, label))
            own = draw.permutation(np.flatnonzero(every.labels == label))
            half = (len(own) + 1) // 2 if later else len(own)
            rows[number].append(own[:half])
            back = np.sort(draw.permutation(later)[: (len(later) + 1) // 2])
            for place, again in enumerate(back):
                rows[again].append(own[half:][place :: len(back)])
    return tuple(
        replace(task, train=chosen(every, own)) for task, own in zip(tasks, rows, strict=True)
    )


def chosen(part: Part, rows: Sequence[Integers]) -> Part:
    """Return these rows of a part, in the order of the data set."""
    together = np.concatenate([np.zeros(0, np.int64), *rows])
    together = together[np.argsort(part.indices[together])]
    return Part(part.indices[together], part.labels[together])
