"""What became of every class of a method: how often it is right, and what it is taken for.

Runs know their classes by number, in an order of their own; here they are known by name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ovor.metrics import wilson
from ovor.report.runs import Finished, Row

TASK_NAMES = 3  # classes by which a task is known


@dataclass(frozen=True)
class Example:
    """A test image that was mistaken: where it is, and what its pixels must be."""

    data: str
    index: int
    digest: str


@dataclass(frozen=True)
class Mistake:
    """Images of a class that are taken for another one, over all seeds."""

    taken_for: str
    images: int
    examples: list[Example]


@dataclass
class ClassFigures:
    """A class of a method, all seeds together."""

    name: str
    runs: int = 0
    images: int = 0
    right: int = 0
    learned: int | None = 0  # right when it was learned, if the runs counted that
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def percent(self) -> float:
        return 100 * self.right / self.images

    @property
    def percent_learned(self) -> float | None:
        return None if self.learned is None else 100 * self.learned / self.images

    @property
    def lost(self) -> float | None:
        """Points from when it was learned to the end."""
        before = self.percent_learned
        return None if before is None else before - self.percent

    @property
    def interval(self) -> tuple[float, float]:
        """Of the images of one seed, as every seed has the same ones."""
        return wilson(self.right / self.runs, self.images / self.runs)


def classes_of(row: Row) -> list[ClassFigures]:
    """Return every class of a method that its runs tell of, the worst first."""
    found: dict[str, ClassFigures] = {}
    mistakes: dict[str, dict[str, Mistake]] = defaultdict(dict)
    for run, look in zip(row.runs, row.diagnostics, strict=True):
        names, images, right = names_of(run, look), images_of(run, look), right_of(run, look)
        if names is None or images is None or right is None:
            continue
        learned = learned_of(run)
        for label, name in enumerate(names):
            if images[label]:
                one = found.setdefault(name, ClassFigures(name))
                one.runs += 1
                one.images += images[label]
                one.right += right[label]
                before = learned[label] if learned else None
                known = one.learned is not None and before is not None
                one.learned = (one.learned or 0) + (before or 0) if known else None
        for true, said, count, examples in (look or {}).get("mistakes", ()):
            own = mistakes[names[true]]
            old = own.get(names[said], Mistake(names[said], 0, []))
            seen = [Example(run.run.data, *example) for example in examples]
            own[names[said]] = Mistake(old.taken_for, old.images + count, old.examples + seen)
    for name, by_class in mistakes.items():
        found[name].mistakes = sorted(by_class.values(), key=lambda one: -one.images)
    return sorted(found.values(), key=lambda one: (one.percent, one.name))


def names_of(run: Finished, look: dict[str, Any] | None) -> list[str] | None:
    """Return the names of a run's classes in its order; older runs may not have them."""
    names: list[str] | None = run.result.get("class_names") or (look or {}).get("class_names")
    return names


def images_of(run: Finished, look: dict[str, Any] | None) -> list[int] | None:
    """Return how many test images every class has."""
    images: list[int] | None = run.result.get("class_images") or (look or {}).get("class_images")
    return images


def right_of(run: Finished, look: dict[str, Any] | None) -> list[int] | None:
    """Return how many images of every class are named right at the end."""
    if counted := run.result.get("class_right"):
        return list(counted[-1])
    images = images_of(run, look)
    if images is None or look is None or "mistakes" not in look:
        return None
    wrong: Counter[int] = Counter()
    for true, _, count, _ in look["mistakes"]:
        wrong[true] += count
    return [count - wrong[label] for label, count in enumerate(images)]


def learned_of(run: Finished) -> list[int] | None:
    """Return how many images of every class were named right when it was learned."""
    counted = run.result.get("class_right")
    if not counted:
        return None
    ends = accumulate(run.result["tasks"])
    starts = [0, *(len(row) for row in counted[:-1])]
    pairs = zip(counted, starts, ends, strict=True)
    return [count for row, start, end in pairs for count in row[start:end]]


def task_images(run: Finished, look: dict[str, Any] | None) -> list[int] | None:
    """Return how many test images every task has."""
    images = images_of(run, look)
    if images is not None:
        ends = list(accumulate(run.result["tasks"]))
        starts = [0, *ends[:-1]]
        return [sum(images[start:end]) for start, end in zip(starts, ends, strict=True)]
    return [sum(row) for row in look["confusion"]] if look else None


def task_classes(rows: Iterable[Row]) -> list[list[str]] | None:
    """Return the classes of every task, if all runs of several tasks have the same in each."""
    found = []
    for row in rows:
        for run, look in zip(row.runs, row.diagnostics, strict=True):
            sizes, names = run.result["tasks"], names_of(run, look)
            if len(sizes) < 2:
                continue
            if names is None:
                return None
            ends = list(accumulate(sizes))
            starts = [0, *ends[:-1]]
            found.append([names[start:end] for start, end in zip(starts, ends, strict=True)])
    alike = bool(found) and all(one == found[0] for one in found)
    return found[0] if alike else None
