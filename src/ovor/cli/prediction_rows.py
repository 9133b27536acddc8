"""How `ovor predict` writes rows: aligned on a terminal, with tabs in a pipe, or as JSON lines."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.markup import escape

from ovor.data.class_names import UNKNOWN
from ovor.terminal.console import Terminal
from ovor.terminal.guard import visible

SHORT = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})
Row = dict[str, Any]  # what is said of an item: its prediction, or its error


def as_lines(rows: Iterable[Row], ahead: list[str], errors_aside: bool, key: str) -> Iterator[Row]:
    """Print rows as they come, those of errors on stderr if so asked, and yield each when printed.

    `key` is that of the items' names. On a terminal the first column is as wide as the names
    `ahead`, and wider once one needs it.
    """
    console = Terminal()
    width = max(len(shown(name)) for name in ahead)
    for row in rows:
        if errors_aside and "error" in row:
            print(row["error"], file=sys.stderr)
        elif console.is_terminal:
            width = max(width, len(shown(row[key])))
            console.print(aligned(row, width, key), highlight=False, soft_wrap=True)
        else:
            print(tabbed(row, key), flush=True)
        yield row


def as_json_lines(rows: Iterable[Row]) -> Iterator[Row]:
    """Print each row as a line of JSON as it comes, and yield it."""
    for row in rows:
        print(json.dumps(row), flush=True)
        yield row


def shown(text: str) -> str:
    """Return a text on one line, with what breaks lines or columns written out."""
    return visible(text.translate(SHORT), "")


def tabbed(row: Row, key: str) -> str:
    """Return a row for a pipe: the item, its label, then classes and confidences.

    Where an image cannot be read there is no label, and then the reason.
    """
    columns = [row[key], row.get("label", "")]
    if "error" in row:
        columns.append(row["error"])
    for best in row.get("best", ()):
        columns += [best["class"], f"{best['confidence']:.4f}"]
    return "\t".join(map(shown, columns))


def aligned(row: Row, width: int, key: str) -> str:
    """Return a row for a terminal, in rich's markup."""
    name = escape(f"{shown(row[key]):<{width}}")
    if "error" in row:
        return f"{name}  [red]{escape(row['error'])}[/red]"
    names = [escape(shown(best["class"])) for best in row["best"]]
    if row["unknown"]:  # whose confidences would say how sure it is of what it is not
        nearest = f"– most like {', '.join(names)}"  # noqa: RUF001
        return f"{name}  [yellow]{UNKNOWN}[/yellow] [dim]{nearest}[/dim]"
    shares = [f"{100 * best['confidence']:.1f} %" for best in row["best"]]
    first, *others = [f"{name} {share}" for name, share in zip(names, shares, strict=True)]
    rest = f"  [dim]{', '.join(others)}[/dim]" if others else ""
    return f"{name}  [bold]{first}[/bold]{rest}"
