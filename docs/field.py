"""The field's table, run by run: docs/results/field-quickdraw.json; docs/field.md shows it.

python -m docs.field                         the runs that the file lacks, as `ovor grid field`
python -m docs.field --methods ranpac slca   does them; each is written down as it ends, so that it
                                             can be stopped, and continued on another machine
python -m docs.field --known FILE            first take runs of the same settings from a table that
                                             `ovor grid --json` wrote, all but the first seed's:
                                             their bytes are not in it

After them come a few runs that `ovor grid field` does not have: closed-form methods with as many
depths of the network as `analytic` reads, and `analytic` with its output alone, as they have it;
and methods without the part that their papers are about, by two seeds.

A run has the name that `ovor grid` gives its folder, which is made of all its settings: other
settings, such as a method tuned anew, are other runs.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from ovor.config import Run
from ovor.experiments.executors.local import on_this_machine
from ovor.experiments.grid import folder_of, run_on
from ovor.experiments.summary import as_markdown as as_tables
from ovor.experiments.summary import passes_of
from ovor.experiments.tables import Row, sections
from ovor.presets import settings

FILE = Path(__file__).parent / "results/field-quickdraw.json"
SEEDS = (0, 1, 2, 3, 4)
DEPTHS = {"analytic": 1, "loranpac": 4, "klda": 4, "randumb": 4, "fecam": 4, "anacp": 4}
# Of these the first seed alone: more depths take them minutes, and cost them points.
FIRST_ALONE = ("fecam", "anacp")
# At thirty times the rate adapters do move, and are as accurate on the development classes
# (embedded/tuning.json, later).
FASTER = {"ssiat": {"adapter_rate": 30.0, "sigma": 4.0}, "rsiat": {"adapter_rate": 30.0}}
# Methods without what their papers claim to help, in words and by options.
WITHOUT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("apt", "the newest vectors instead of their average over tasks", {"keep": 0.0}),
    ("ssiat", "old means left where they were", {"sigma": 0.0}),
    ("rsiat", "first features not steered", {"steer": 0.0}),
    ("rsiat", "later features not held", {"hold": 0.0, "orthogonal": 0.0}),
    ("ranpac", "nothing tuned", {"tuning": "none"}),
    ("ease", "a class's own adapter alone", {"others": 0.0}),
    ("randumb", "no random features", {"projection": 0}),
    ("fecam", "one covariance for all classes", {"covariance": "shared"}),
    ("anacp", "class means as prototypes", {"separation": 0.0}),
)
# Methods that have reported figures of a network that the first task tuned.
TUNED = ("fecam", "anacp")
WITHOUT_SEEDS = (0, 1)
Record = dict[str, Any]  # of a run: its figures
Records = dict[str, Record]  # by the run's name


def execute(run: Run, path: Path, _: Path | None) -> dict[str, Any]:
    """Do one run in a worker, without what only a report shows."""
    from ovor.experiments import runner  # brings torch
    from ovor.experiments.folder import Folder

    return runner.execute(run, Folder(path))


def measured(methods: list[str], seeds: list[int], out: Path, jobs: int) -> None:
    """Do the runs that are not written down, the first seed's before the next one's."""
    for seed in seeds:
        there = kept()
        todo = [row for row in rows_of(methods, seed) if named(row, seed) not in there]
        for row, _, result in run_on(on_this_machine(jobs, execute), todo, [seed], out):
            size = folder_of(out, row, seed).weights.stat().st_size
            keep({named(row, seed): record(row, result, size)})
            print(f"{named(row, seed)}: {result['metrics']['A_T']:.2f}", flush=True)


def rows_of(methods: list[str], seed: int) -> list[Row]:
    parts = sections("field", ["quickdraw"], [], methods)[1]
    left_out = FIRST_ALONE if seed else ()
    more = [row for row in depth_rows() if row.run.method not in left_out]
    if seed in WITHOUT_SEEDS:
        more += [row for pair in without_rows() for row in pair]
    asked = [row for row in more if not methods or row.run.method in methods]
    rows = [*(row for part in parts for row in part.rows), *asked]
    return list({named(row, seed): row for row in reversed(rows)}.values())[::-1]


def depth_rows() -> list[Row]:
    """Return the methods that read features, each with the depths that it has not by itself."""
    found = []
    for method, depths in DEPTHS.items():
        run = settings("quickdraw", method)
        said = "the output alone" if depths == 1 else f"{depths} depths"
        found.append(
            Row(f"{method}, {said}", replace(run, options={**run.options, "depths": depths}))
        )
    return found


def without_rows() -> list[tuple[Row, Row]]:
    """Return the methods of WITHOUT and TUNED, each without its part and with it."""
    found = []
    for method, said, options in WITHOUT:
        run = settings("quickdraw", method)
        changed = replace(run, options={**run.options, **options})
        found.append((Row(f"{method}, {said}", changed), Row(method, run)))
        if method in FASTER:
            run = replace(run, options={**run.options, **FASTER[method]})
            changed = replace(run, options={**run.options, **options})
            label = f"{method} with 30 times the rate"
            found.append((Row(f"{label}, {said}", changed), Row(label, run)))
    like = settings("quickdraw", "ranpac")
    steps = {"lr": like.lr, "schedule": like.schedule, "epochs": like.epochs}
    for method in TUNED:
        run = settings("quickdraw", method)
        tuned = replace(run, **steps, options={**run.options, "tuning": "adapter"})
        found.append((Row(f"{method}, nothing tuned", run), Row(f"{method}, tuned", tuned)))
    return found


def record(row: Row, result: dict[str, Any], size: int) -> Record:
    return {
        "A_T": round(result["metrics"]["A_T"], 3),
        "F_T": round(result["metrics"]["F_T"], 3),
        "seconds": result["seconds"],
        "core_seconds": result["core_seconds"],
        "bytes": size,
        "passes": passes_of(row.run, result["tasks"]),
        "learnable_parameters": result["learnable_parameters"],
        "backbone": result["backbone"]["sha256"],
    }


def named(row: Row, seed: int) -> str:
    return folder_of(Path(), row, seed).path.name


def kept() -> Records:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def keep(new: Records) -> None:
    FILE.write_text(json.dumps(dict(sorted((kept() | new).items())), indent=1) + "\n")


def of_table(path: Path) -> Records:
    """Return the runs of a table that `ovor grid --json` wrote."""
    found = {}
    for row in (row for part in json.loads(path.read_text())["sections"] for row in part["rows"]):
        for place, name in enumerate(row["runs"]):
            figures = {key: row[key][place] for key in ("A_T", "F_T", "seconds")}
            same = {key: row[key] for key in ("learnable_parameters", "backbone")}
            found[name] = {**figures, **same, "from": path.name}
    return found


def as_sections(found: Records) -> list[dict[str, Any]]:
    """Return the table as `ovor grid field` has it, of the runs that are written down.

    A method of which there is none, such as one that somebody adds, has no line.
    """
    parts = [
        {
            "title": part.title,
            "way": part.way,
            "rows": [as_row(row, found) for row in part.rows],
        }
        for part in sections("field", ["quickdraw"], [], [])[1]
    ]
    begun = {row["label"] for part in parts for row in part["rows"] if row["seeds"]}
    return [
        part | {"rows": [row for row in part["rows"] if row["label"] in begun]} for part in parts
    ]


def as_row(row: Row, found: Records) -> dict[str, Any]:
    names = {seed: name for seed in SEEDS if (name := named(row, seed)) in found}
    runs = [found[name] for name in names.values()]
    lists = {
        key: [run[key] for run in runs if key in run]
        for key in ("A_T", "F_T", "seconds", "core_seconds", "bytes")
    }
    passes = next((run["passes"] for run in runs if "passes" in run), None)
    return {
        "label": row.label,
        "runs": list(names.values()),
        "seeds": list(names),
        **lists,
        "passes": passes,
    }


def as_depths(found: Records) -> str:
    """Return a table of the same methods with one depth and with four."""
    plain = {row.label: row for row in sections("field", ["quickdraw"], [], [])[1][0].rows}
    lines = ["|  | its output alone | four depths |", "|---|---|---|"]
    for row in depth_rows():
        pair = [plain[row.run.method], row]
        cells = [of_seeds(as_row(one, found)["A_T"]) for one in pair]
        alone, several = reversed(cells) if DEPTHS[row.run.method] == 1 else cells
        lines.append(f"| {row.run.method} | {alone} | {several} |")
    return "\n".join(lines) + "\n"


def as_claims(found: Records) -> str:
    """Return a table of methods without a part, and what the part brings seed by seed."""
    lines = ["|  | without | with | gain |", "|---|---|---|---|"]
    for row, usual in without_rows():
        pairs = [
            (found[name]["A_T"], found[other]["A_T"])
            for seed in WITHOUT_SEEDS
            if (name := named(row, seed)) in found and (other := named(usual, seed)) in found
        ]
        if not pairs:
            lines.append(f"| {row.label} | ... | ... | ... |")
            continue
        gains = " and ".join(f"{whole - part:+.1f}" for part, whole in pairs)
        means = " | ".join(f"{fmean(values):.1f}" for values in zip(*pairs, strict=True))
        lines.append(f"| {row.label} | {means} | {gains} |")
    return "\n".join(lines) + "\n"


def of_seeds(values: list[float]) -> str:
    if not values:
        return "..."
    few = "" if len(values) == len(SEEDS) else f" ({len(values)} of {len(SEEDS)} seeds)"
    deviation = f" ± {pstdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{deviation}{few}"


def as_markdown(found: Records) -> str:
    """Return the table, and above it how much of it is done if not all is."""
    parts = as_sections(found)
    rows = [row for part in parts for row in part["rows"]]
    done, all_of_them = sum(len(row["seeds"]) for row in rows), len(rows) * len(SEEDS)
    said = (
        f"**Under way: {done} of {all_of_them} runs are done.** A figure without a deviation is of "
        "one seed.\n\n"
    )
    return (said if done < all_of_them else "") + as_tables(parts, "field")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/field"), help="folder of the runs")
    parser.add_argument("--methods", nargs="+", default=[], help="these rows alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--known", type=Path, help="a table with runs of the same settings")
    arguments = parser.parse_args()
    if arguments.known:
        own = {named(row, seed) for seed in SEEDS[1:] for row in rows_of([], seed)}
        keep({k: v for k, v in of_table(arguments.known).items() if k in own and k not in kept()})
    measured(arguments.methods, arguments.seeds, arguments.out, arguments.jobs)
    print(as_markdown(kept()))


if __name__ == "__main__":
    main()
