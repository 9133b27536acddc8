"""`make bench`: every part of the table, each figure beside its target."""

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

from benchmarks.harness import Row
from benchmarks.table import as_json, figure, for_terminal, target

PARTS = ("step", "memory", "evaluation", "npos", "input", "photos", "startup", "growth")
BY_NAME = ("compiled", "demo", "serving")  # measured if asked for
ELSEWHERE = ("shards", "store", "ranks", "device", "texts")  # asked for too; for other documents
Part = Callable[[bool], Iterator[Row]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures speed and memory side by side with what they are compared to. "
        "Exits with 1 if a target is missed.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, about 3 minutes")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*PARTS, *BY_NAME, *ELSEWHERE],
        default=PARTS,
        help="some of the parts",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the figures there too; parts not measured now stay",
    )
    arguments = parser.parse_args()
    console, start = Console(), time.monotonic()
    parts: dict[str, list[Row]] = {}
    for name in arguments.only:
        console.print(f"[dim]{time.monotonic() - start:4.0f} s  {name}[/dim]")
        parts[name] = list(part(name)(arguments.quick))
    rows = [row for found in parts.values() for row in found]
    seconds = time.monotonic() - start
    console.print(for_terminal(rows))
    console.print(f"{seconds:.0f} s, {torch.get_num_threads()} threads, {processor()}")
    if arguments.json:
        write(arguments.json, parts, arguments.quick)
    missed = [row for row in rows if row.met is False]
    for row in missed:
        console.print(f"[red]missed:[/red] {row.what.strip()}: {figure(row)}, {target(row)} wanted")
    return 1 if missed else 0


def write(path: Path, parts: dict[str, list[Row]], quick: bool) -> None:
    """The parts that were measured; others of the same mode that the file has stay."""
    content = json.loads(path.read_text()) if path.exists() else {}
    if content.get("quick") != quick:
        content = {"parts": {}}
    found = {name: list(map(as_json, rows)) for name, rows in parts.items()}
    merged = content["parts"] | found
    # Not all parts need be of one machine: each is compared with what ran beside it.
    before = content.get("machines") or dict.fromkeys(content["parts"], content.get("machine"))
    machines = before | dict.fromkeys(found, machine())
    ordered = {name: merged[name] for name in [*PARTS, *BY_NAME, *ELSEWHERE] if name in merged}
    content = {
        "quick": quick,
        "machines": {name: machines[name] for name in ordered},
        "parts": ordered,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def part(name: str) -> Part:
    return import_module(f"benchmarks.{name}").measure  # type: ignore[no-any-return]


def machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
