from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ovor.data.base import Dataset, Images, Integers
from ovor.data.tasks import split, task_sizes
from ovor.errors import OvorError


@dataclass(frozen=True)
class Blank(Images):
    labels: Integers

    def image(self, index: int) -> Image.Image:
        return Image.new("RGB", (4, 4))


def dataset(classes: int, train: list[int], test: list[int]) -> Dataset:
    names = tuple(f"c{c}" for c in range(classes))
    return Dataset(
        "blank", names, Blank(np.array(train, np.int64)), Blank(np.array(test, np.int64))
    )


@given(st.integers(1, 300), st.data())
def test_equal_tasks_differ_by_one_at_most_and_larger_come_first(
    classes: int, data: st.DataObject
) -> None:
    tasks = data.draw(st.integers(1, classes))
    sizes = task_sizes(classes, tasks)
    assert len(sizes) == tasks
    assert sum(sizes) == classes
    assert list(sizes) == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


def test_given_sizes_win_over_the_number_of_tasks() -> None:
    assert task_sizes(100, 10, (50, 25, 25)) == (50, 25, 25)
    assert task_sizes(200, 10) == (20,) * 10


@pytest.mark.parametrize("sizes", [(50, 25), (50, 51), (101, -1), (100, 0)])
def test_sizes_must_add_up_to_the_classes(sizes: tuple[int, ...]) -> None:
    with pytest.raises(OvorError, match="add up to 100"):
        task_sizes(100, 10, sizes)


@pytest.mark.parametrize("tasks", [0, 11])
def test_every_task_needs_a_class(tasks: int) -> None:
    with pytest.raises(OvorError, match="from 1 to 10 tasks"):
        task_sizes(10, tasks)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Dataset, list[int], tuple[int, ...]]:
    classes = draw(st.integers(1, 12))
    labels = st.lists(st.integers(0, classes - 1), max_size=60)
    order = draw(st.permutations(range(classes)))
    sizes = task_sizes(classes, draw(st.integers(1, classes)))
    return dataset(classes, draw(labels), draw(labels)), list(order), sizes


@given(problems())
def test_tasks_partition_classes_and_images(
    problem: tuple[Dataset, list[int], tuple[int, ...]],
) -> None:
    data, order, sizes = problem
    tasks = split(data, order, sizes)
    assert [c for task in tasks for c in task.classes] == order
    assert tuple(len(task.classes) for task in tasks) == sizes
    for side in ("train", "test"):
        parts = [getattr(task, side) for task in tasks]
        images = getattr(data, side)
        indices = np.concatenate([part.indices for part in parts])
        assert sorted(indices.tolist()) == list(range(len(images)))
        for task, part in zip(tasks, parts, strict=True):
            # The new label is the position in the order, so the order undoes it.
            assert [order[k] for k in part.labels] == images.labels[part.indices].tolist()
            assert all(0 <= k - task.start < len(task.classes) for k in part.labels)


def test_a_split_by_hand() -> None:
    data = dataset(4, train=[0, 1, 2, 3, 0], test=[3, 2])
    first, second = split(data, [2, 0, 3, 1], (3, 1))
    assert (first.classes, first.start, second.classes, second.start) == ((2, 0, 3), 0, (1,), 3)
    assert first.train.indices.tolist() == [0, 2, 3, 4]
    assert first.train.labels.tolist() == [1, 0, 2, 1]
    assert first.test.labels.tolist() == [2, 0]
    assert (second.train.indices.tolist(), second.train.labels.tolist()) == ([1], [3])
    assert len(second.test) == 0
