"""A class that is often mistaken, as the page shows it: what for, and a few of the images."""

from collections.abc import Sequence
from dataclasses import dataclass

from ovor.report.classes import ClassFigures, Mistake
from ovor.report.pictures import picture_of

TAKEN_FOR = 3  # other classes
EXAMPLES = 3  # images, for each of them


@dataclass(frozen=True)
class Picture:
    uri: str
    alt: str


@dataclass(frozen=True)
class Taken:
    """One other class that images are taken for."""

    words: str
    pictures: Sequence[Picture] = ()
    quotes: Sequence[str] = ()
    """of texts, where these are what is mistaken"""


@dataclass(frozen=True)
class Card:
    title: str
    words: str
    taken: Sequence[Taken]


def card_of(one: ClassFigures, images: bool) -> Card:
    """Return what a class is taken for most often, with images where they are still there."""
    seeds = f", over {one.runs} seeds" if one.runs > 1 else ""
    taken = [taken_for(one.name, mistake, images) for mistake in one.mistakes[:TAKEN_FOR]]
    return Card(one.name, f"{one.right} of {one.images} right{seeds}", taken)


def taken_for(name: str, mistake: Mistake, images: bool) -> Taken:
    found: list[Picture] = []
    for example in mistake.examples if images else ():
        uri = picture_of(example)
        if uri and all(uri != known.uri for known in found):  # seeds may mistake the same image
            found.append(Picture(uri, f"{name}, taken for {mistake.taken_for}"))
        if len(found) == EXAMPLES:
            break
    return Taken(f"{mistake.images} taken for {mistake.taken_for}", found)
