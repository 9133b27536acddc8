"""A table of labels and paths, or texts: CSV, TSV or JSONL, as spreadsheets and scripts write it.

What is wrong with it is said with the number of the line.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ovor.data.formats import ADDRESS
from ovor.errors import OvorError

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
PATHS = ("path", "file", "image", "filename", "file_name", "filepath", "file_path", "image_path")
TEXTS = (
    "text",
    "sentence",
    "body",
    "message",
    "utterance",
    "content",
    "document",
    "description",
    "question",
    "query",
    "comment",
    "review",
)
BEFORE = ("title", "subject", "headline")  # columns that belong before a text
LABELS = ("label", "class", "category", "class_name", "label_name")
TEXT_LABELS = (*LABELS, "intent", "topic", "label_text", "category_name", "queue", "department")
PARTS = ("split", "subset", "partition")  # columns that say which rows are for testing
EXAMPLE = {"text": "Where is my parcel?", "label": "delivery"}
LONGEST_CELL = 2**27  # characters; Python's own limit is less than some letters have
Line = tuple[int, Mapping[str, Any]]  # its number, and its values by column
Named = tuple[str | None, str | None]  # columns that somebody has named, of items and of labels
# How that is said, in Python's words.
NAME_TEXTS, NAME_LABELS = '(columns=("NAME", None))', '(columns=(None, "NAME"))'


@dataclass(frozen=True)
class Sought:
    """What a table is searched for: the columns of what is learned and of its labels."""

    item: str
    """what is learned"""
    one: str
    """what a cell of the first is called"""
    names: tuple[str, ...]
    labels: tuple[str, ...]
    before: tuple[str, ...] = ()
    """columns whose text comes before that of the first, or stands for it where there is none"""
    labelled: bool = True
    """False: only items are wanted, and a label is of no use"""
    may_be_empty: bool = False
    """True: a row without an item is one like others, and who reads it says what is wrong"""
    named: Named | None = None
    """columns that somebody has named; None where nobody can"""

    def by(self, columns: Named | None) -> "Sought":
        """Return the same with the columns that somebody has named, or may still name."""
        if columns is None:
            return self
        item, label = (name and (_plain(name),) for name in columns)
        return replace(
            self,
            names=item or self.names,
            labels=label or self.labels,
            before=() if item else self.before,
            named=columns,
        )

    def unlabelled(self) -> "Sought":
        """Return the same where labels are of no use."""
        return replace(self, labelled=False)


IMAGE_PATHS = Sought("image", "path", PATHS, LABELS)
ANY_TEXTS = Sought("text", "text", TEXTS, TEXT_LABELS, BEFORE, may_be_empty=True)


@dataclass(frozen=True)
class Row:
    """A path or a text and its label, as a line of the table says them."""

    line: int
    item: str
    """of a text also empty, which is no reason to refuse the others"""
    label: str
    part: str
    """such as train or test; empty if the table has no such column"""


@dataclass(frozen=True)
class Columns:
    items: tuple[str, ...]
    """one, or a title and what comes after it"""
    label: str | None
    part: str | None


def is_path_column(name: str) -> bool:
    """Tell by its name whether a column is one of paths."""
    return _plain(name) in PATHS


def is_table(name: str) -> bool:
    """Tell by its name whether a file is a table that is read here."""
    return name.lower().endswith(TABLES)


def read_table(
    content: bytes, name: object, suffix: str, sought: Sought = IMAGE_PATHS
) -> list[Row]:
    """Return the rows of a table; `name` is for sentences about it."""
    lines = _lines(_text(content, name), name, suffix, sought)
    first = next(lines, None)
    if first is None:
        raise no_rows(name, sought)
    columns = _columns(first[1], name, suffix, sought)
    rows = [_row(first, columns, name, sought)]
    rows += [_row(line, columns, name, sought) for line in lines]
    return rows


def other_columns(content: bytes, name: object, suffix: str, sought: Sought) -> OvorError:
    """Return what to say of a table whose columns have other names than are known or were given."""
    _, first = next(_lines(_text(content, name), name, suffix, sought), (0, {}))
    if not first:
        return no_rows(name, sought)
    for what, column in zip(("texts", "labels"), sought.named or (), strict=False):
        if column is not None and _plain(column) not in first:
            return _without(list(first), name, suffix, sought, (column,), what)
    there = ", ".join(map(repr, list(first)[:8]))
    return OvorError(
        f"{name} has no column that is known to hold texts or paths of images (it has {there}): "
        "name that of the texts with --text-column, and that of their labels with --label-column."
    )


def no_rows(name: object, sought: Sought) -> OvorError:
    return OvorError(
        f"{name} has no rows: write one for each {sought.item}, below the column names."
    )


def has_columns(content: bytes, suffix: str, sought: Sought = IMAGE_PATHS) -> bool:
    """Tell whether a file is a table of what is sought, and not one of something else."""
    try:
        first = next(_lines(_text(content, ""), "", suffix, sought), None)
        return first is not None and bool(_columns(first[1], "", suffix, sought))
    except OvorError:
        return False


def may_hold(content: bytes, suffix: str, sought: Sought) -> bool:
    """Tell whether a table has a column of what is sought, or several, whatever its labels are."""
    try:
        _, first = next(_lines(_text(content, ""), "", suffix, sought), (0, {}))
    except OvorError:
        return False
    return any(column in (*sought.names, *sought.before) for column in first)


def _text(content: bytes, name: object) -> str:
    try:
        return content.decode("utf-8-sig")  # spreadsheets put a mark before the text
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise OvorError(f"Line {line} of {name} is not UTF-8: save the table as UTF-8.") from error


def _lines(text: str, name: object, suffix: str, sought: Sought) -> Iterator[Line]:
    """Yield the lines that are not blank, with their values by column."""
    if suffix in (".jsonl", ".ndjson"):
        example = {"path": "a.jpg", "label": "cat"} if sought is IMAGE_PATHS else EXAMPLE
        return _objects(text, name, json.dumps(example))
    return _cells(text, name, suffix, sought)


def _objects(text: str, name: object, example: str) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise OvorError(
                f"Line {number} of {name} is not JSON: write one object a line, such as {example}."
            ) from error
        if not isinstance(value, dict):
            raise OvorError(f"Line {number} of {name} is no object: write it as {example}.")
        yield number, {_plain(key): cell for key, cell in value.items()}


def _cells(text: str, name: object, suffix: str, sought: Sought) -> Iterator[Line]:
    csv.field_size_limit(LONGEST_CELL)
    head = text.replace("\r", "\n").split("\n", 1)[0]
    # Spreadsheets of half of Europe write semicolons, as their commas are in numbers.
    delimiter = "\t" if suffix == ".tsv" else max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [_plain(cell) for cell in cells]
                check_once(names, name, sought)
            elif len(cells) != len(names):
                raise OvorError(
                    f"Line {reader.line_num} of {name} has {len(cells)} values, and there are "
                    f"{len(names)} columns: correct it, or put values with a {delimiter!r} in "
                    "quotes."
                )
            else:
                yield reader.line_num, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise OvorError(
            f"Line {reader.line_num} of {name} is broken ({error}): correct its quotes."
        ) from error


def check_once(names: list[str], name: object, sought: Sought) -> None:
    """Refuse two columns of one name, where either may be what is sought."""
    labels = sought.labels if sought.labelled else ()
    meant = (*sought.names, *sought.before, *labels, *PARTS)
    twice = next((column for column in names if column in meant and names.count(column) > 1), None)
    if twice is not None:
        raise OvorError(
            f"{name} has two columns {twice!r}, and only one can be meant: rename the other, or "
            "remove it."
        )


def _plain(column: str) -> str:
    return column.strip().casefold()


def _columns(first: Mapping[str, Any], name: object, suffix: str, sought: Sought) -> Columns:
    """Find the columns of items and labels by their names."""

    def found(wanted: tuple[str, ...], what: str) -> str:
        here = [column for column in first if column in wanted]
        if not here:
            raise _without(list(first), name, suffix, sought, wanted, what)
        if len(here) > 1:
            how = how_to_name(sought, what)
            raise OvorError(
                f"{name} has the columns {here[0]!r} and {here[1]!r}, and either may be the "
                f"{what}: {f'name the one that is {how}, or ' if how else ''}rename the one that "
                "is not."
            )
        return here[0]

    part = next((column for column in first if column in PARTS), None)
    before = [column for column in first if column in sought.before]
    named = any(column in sought.names for column in first)
    items = () if before and not named else (found(sought.names, f"{sought.one}s"),)
    label = found(sought.labels, "labels") if sought.labelled else None
    return Columns((*before, *items), label, part)


def how_to_name(sought: Sought, what: str) -> str:
    """Return how somebody names the column that is meant, or nothing where nobody can."""
    if sought.named is None or what == "paths":
        return ""
    return NAME_LABELS if what == "labels" else NAME_TEXTS


def _without(
    columns: list[str],
    name: object,
    suffix: str,
    sought: Sought,
    wanted: tuple[str, ...],
    what: str,
) -> OvorError:
    """Return what to say of a table without a column that is wanted."""
    there, how = ", ".join(map(repr, columns[:8])), how_to_name(sought, what)
    if sought.named and sought.named[what == "labels"] is not None:
        return OvorError(
            f"{name} has no column {wanted[0]!r}, which was named as that of {what}: name one that "
            f"it has{f' {how}' if how else ''}: {there}."
        )
    otherwise = f", or name it {how}" if how else ""
    if suffix in (".jsonl", ".ndjson"):
        return OvorError(
            f"Line 1 of {name} says no {what}: give every line a {wanted[0]!r}{otherwise} (it has "
            f"{there})."
        )
    return OvorError(
        f"{name} has no column of {what}: give one of its columns the name {wanted[0]!r} in line 1"
        f"{otherwise} (it has {there})."
    )


def _row(line: Line, columns: Columns, name: object, sought: Sought) -> Row:
    number, values = line
    at = f"Line {number} of {name}"
    said = [cell for column in columns.items if (cell := _cell(values.get(column)))]
    if not said and not sought.may_be_empty:
        raise OvorError(f"{at} has no {sought.one}: add it, or remove the line.")
    label = _cell(values.get(columns.label)) if columns.label else ""
    if columns.label and not label:
        raise OvorError(f"{at} has no label: add it, or remove the line.")
    if sought.names == PATHS and ADDRESS.match(said[0]):
        raise OvorError(
            f"{at} names the address {said[0]}, and nothing is downloaded here: download the "
            "images first, and write their paths."
        )
    part = values.get(columns.part) if columns.part else None
    return Row(number, "\n".join(said), label, str(part or "").strip().casefold())


def _cell(cell: Any) -> str:
    """Return a cell as text, empty if it has none; whole numbers may be labels."""
    return str(cell).strip() if isinstance(cell, str | int) and not isinstance(cell, bool) else ""
