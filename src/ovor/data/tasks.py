"""Cut a data set into tasks of disjoint classes (Sec. 3, class-incremental learning).

A class's new label is its position in the class order, so that task after task the labels grow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ovor.data.base import Dataset, Integers
from ovor.errors import OvorError


@dataclass(frozen=True, eq=False)
class Part:
    """Some of a data set's training or test images, by position, with their new labels."""

    indices: Integers
    labels: Integers

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class Task:
    """Classes that arrive together, with their images."""

    classes: tuple[int, ...]
    """original class ids; the first of them has the new label `start`"""
    start: int
    train: Part
    test: Part

    @property
    def labels(self) -> range:
        """The new labels of its classes."""
        return range(self.start, self.start + len(self.classes))


def task_sizes(classes: int, tasks: int, sizes: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the classes a task: `sizes` if given, else as equal as possible, larger ones first."""
    if sizes:
        if sum(sizes) != classes or min(sizes) < 1:
            raise OvorError(
                f"The task sizes {', '.join(map(str, sizes))} add up to {sum(sizes)}, but the data "
                f"has {classes} classes: give positive sizes that add up to {classes}."
            )
        return tuple(sizes)
    if not 1 <= tasks <= classes:
        raise OvorError(
            f"{classes} classes cannot make {tasks} tasks: choose from 1 to {classes} tasks."
        )
    each, rest = divmod(classes, tasks)
    return tuple(each + (task < rest) for task in range(tasks))


def split(dataset: Dataset, order: Sequence[int], sizes: Sequence[int]) -> tuple[Task, ...]:
    """Give task t the next `sizes[t]` classes of the order, and all of their images."""
    position = np.empty(len(order), dtype=np.int64)
    position[np.asarray(order)] = np.arange(len(order))
    train, test = position[dataset.train.labels], position[dataset.test.labels]
    ends = np.cumsum(sizes).tolist()
    return tuple(
        Task(
            tuple(order[start:end]), start, _between(train, start, end), _between(test, start, end)
        )
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    )


def _between(labels: Integers, start: int, end: int) -> Part:
    indices = np.flatnonzero((labels >= start) & (labels < end))
    return Part(indices, labels[indices])
