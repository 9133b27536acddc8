"""How the training images of tasks come: of unequal classes, mislabelled, again in later tasks.

Each is a function of (seed, class) or (seed, image) alone, and leaves the test images as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ovor.config import Run
from ovor.data.base import Integers
from ovor.data.tasks import Part, Task
from ovor.errors import OvorError

# The first number of every seed sequence, going on from those of loader.py.
SIZES, KEPT, RETURNS, WRONG = 3, 4, 5, 6

Tasks = tuple[Task, ...]
Share = tuple[int, Integers]  # a label, and images of it by their position in the data set


def arrange(tasks: Tasks, run: Run, sizes: Sequence[int] = ()) -> Tasks:
    """Return the tasks with their training images as the run's scenario brings them.

    `sizes` are the classes of each task for those who learn one by one, where these are not they.
    """
    if run.imbalance is not None:
        tasks = unequal(tasks, *run.imbalance, seed=run.seed)
    if run.label_noise:
        sizes = sizes or [len(task.classes) for task in tasks]
        if max(sizes) == 1:
            raise OvorError(
                "--label-noise mistakes classes of one task for each other, and here every task "
                "has one class alone: make fewer tasks, or leave it out."
            )
        tasks = mislabelled(tasks, run.label_noise, run.seed, sizes)
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

    def keep(label: int, images: Integers) -> Integers:
        draw = np.random.default_rng((KEPT, seed, label))
        return draw.permutation(images)[: sizes[label]]

    return tuple(
        replace(task, train=gathered([(k, keep(k, images)) for k, images in by_class(task)]))
        for task in tasks
    )


def mislabelled(tasks: Tasks, share: float, seed: int, sizes: Sequence[int]) -> Tasks:
    """Give a share of the training images the label of another class that arrives with theirs.

    The first image of a class keeps its label, so that no class is without; so do all where a class
    arrives alone. Whoever learns all classes at once has the same wrong labels.
    """
    ends = np.cumsum(sizes)
    return tuple(replace(task, train=_with_noise(task.train, share, seed, ends)) for task in tasks)


def _with_noise(part: Part, share: float, seed: int, ends: Integers) -> Part:
    labels = part.labels.copy()
    first = set(np.unique(part.labels, return_index=True)[1].tolist())
    starts = np.concatenate([[0], ends[:-1]])
    for place, (index, label) in enumerate(zip(part.indices, part.labels, strict=True)):
        number = int(np.searchsorted(ends, label, side="right"))
        others = int(ends[number] - starts[number]) - 1
        draw = np.random.default_rng((WRONG, seed, int(index)))
        if draw.random() < share and others and place not in first:
            step = 1 + int(draw.integers(others))
            labels[place] = starts[number] + (label - starts[number] + step) % (others + 1)
    return Part(part.indices, labels)


def returning(tasks: Tasks, seed: int) -> Tasks:
    """Give a class's first task half of its training images, and later tasks the others.

    Half of the later tasks, drawn by the seed, share the others as equally as possible. Odd ones go
    to the first task, and so do all where no task is later. Every image comes in exactly one task.
    """
    shares: list[list[Share]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        later = range(number + 1, len(tasks))
        for label, images in by_class(task):
            draw = np.random.default_rng((RETURNS, seed, label))
            images = draw.permutation(images)
            half = (len(images) + 1) // 2 if later else len(images)
            shares[number].append((label, images[:half]))
            back = draw.permutation(later)[: (len(later) + 1) // 2]
            for place, again in enumerate(back):
                shares[again].append((label, images[half:][place :: len(back)]))
    return tuple(
        replace(task, train=gathered(own)) for task, own in zip(tasks, shares, strict=True)
    )


def by_class(task: Task) -> Iterator[Share]:
    """Yield each label of a task with its training images."""
    order = np.argsort(task.train.labels, kind="stable")
    ends = np.searchsorted(task.train.labels[order], [*task.labels, task.labels.stop])
    for label, (start, end) in zip(task.labels, pairwise(ends), strict=True):
        yield label, task.train.indices[order[start:end]]


def gathered(shares: Sequence[Share]) -> Part:
    """Return all these images in the order of the data set."""
    indices = np.concatenate([images for _, images in shares])
    labels = np.repeat([label for label, _ in shares], [len(images) for _, images in shares])
    order = np.argsort(indices)
    return Part(indices[order], labels[order])
