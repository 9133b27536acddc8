"""Data sets by name, and how they become a sequence of tasks (Sec. 5, class-incremental protocol).

There are the embedded drawings, the data sets of the paper (Sec. 5.1), which are read from the data
folder (`ovor.data.sources`), and one's own images. Importing this package imports no torch; its
modules `loader` and `batches` do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ovor.data import cifar_100, cub_200, dbpedia, imagenet_a, imagenet_r, intents, reuters
from ovor.data.base import Dataset, Images
from ovor.data.embedded import quickdraw, quickdraw_dev
from ovor.data.folders import folder
from ovor.data.hf import hugging_face
from ovor.data.own_texts import own_texts
from ovor.data.shards import shards
from ovor.data.sources import Source
from ovor.errors import OvorError

__all__ = ["DATASETS", "SOURCES", "Dataset", "Images", "describe", "load_dataset"]

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        imagenet_r.SOURCE,
        imagenet_r.PILOT,
        cifar_100.SOURCE,
        cub_200.SOURCE,
        cub_200.PILOT,
        imagenet_a.SOURCE,
        reuters.SOURCE,
        reuters.ALL,
        reuters.LEADS,
        reuters.DEV,
        intents.CLINC150,
        intents.BANKING77,
        intents.HWU64,
        dbpedia.SOURCE,
    )
}
DATASETS: dict[str, Callable[[], Dataset]] = {
    "quickdraw": quickdraw,
    "quickdraw-dev": quickdraw_dev,
    **{name: source.load for name, source in SOURCES.items()},
}
# One's own images, by what stands before the colon.
OWN: dict[str, Callable[[str], Dataset]] = {
    "folder": folder,
    "shards": shards,
    "hf": hugging_face,
    "texts": own_texts,
}


def load_dataset(name: str) -> Dataset:
    kind, colon, place = name.partition(":")
    own = OWN.get(kind) if colon else None
    if not own and name not in DATASETS:
        raise OvorError(
            f"There is no data set '{name}': choose {', '.join(DATASETS)}, folder:PATH, "
            "shards:PATTERN, hf:NAME or texts:PATH."
        )
    with _unreadable_named(name):
        return own(place) if own else DATASETS[name]()


@contextmanager
def _unreadable_named(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OvorError(
            f"{error.filename or name} cannot be read ({error.strerror or error}): allow this user "
            "to read it, or copy it anew."
        ) from error


@dataclass(frozen=True)
class Description:
    """What this machine has of a data set of the paper."""

    name: str
    found: str | None
    problem: str
    """why it cannot be used although something is there; empty if it can, or if nothing is"""
    advice: str
    """what to get, from whom, and where it must lie"""


def describe() -> tuple[Description, ...]:
    """Describe every data set of the paper; those found are read as a run would read them."""
    return tuple(_describe(source) for source in SOURCES.values())


def _describe(source: Source) -> Description:
    found, problem = None, ""
    try:
        with _unreadable_named(source.name):
            found = source.found()
        if found:
            load_dataset(source.name)
    except OvorError as error:
        problem = str(error)
    return Description(source.name, str(found) if found else None, problem, source.advice())
