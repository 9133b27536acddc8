"""`make bench`: every part of the table, each figure beside its target.

Exits with 1 if a target is missed. --quick does fewer rounds, --only some of the parts.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Row

Part = Callable[[bool], Iterator[Row]]
PARTS = ("step", "memory", "evaluation", "npos", "input", "startup", "growth")


def part(name: str) -> Part:
    return import_module(f"benchmarks.{name}").measure  # type: ignore[no-any-return]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, about 2 minutes")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    console, rows, start = Console(), list[Row](), time.monotonic()
    for name in arguments.only:
        console.print(f"[dim]{time.monotonic() - start:4.0f} s  {name}[/dim]")
        rows += part(name)(arguments.quick)
    console.print(table(rows))
    console.print(f"{time.monotonic() - start:.0f} s on {machine()['processor']}")
    if arguments.json:
        content = {
            "machine": machine(),
            "quick": arguments.quick,
            "rows": [asdict(r) for r in rows],
        }
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    missed = [row for row in rows if row.met is False]
    for row in missed:
        console.print(f"[red]missed:[/red] {row.what}: {figure(row)}, wanted {target(row)}")
    return 1 if missed else 0


def table(rows: list[Row]) -> Table:
    out = Table()
    for column in ("measured", "against"):
        out.add_column(column)
    for column in ("median", "quartiles", "target", ""):
        out.add_column(column, justify="right")
    for row in rows:
        sign = {None: "", True: "[green]yes[/green]", False: "[red]no[/red]"}[row.met]
        low, high = (number(x) for x in row.spread)
        out.add_row(row.what, row.against, figure(row), f"{low} - {high}", target(row), sign)
    return out


def figure(row: Row) -> str:
    return f"{number(row.middle)} {row.unit}"


def target(row: Row) -> str:
    if row.at_least is not None:
        return f"at least {number(row.at_least)}"
    if row.at_most is not None:
        return f"at most {number(row.at_most)}"
    return f"aim {number(row.wish)}" if row.wish is not None else ""


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def asdict(row: Row) -> dict[str, Any]:
    low, high = row.spread
    return {**vars(row), "median": row.middle, "low": low, "high": high, "met": row.met}


def machine() -> dict[str, Any]:
    """In words, without names."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
