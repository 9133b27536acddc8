"""The table of figures beside their targets: in a terminal, as JSON, and in docs/performance.md."""

from typing import Any

from rich.table import Table

from benchmarks.harness import Row

HEADER = ("measured", "against", "median", "quartiles", "target", "met")
MET = {None: "", True: "yes", False: "**no**"}


def cells(row: Row) -> tuple[str, ...]:
    low, high = (number(x) for x in row.spread)
    spread = f"{low} to {high}" if len(row.samples) > 1 else ""
    return (row.what, row.against, figure(row), spread, target(row), MET[row.met])


def figure(row: Row) -> str:
    return f"{number(row.middle)} {row.unit}"


def target(row: Row) -> str:
    if row.at_least is not None:
        return f"at least {number(row.at_least)}"
    if row.at_most is not None:
        return f"at most {number(row.at_most)}"
    return f"aim {number(row.wish)}" if row.wish is not None else ""


def number(x: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def for_terminal(rows: list[Row]) -> Table:
    table = Table()
    for column in HEADER:
        table.add_column(column, justify="left" if column in HEADER[:2] else "right")
    for row in rows:
        table.add_row(*cells(row))
    return table


def as_markdown(rows: list[Row]) -> str:
    lines = [HEADER, ("---",) * len(HEADER), *map(cells, rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_json(row: Row) -> dict[str, Any]:
    low, high = row.spread
    return {**vars(row), "median": row.middle, "quartiles": [low, high], "met": row.met}


def from_json(content: dict[str, Any]) -> Row:
    fields = {name: content[name] for name in Row.__dataclass_fields__}
    return Row(**{**fields, "samples": tuple(fields["samples"])})
