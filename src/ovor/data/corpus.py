"""Labelled texts in memory, as the data sets of text have them."""

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ovor.data.base import Dataset, Integers, Items
from ovor.errors import OvorError

Rows = list[tuple[str, str]]  # texts and the names of their classes


@dataclass(frozen=True, eq=False)
class Texts(Items):
    """Texts with their labels."""

    texts: list[str]
    labels: Integers

    @property
    def many(self) -> str:
        return "texts"

    def item(self, index: int) -> str:
        return self.texts[index]


def labelled(name: str, sides: Iterable[Rows], unknown: Iterable[str] = ()) -> Dataset:
    """Number the classes by their sorted names; texts of no class are kept apart."""
    train, test = sides
    names = sorted({label for _, label in (*train, *test)})
    number = {label: at for at, label in enumerate(names)}

    def texts(rows: Rows) -> Texts:
        return Texts([text for text, _ in rows], _numbers(number[label] for _, label in rows))

    strange = list(unknown)
    apart = Texts(strange, _numbers(-1 for _ in strange)) if strange else None
    return Dataset(name, tuple(names), texts(train), texts(test), apart)


def _numbers(labels: Iterable[int]) -> Integers:
    return np.array(list(labels), dtype=np.int64)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    with damage_named(path):
        return json.loads(path.read_text(encoding="utf-8-sig"))


def read_rows(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, with the header if it has one."""
    with damage_named(path), path.open(encoding="utf-8-sig", newline="") as file:
        yield from (row for row in csv.reader(file) if row)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file."""
    with damage_named(path):
        return path.read_text(encoding="utf-8-sig").splitlines()


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn what a damaged file raises into a sentence that names the file."""
    try:
        yield
    except (ValueError, KeyError, IndexError, TypeError, csv.Error) as error:
        raise OvorError(
            f"{path} is damaged or has another layout ({error or type(error).__name__}): get it "
            "anew."
        ) from error
