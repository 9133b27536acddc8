"""A lesson: the new classes of the next task and their images, from whatever holds them.

All that may be wrong with it is found here, before any time is spent on learning.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from ovor.data.class_names import as_name, check_name, check_new_names, listed
from ovor.data.labelled import Groups, Labels
from ovor.data.memory import in_order
from ovor.data.modality import IMAGES, Columns, Given, Modality
from ovor.data.texts import kind_held
from ovor.errors import OvorError, without_leaving_out

OnError = Literal["stop", "skip"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Lesson:
    """The classes of one task, with their training images."""

    class_names: tuple[str, ...]
    images: Given
    """labels are positions in `class_names`"""
    notes: tuple[str, ...] = ()
    """what the user should know, a sentence each"""

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(np.bincount(self.images.labels, minlength=len(self.class_names)).tolist())

    def fingerprint(self) -> str:
        """Hash the classes, their order, and the images by their names and sizes."""
        said = hashlib.sha256(repr((self.class_names, self.images.labels.tolist())).encode())
        for item in self.images.items:
            said.update(self.images.reads.identity(item))
        return said.hexdigest()


def read_lesson(
    source: Any,
    labels: Labels | None,
    known: Iterable[str],
    *,
    rename: dict[str, str],
    skip_known: bool,
    more: bool = False,
    yes: bool = False,
    reads: Modality = IMAGES,
    columns: Columns = (None, None),
) -> Lesson:
    """Read a folder of class folders, a table, a zip, images and labels, or (image, label) pairs.

    With `more`, classes that are known already may get more images; with `yes` there may be new
    ones that differ from others only by case or look. `reads` says what is learned, and `columns`
    name those of a table.
    """
    check_kind(source, reads, columns)
    groups, notes = reads.labelled(source, labels, "train", columns)
    groups = renamed(groups, rename)
    for name in groups:
        check_name(name, f"rename it ({_advice(name, rename)})", "rename it")
    known = list(known)
    check_new_names(groups, known, yes)
    known = set(known)
    if skip_known or not more:
        groups, left_out = _new_only(groups, known, skip_known, rename)
        notes += left_out
    single = [name for name, items in groups.items() if len(items) == 1 and name not in known]
    if single:
        notes.append(
            f"{listed(single)}: one {reads.one} only, which is little to learn a class from."
        )
    if len(groups) == 1 and not (more and known):
        notes.append(
            "One class alone has nothing to be told apart from: where you can, learn several "
            "together."
        )
    return labelled(groups, notes, reads)


def check_kind(source: Any, reads: Modality, columns: Columns = (None, None)) -> None:
    """Refuse texts for a model that reads images, and images for one that reads texts."""
    found = kind_held(source, columns, reads.many)
    if found not in (None, reads.many):
        raise OvorError(
            f"{source} holds {found}, and this model reads {reads.many}: make another model for "
            "them (a new file)."
        )


def labelled(groups: Groups, notes: list[str], reads: Modality = IMAGES) -> Lesson:
    """Number the classes in their order, and give every image its class's number."""
    items = [item for group in groups.values() for item in group]
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups.values()])
    return Lesson(tuple(groups), Given(items, labels, reads), tuple(notes))


def as_grouped(
    values: Sequence[T], source: Any, labels: Labels | None, reads: Modality = IMAGES
) -> list[T]:
    """Return one value an image in the order in which `from_memory` puts the images."""
    if isinstance(source, str | Path):
        raise OvorError(f"Weights go with {reads.many} and labels, not with a folder: give those.")
    if isinstance(labels, str):
        return list(values)
    names = [label for _, label in reads.pairs(source, labels)]
    if len(names) != len(values):
        raise OvorError(
            f"There are {reads.count(len(names))} and {len(values)} weights: give one each."
        )
    return [values[place] for place in in_order(names)]


def renamed(groups: Groups, rename: dict[str, str]) -> Groups:
    """Give classes other names, from old to new."""
    rename = {as_name(old): as_name(new) for old, new in rename.items()}
    strange = sorted(rename.keys() - groups.keys())
    if strange:
        raise OvorError(
            f"There is no class {listed(strange)} to rename: these are {listed(list(groups))}."
        )
    result: Groups = {}
    for name, items in groups.items():
        new = rename.get(name, name)
        if new in result:
            raise OvorError(f"Two classes would be called {new!r}: choose another name for one.")
        result[new] = items
    return result


def _advice(name: str, rename: dict[str, str]) -> str:
    """Write the parameter that gives a class another name."""
    origin = next((old for old, new in rename.items() if new == name), name)
    return f"rename={ ({origin: 'NEW'}) }"


def _new_only(
    groups: Groups, known: set[str], skip_known: bool, rename: dict[str, str]
) -> tuple[Groups, list[str]]:
    """Leave out the classes that are known already, with a note, or refuse them."""
    old = [name for name in groups if name in known]
    if not old:
        return groups, []
    if not skip_known:
        raise OvorError(
            f"{listed(old)} {'is' if len(old) == 1 else 'are'} learned already, and a class cannot "
            "be learned twice: leave it out (skip_known=True), or give it another name "
            f"({_advice(old[0], rename)})."
        )
    fresh = {name: items for name, items in groups.items() if name not in known}
    if not fresh:
        raise OvorError("Every class here is learned already: there is nothing new to learn.")
    return fresh, [f"Learned already, left out: {listed(old)}."]


def checked(lesson: Lesson, on_error: OnError, listen: Callable[[int], None]) -> Lesson:
    """Read every image once; one that cannot be read is an error, or is left out with a note."""
    good: list[int] = []
    bad: list[str] = []
    for index in range(len(lesson.images)):
        try:
            lesson.images.item(index)
            good.append(index)
        except OvorError as error:
            if on_error == "stop":
                many = lesson.images.reads.many
                raise OvorError(f'{error} Or leave such {many} out (on_error="skip").') from error
            bad.append(f"Left out: {without_leaving_out(str(error))}")
        listen(1)
    if not bad:
        return lesson
    items = [lesson.images.items[i] for i in good]
    left = replace(
        lesson,
        images=replace(lesson.images, items=items, labels=lesson.images.labels[good]),
        notes=(*lesson.notes, *bad),
    )
    empty = [name for name, n in zip(left.class_names, left.counts, strict=True) if not n]
    if empty:
        raise OvorError(
            f"No {lesson.images.reads.one} of {listed(empty)} can be read: replace them, or leave "
            "the class out."
        )
    return left
