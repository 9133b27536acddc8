"""Texts of a Hugging Face data set: which columns they are in, and which rows are of no class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ovor.data.base import Dataset, Integers, Items, Mask
from ovor.data.class_names import listed
from ovor.data.tables import BEFORE, TEXTS
from ovor.errors import OvorError


@dataclass(frozen=True, eq=False)
class TextRows(Items):
    """The texts of one or more columns, which are mapped from the disk."""

    rows: Any  # datasets.Dataset with the texts' columns alone
    columns: tuple[str, ...]
    name: str
    numbers: Integers
    """of each text, its row"""
    labels: Integers

    @property
    def many(self) -> str:
        return "texts"

    def chosen(self, mask: Mask) -> "TextRows":
        return replace(self, numbers=self.numbers[mask], labels=self.labels[mask])

    def item(self, index: int) -> str:
        row = int(self.numbers[index])
        found = self.rows[row]
        parts = [str(found[column]).strip() for column in self.columns if found[column]]
        if not any(parts):
            raise OvorError(
                f"Row {row} of {self.name} has no text in its column {self.columns[-1]!r}: remove "
                "the row, or fill it."
            )
        return "\n".join(parts)


def text_columns(features: Mapping[str, Any], asked: str, place: str) -> tuple[str, ...]:
    """Return the columns of the texts: those asked for, or what is known by its name."""
    strings = [name for name, kind in features.items() if is_string(kind)]
    if asked:
        wanted = tuple(asked.split(","))
        strange = [name for name in wanted if name not in strings]
        if strange:
            raise OvorError(
                f"hf:{place} has no texts in a column {strange[0]!r}: choose from "
                f"{', '.join(strings) or 'none, as it has no texts'}."
            )
        return wanted
    known = [name for name in TEXTS if name in strings][:1]
    return (*(name for name in BEFORE if known and name in strings), *known)


def is_string(kind: Any) -> bool:
    return getattr(kind, "dtype", None) in ("string", "large_string") and not hasattr(kind, "names")


def apart(dataset: Dataset, unknown: str) -> Dataset:
    """Return the data set without a class whose rows are of none; its tests are kept aside."""
    names = dataset.class_names
    if unknown not in names:
        raise OvorError(
            f"{dataset.name} has no class {unknown!r} to take as unknown: choose from "
            f"{listed(list(names))}."
        )
    at = names.index(unknown)
    train, test = (_others(items, at) for items in (dataset.train, dataset.test))
    tests: Any = dataset.test
    strange = tests.chosen(tests.labels == at)
    kept = (*names[:at], *names[at + 1 :])
    return replace(dataset, class_names=kept, train=train, test=test, unknown=strange)


def _others(items: Any, at: int) -> Any:
    """Return the items of the other classes, numbered without this one."""
    kept = items.chosen(items.labels != at)
    return replace(kept, labels=kept.labels - (kept.labels > at))


def without(columns: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns that are no texts, of which one is the label."""
    return {name: kind for name, kind in columns.items() if name not in names}
