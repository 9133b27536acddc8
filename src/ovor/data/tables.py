"""A table of paths and labels: CSV, TSV or JSONL, as spreadsheets and scripts write it.

What is wrong with it is said with the number of the line.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ovor.data.formats import ADDRESS
from ovor.errors import OvorError

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
PATHS = ("path", "file", "image", "filename", "file_name", "filepath", "file_path", "image_path")
LABELS = ("label", "class", "category", "class_name", "label_name")
PARTS = ("split", "subset", "partition")  # columns that say which rows are for testing
Line = tuple[int, Mapping[str, Any]]  # its number, and its values by column


@dataclass(frozen=True)
class Row:
    """An image's path and label, as a line of the table says them."""

    line: int
    path: str
    label: str
    part: str
    """such as train or test; empty if the table has no such column"""


@dataclass(frozen=True)
class Columns:
    path: str
    label: str
    part: str | None


def is_table(name: str) -> bool:
    """Tell by its name whether a file is a table that is read here."""
    return name.lower().endswith(TABLES)


def read_table(content: bytes, name: object, suffix: str) -> list[Row]:
    """Return the rows of a table; `name` is for sentences about it."""
    lines = _lines(_text(content, name), name, suffix)
    first = next(lines, None)
    if first is None:
        raise OvorError(f"{name} has no rows: write one for each image, below the column names.")
    columns = _columns(first[1], name, suffix)
    rows = [_row(first, columns, name)]
    rows += [_row(line, columns, name) for line in lines]
    return rows


def has_both_columns(content: bytes, suffix: str) -> bool:
    """Tell whether a file is a table of paths and labels, and not one of something else."""
    try:
        first = next(_lines(_text(content, ""), "", suffix), None)
        return first is not None and bool(_columns(first[1], "", suffix))
    except OvorError:
        return False


def _text(content: bytes, name: object) -> str:
    try:
        return content.decode("utf-8-sig")  # spreadsheets put a mark before the text
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise OvorError(f"Line {line} of {name} is not UTF-8: save the table as UTF-8.") from error


def _lines(text: str, name: object, suffix: str) -> Iterator[Line]:
    """Yield the lines that are not blank, with their values by column."""
    return _objects(text, name) if suffix in (".jsonl", ".ndjson") else _cells(text, name, suffix)


def _objects(text: str, name: object) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise OvorError(
                f"Line {number} of {name} is not JSON: write one object a line, such as "
                '{"path": "a.jpg", "label": "cat"}.'
            ) from error
        if not isinstance(value, dict):
            raise OvorError(
                f"Line {number} of {name} is no object: write it as "
                '{"path": "a.jpg", "label": "cat"}.'
            )
        yield number, {_plain(key): cell for key, cell in value.items()}


def _cells(text: str, name: object, suffix: str) -> Iterator[Line]:
    head = text.split("\n", 1)[0]
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


def _plain(column: str) -> str:
    return column.strip().casefold()


def _columns(first: Mapping[str, Any], name: object, suffix: str) -> Columns:
    """Find the columns of paths and labels by their names."""

    def found(wanted: tuple[str, ...], what: str) -> str:
        here = [column for column in first if column in wanted]
        if not here:
            raise OvorError(
                f"{name} has no column of {what}: give one of its columns the name "
                f"{wanted[0]!r} in line 1 (it has {', '.join(map(repr, list(first)[:8]))})."
                if suffix not in (".jsonl", ".ndjson")
                else f"Line 1 of {name} says no {what}: give every line a {wanted[0]!r}."
            )
        if len(here) > 1:
            raise OvorError(
                f"{name} has the columns {here[0]!r} and {here[1]!r}, and either may be the "
                f"{what}: rename the one that is not."
            )
        return here[0]

    part = next((column for column in first if column in PARTS), None)
    return Columns(found(PATHS, "paths"), found(LABELS, "labels"), part)


def _row(line: Line, columns: Columns, name: object) -> Row:
    number, values = line
    at = f"Line {number} of {name}"
    path = _value(values.get(columns.path), lambda: f"{at} has no path: add it, or remove the line")
    label = _value(
        values.get(columns.label), lambda: f"{at} has no label: add it, or remove the line"
    )
    if ADDRESS.match(path):
        raise OvorError(
            f"{at} names the address {path}, and nothing is downloaded here: download the images "
            "first, and write their paths."
        )
    part = values.get(columns.part) if columns.part else None
    return Row(number, path, label, str(part or "").strip().casefold())


def _value(cell: Any, sentence: Callable[[], str]) -> str:
    """Return a path or a label as text; whole numbers may be labels."""
    text = str(cell).strip() if isinstance(cell, str | int) and not isinstance(cell, bool) else ""
    if not text:
        raise OvorError(f"{sentence()}.")
    return text
