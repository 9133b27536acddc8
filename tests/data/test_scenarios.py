"""Which training images come when: every one exactly once, by the seed alone."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.test_tasks import dataset
from ovor.config import Run
from ovor.data.base import Dataset
from ovor.data.scenarios import arrange, class_sizes, mislabelled, returning, unequal
from ovor.data.tasks import Part, Task, split, task_sizes
from ovor.errors import OvorError

SEEDS = st.integers(0, 2**40)


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Task, ...]:
    """Tasks of a data set in which every class has a training image."""
    classes = draw(st.integers(1, 8))
    more = draw(st.lists(st.integers(0, classes - 1), max_size=60))
    labels = draw(st.permutations([*range(classes), *more]))
    order = draw(st.permutations(range(classes)))
    sizes = task_sizes(classes, draw(st.integers(1, classes)))
    return split(dataset(classes, labels, labels), order, sizes)


def images(parts: list[Part]) -> list[tuple[int, int]]:
    """Return index and label of every image, in the order of the data set."""
    return sorted((int(i), int(k)) for p in parts for i, k in zip(p.indices, p.labels, strict=True))


def alike(one: tuple[Task, ...], other: tuple[Task, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(images([a.train]) == images([b.train]) for a, b in pairs)


@given(tasks(), SEEDS)
def test_every_image_comes_once_and_half_of_a_class_with_its_first_task(
    plain: tuple[Task, ...], seed: int
) -> None:
    found = returning(plain, seed)
    assert images([task.train for task in found]) == images([task.train for task in plain])
    last = len(found) - 1
    for number, (task, before) in enumerate(zip(found, plain, strict=True)):
        assert (task.classes, task.start, task.test) == (before.classes, before.start, before.test)
        assert np.all(np.diff(task.train.indices) > 0)
        assert task.train.labels.max() < task.labels.stop  # nothing of a class yet to come
        had, has = (Counter(part.labels.tolist()) for part in (before.train, task.train))
        for label in task.labels:
            half = had[label] if number == last else (had[label] + 1) // 2
            assert has[label] == half > 0
            back = [later.train.labels.tolist().count(label) for later in found[number + 1 :]]
            among = [count for count in back if count]
            assert len(among) <= (len(back) + 1) // 2
            assert max(among, default=0) - min(among, default=0) <= 1
    assert alike(found, returning(plain, seed))


@given(tasks(), st.integers(1, 9), st.integers(0, 9), SEEDS)
def test_unequal_classes_keep_what_they_are_given_and_have(
    plain: tuple[Task, ...], few: int, more: int, seed: int
) -> None:
    found = unequal(plain, few, few + more, seed)
    sizes = class_sizes(sum(len(task.classes) for task in plain), few, few + more, seed)
    for task, before in zip(found, plain, strict=True):
        assert (task.classes, task.start, task.test) == (before.classes, before.start, before.test)
        assert set(images([task.train])) <= set(images([before.train]))
        assert np.all(np.diff(task.train.indices) > 0)
        had, has = (Counter(part.labels.tolist()) for part in (before.train, task.train))
        assert has == {label: min(had[label], sizes[label]) for label in task.labels}
    assert alike(found, unequal(plain, few, few + more, seed))


@given(st.integers(2, 300), st.integers(1, 50), st.integers(0, 500), SEEDS)
def test_sizes_grow_by_one_factor_from_few_to_many(
    classes: int, few: int, more: int, seed: int
) -> None:
    sizes = np.sort(class_sizes(classes, few, few + more, seed))
    assert (sizes[0], sizes[-1]) == (few, few + more)
    exact = few * (1 + more / few) ** (np.arange(classes) / (classes - 1))
    assert np.all(np.abs(sizes - exact) <= 0.5 + 1e-6)


def test_who_learns_at_once_has_the_same_unequal_classes() -> None:
    data = dataset(6, [*range(6)] * 10, [])
    in_parts, at_once = (
        unequal(split(data, [3, 1, 0, 5, 2, 4], sizes), 2, 8, 7) for sizes in ((2, 3, 1), (6,))
    )
    assert images([task.train for task in in_parts]) == images([task.train for task in at_once])


def test_the_seed_decides() -> None:
    plain = split(dataset(6, [*range(6)] * 10, []), range(6), (2, 2, 2))
    assert not alike(returning(plain, 0), returning(plain, 1))
    assert class_sizes(20, 5, 80, 0).tolist() != class_sizes(20, 5, 80, 1).tolist()


@given(tasks(), SEEDS)
def test_without_a_scenario_nothing_is_touched(plain: tuple[Task, ...], seed: int) -> None:
    assert arrange(plain, Run(seed=seed)) is plain
    assert arrange(plain, Run(seed=seed, scenario="stream", epochs=1)) is plain


@given(tasks(), SEEDS)
def test_unequal_classes_return_too(plain: tuple[Task, ...], seed: int) -> None:
    found = arrange(plain, Run(seed=seed, scenario="repetition", imbalance=(2, 5)))
    kept = unequal(plain, 2, 5, seed)
    assert images([task.train for task in found]) == images([task.train for task in kept])


@given(tasks(), st.floats(0.01, 0.99), SEEDS)
def test_a_wrong_label_is_of_a_class_that_came_together(
    plain: tuple[Task, ...], share: float, seed: int
) -> None:
    sizes = [len(task.classes) for task in plain]
    found = mislabelled(plain, share, seed, sizes)
    for task, before in zip(found, plain, strict=True):
        assert task.test is before.test
        assert np.array_equal(task.train.indices, before.train.indices)
        assert set(task.train.labels.tolist()) == set(task.labels)  # no class is left without one
        if len(task.classes) == 1:
            assert np.array_equal(task.train.labels, before.train.labels)
    again = mislabelled(plain, share, seed, sizes)
    assert alike(found, again)
    whole = split(joined(plain), range(sum(sizes)), (sum(sizes),))
    (at_once,) = mislabelled(whole, share, seed, sizes)
    assert images([at_once.train]) == images([task.train for task in found])


def joined(tasks: tuple[Task, ...]) -> Dataset:
    """Return a data set whose classes have the labels that they have in these tasks."""
    pairs = images([task.train for task in tasks])
    return dataset(sum(len(task.classes) for task in tasks), [label for _, label in pairs], [])


def test_as_many_labels_are_wrong_as_asked_for() -> None:
    """Each other class of the task as often: within six standard errors of 4,000 draws."""
    plain = split(dataset(4, [*range(4)] * 2000, []), range(4), (3, 1))
    (first, second) = arrange(plain, Run(label_noise=0.1))
    wrong = first.train.labels != plain[0].train.labels
    assert abs(wrong.mean() - 0.1) < 6 * (0.09 / 6000) ** 0.5
    steps = (first.train.labels - plain[0].train.labels)[wrong] % 3
    assert abs((steps == 1).mean() - 0.5) < 6 * (0.25 / wrong.sum()) ** 0.5
    assert np.array_equal(second.train.labels, plain[1].train.labels)
    other = arrange(plain, Run(label_noise=0.1, seed=1))
    assert not np.array_equal(other[0].train.labels, first.train.labels)


def test_wrong_labels_are_refused_where_every_class_comes_alone() -> None:
    alone = split(dataset(3, [*range(3)] * 5, []), range(3), (1, 1, 1))
    with pytest.raises(OvorError, match="one class alone: make fewer tasks"):
        arrange(alone, Run(label_noise=0.1))


def test_a_wrong_label_stays_wrong_when_its_image_returns() -> None:
    plain = split(dataset(4, [*range(4)] * 20, []), range(4), (2, 2))
    noisy = arrange(plain, Run(label_noise=0.3))
    back = arrange(plain, Run(label_noise=0.3, scenario="repetition"))
    assert images([task.train for task in back]) == images([task.train for task in noisy])


@pytest.mark.parametrize("scenario", ["classes", "repetition"])
def test_one_task_has_everything_at_once(scenario: str) -> None:
    plain = split(dataset(3, [0, 1, 2, 1, 0], []), [2, 0, 1], (3,))
    assert alike(arrange(plain, Run(scenario=scenario)), plain)  # type: ignore[arg-type]
