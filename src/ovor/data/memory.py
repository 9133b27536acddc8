"""Labelled images or texts in memory: pairs, items and labels, {class: items}, or a data frame."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from ovor.data.class_names import as_name, listed
from ovor.data.frames import is_frame, labelled_in
from ovor.data.images import Picture, settled, spread
from ovor.data.parts import Part
from ovor.data.tables import IMAGE_PATHS, Sought
from ovor.errors import OvorError

Pair = tuple[Picture, Any]  # an image and its label
Spread = Callable[[Any], list[Picture]]  # lists single items of what was given


def from_memory(
    source: Any,
    labels: Any,
    part: Part,
    spread: Spread = spread,
    sought: Sought = IMAGE_PATHS,
) -> tuple[dict[str, list[Picture]], list[str]]:
    """Group images by their labels."""
    pairs, notes = pairs_of(source, labels, part, spread, sought)
    if not pairs:
        raise OvorError(f"There is no {sought.item} to learn from: give some.")
    for _, label in pairs:
        if label is None or label != label:  # None and NaN are how tables say that one is missing
            raise OvorError(f"A label is missing ({label}): give every {sought.item} one.")
    groups: dict[str, list[Picture]] = {}
    for number in in_order([label for _, label in pairs]):
        picture, label = pairs[number]
        groups.setdefault(as_name(str(label)), []).append(settled(picture))
    return groups, notes


def in_order(labels: Sequence[Any]) -> list[int]:
    """Return the places of the images, those of a class together, classes as they are learned.

    That is by their names, and if all are numbers by those: 2 before 10, as scikit-learn has it,
    which takes the columns of probabilities to be in the order of its own labels.
    """
    if all(isinstance(label, Real) for label in labels):
        return sorted(range(len(labels)), key=labels.__getitem__)
    return sorted(range(len(labels)), key=lambda place: as_name(str(labels[place])))


def pairs_of(
    source: Any,
    labels: Any,
    part: Part = "train",
    spread: Spread = spread,
    sought: Sought = IMAGE_PATHS,
) -> tuple[list[Pair], list[str]]:
    """Return every image with its label, in the order in which they were given; and what to say."""
    if labels is not None:
        return _with_labels(spread(source), labels, sought), []
    if isinstance(source, Mapping):
        return _by_class(source, spread, sought), []
    if is_frame(source):
        return labelled_in(source, part, sought)
    pairs = spread(source)
    if any(not isinstance(pair, Sequence) or not _is_pair(pair) for pair in pairs):
        raise OvorError(
            f"Without labels every item must be a pair ({sought.item}, label): give pairs, or "
            f"labels as well, or {{class: {sought.item}s}}, or the path of a folder."
        )
    return [(picture, label) for picture, label in pairs], []


def _is_pair(pair: Sequence[Any]) -> bool:
    return not isinstance(pair, str | bytes | bytearray) and len(pair) == 2


def _with_labels(pictures: list[Picture], labels: Any, sought: Sought) -> list[Pair]:
    names = [labels] * len(pictures) if isinstance(labels, str) else list(labels)
    if len(pictures) != len(names):
        raise OvorError(
            f"There are {len(pictures)} {sought.item}s and {len(names)} labels: give one label "
            "each."
        )
    return list(zip(pictures, names, strict=True))


def _by_class(source: Mapping[Any, Any], spread: Spread, sought: Sought) -> list[Pair]:
    """Return the images of {class: images}, where these may also be a folder or one image."""
    found = {name: spread(own) for name, own in source.items()}
    empty = [str(name) for name, own in found.items() if not own]
    if empty:
        raise OvorError(
            f"There is no {sought.item} of {listed(empty)}: give some, or leave the class out."
        )
    return [(picture, name) for name, own in found.items() for picture in own]
