"""Find the runs that a report is about, and decide which of them are compared with each other.

Runs of the same data, tasks and backbone are a group; those that differ in the seed alone are one
row of it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from ovor.config import Run
from ovor.errors import OvorError, explain
from ovor.experiments import tables
from ovor.experiments.diagnostics import read_diagnostics
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.scenarios import with_arrival
from ovor.experiments.tables import Figures
from ovor.presets import SETTINGS, VOR_PRESETS, in_scenario, settings, vor_preset

SCHEMA = 1  # of result.json
Matrix = list[list[float | None]]


@checked(frozen=True)
class Result:
    """The part of result.json that a report reads, checked before anything is computed."""

    method: str
    data: str
    seed: int
    tasks: list[int]
    accuracy: Matrix
    accuracy_task_id_given: Matrix
    metrics: dict[str, float]
    seconds: float
    learnable_parameters: int
    device: str
    precision: str
    backbone: dict[str, str]
    versions: dict[str, Any]

    def __post_init__(self) -> None:
        sides = {len(self.tasks), len(self.accuracy), *map(len, self.accuracy)}
        sides |= {len(self.accuracy_task_id_given), *map(len, self.accuracy_task_id_given)}
        if len(sides) != 1 or not self.tasks:
            raise ValueError("the matrices have another number of tasks")
        if not {"A_T", "F_T"} <= self.metrics.keys():
            raise ValueError("A_T or F_T is missing")


RESULT = TypeAdapter(Result)


@dataclass(frozen=True)
class Finished:
    """A run that is done: its folder, its settings and its result.json."""

    folder: Folder
    run: Run
    result: dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One method over its seeds, with the paper's A_T and F_T."""

    label: str
    runs: list[Finished]
    paper: Figures = (None, None)
    paper_std: Figures = (None, None)

    @property
    def family(self) -> str:
        """The name that the method has with VOR and without."""
        return self.label.removesuffix("+vor")

    @property
    def results(self) -> list[dict[str, Any]]:
        return [one.result for one in self.runs]

    @cached_property
    def diagnostics(self) -> list[dict[str, Any] | None]:
        """What closeup.json holds of each run, or None where it could not be made."""
        return [read_diagnostics(one.folder) for one in self.runs]


@dataclass(frozen=True)
class Group:
    """Methods that were run in the same setting, and may be compared."""

    title: str
    rows: list[Row]
    where: str  # the setting of the paper's figures
    comparable: bool  # whether it is this group's


def find(paths: Sequence[Path]) -> tuple[list[Finished], list[str]]:
    """Return all finished runs in these folders, and notes on what is left out."""
    folders = dict.fromkeys(folder for path in paths for folder in run_folders(path))
    finished = [path for path in folders if Folder(path).finished]
    if not finished:
        raise OvorError(
            f"No run in {' or '.join(map(str, paths))} is finished: ovor run --resume --out "
            f"{next(iter(folders))} continues it."
        )
    notes = []
    if len(finished) < len(folders):
        names = [path.name for path in folders if path not in finished]
        notes.append(f"Not finished yet, and left out: {listing(names)}.")
    return [read(Folder(path)) for path in finished], notes


def run_folders(path: Path) -> list[Path]:
    """Return the folder itself if a run is in it, or else its sub-folders that have one."""
    if path.is_file():
        raise OvorError(
            f"{path} is a file, and a report is about the result folders of runs; about a model, "
            "ovor evaluate MODEL IMAGES --report FILE.html makes one."
        )
    if not path.is_dir():
        raise OvorError(
            f"There is no folder {path}: give the result folder of a run, or a folder of them."
        )
    if is_run(path):
        return [path.resolve()]
    found = [folder.resolve() for folder in sorted(path.iterdir()) if is_run(folder)]
    if not found:
        raise OvorError(f"There is no run in {path}: make one with ovor run --out {path}/NAME.")
    return found


def is_run(path: Path) -> bool:
    return Folder(path).run_file.is_file() or Folder(path).result_file.is_file()


def read(folder: Folder) -> Finished:
    """Read a finished run, and check all that a report needs of it."""
    path = folder.result_file
    mend = "put a whole copy in its place, or remove the folder and run it again"
    try:
        result = json.loads(path.read_bytes())
    except ValueError:
        raise OvorError(f"{path} is damaged, it is not JSON: {mend}.") from None
    schema = result.get("schema") if isinstance(result, dict) else None
    if schema != SCHEMA:
        raise OvorError(
            f"{path} has schema {schema!r}, and this version of ovor reads {SCHEMA}: use the "
            "version that wrote it."
        )
    try:
        RESULT.validate_python(result)
    except ValidationError as error:
        raise OvorError(f"{path} is damaged ({explain(error)}): {mend}.") from None
    return Finished(folder, read_run(folder.run_file), result)


def listing(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def group(found: Iterable[Finished]) -> tuple[list[Group], list[str]]:
    """Put runs that can be compared together; the notes name runs that are there twice."""
    rows, twice = by_row(found)
    together: dict[tuple[Any, ...], list[list[Finished]]] = {}
    for runs in rows:
        together.setdefault(setting(runs[0]), []).append(runs)
    backbones = {runs[0].result["backbone"]["sha256"] for runs in rows}
    groups = [one_group(part, len(backbones) > 1) for part in together.values()]
    notes = []
    if twice:
        notes.append(f"The same run again, with the same seed, and left out: {listing(twice)}.")
    return groups, notes


def by_row(found: Iterable[Finished]) -> tuple[list[list[Finished]], list[str]]:
    """Put runs that differ in the seed alone together, by seed.

    Of equal runs one is kept, with its drift if one of them has it; the others are named.
    """
    rows: list[tuple[Run, dict[int, Finished]]] = []
    twice = []
    for one in sorted(found, key=lambda one: not one.folder.drift_file.exists()):
        key = alike(one.run)
        row = next((runs for other, runs in rows if other == key), {})
        if not row:
            rows.append((key, row))
        if one.run.seed in row:
            twice.append(one.folder.path.name)
        row.setdefault(one.run.seed, one)
    ordered = sorted((row for _, row in rows), key=lambda row: rank(next(iter(row.values())).run))
    return [[row[seed] for seed in sorted(row)] for row in ordered], twice


def alike(run: Run) -> Run:
    """Return the settings without those in which the runs of a row may differ."""
    return replace(run.essence, seed=0, threads=0, device="auto", keep="last")


def rank(run: Run) -> tuple[Any, ...]:
    """Return a sort key for the order of the tables: prompts first, each without and with VOR."""
    from ovor.learners import METHODS

    known = METHODS.index(run.method) if run.method in METHODS else len(METHODS)
    return known, run.method, run.vor is not None, variant(run)[0]


def setting(one: Finished) -> tuple[Any, ...]:
    """Return what all runs of a group have in common."""
    run = one.run
    sizes = run.task_sizes or run.tasks
    return run.data, sizes, run.order, run.arrival, one.result["backbone"]["sha256"]


def one_group(rows: list[list[Finished]], name_backbone: bool) -> Group:
    first = rows[0][0]
    each = [runs[0].run for runs in rows]
    named = [(label, run.name, run) for label, run in zip(distinct(each), each, strict=True)]
    part = tables.with_backbone(tables.section(first.run.data, first.run.tasks, named))
    if first.run.task_sizes:
        sizes = ", ".join(map(str, first.run.task_sizes))
        title = f"{first.run.data}, tasks of {sizes} classes"
        part = replace(part, title=title, comparable=False)
    part = with_arrival(part)
    title = part.title
    if name_backbone:
        backbone = first.result["backbone"]
        title += f", backbone {backbone['name']} ({backbone['sha256'][:8]})"
    pairs = zip(part.rows, rows, strict=True)
    shown = [Row(row.label, runs, row.paper, row.paper_std) for row, runs in pairs]
    return Group(title, shown, part.where, part.comparable)


def distinct(runs: list[Run]) -> list[str]:
    """Name each run by its method, and by what is special about it if several have that name."""
    count = Counter(run.name for run in runs)
    again: Counter[str] = Counter()
    names = []
    for run in runs:
        special, words = variant(run) if count[run.name] > 1 else (0, "")
        name = f"{run.name}: {words}" if special else run.name
        again[name] += 1
        names.append(f"{name} ({again[name]})" if again[name] > 1 else name)
    return names


def variant(run: Run) -> tuple[int, str]:
    """Return 0 for the data set's own settings, 1 for a named variant, 2 for another; its words."""
    if run.data.partition(":")[0] not in SETTINGS:
        return 2, "other data"
    from ovor.learners import in_full

    plain = settings(run.data, run.name, tasks=run.tasks)
    plain = in_scenario(plain, run.scenario, run.imbalance, run.label_noise, run.shift)
    usual, own = (flat(asdict(in_full(one))) for one in (plain, alike(run)))
    changed = {
        name: value
        for name, value in own.items()
        if usual.get(name) != value and name not in ("seed", "workers", "backbone", "precision")
    }
    if not changed:
        return 0, ""
    base = SETTINGS[run.data.partition(":")[0]][1]
    for name, words in VOR_PRESETS.items():
        if run.vor == vor_preset(name, base) and all(key.startswith("vor.") for key in changed):
            return 1, words
    return 2, listing([f"{name} {value}" for name, value in changed.items()], 3)


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as one level, named like vor.weight."""
    found: dict[str, Any] = {}
    for name, part in value.items():
        inside = isinstance(part, dict)
        found |= flat(part, f"{prefix}{name}.") if inside else {prefix + name: part}
    return found
