"""The data behind every chart: flat records, which are also what the chart's CSV file holds."""

import json
from collections.abc import Iterator
from math import isfinite
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ovor.experiments.drift import MEASURES
from ovor.experiments.summary import changes as changes_of
from ovor.metrics import wilson
from ovor.report.classes import TASK_NAMES, names_of, task_classes, task_images
from ovor.report.numbers import METRICS
from ovor.report.runs import Finished, Row, listing
from ovor.report.timing import PHASES, seconds_by_phase
from ovor.report.vega import Records

# By their names in closeup.json, in numbers.py and in drift.json.
ENERGY_WORDS = {
    "own": "its own test examples",
    "outliers": "virtual outliers",
    "earlier": "earlier tasks' test examples",
    "later": "later tasks' test examples",
}
PLANE_WORDS = {"features": "feature", "boundary": "boundary sample", "outliers": "outlier"}
ERROR_WORDS = {
    "errors_between": "another task's class",
    "errors_within": "its own task, wrong class",
}
DRIFT_WORDS = {
    "prompt": "prompt (cosine)",
    "prompt_centered": "prompt, centred (cosine)",
    "cosine": "features (cosine)",
    "cka_linear": "features (linear CKA)",
    "cka_kernel": "features (kernel CKA)",
}
TAUS = ("tau current", "tau outlier")
MERGED = 2  # bins of closeup.json in one of the picture, or a task's few images make it ragged
MOST_POINTS = 12_000  # in the planes of all methods of a page


def rounded(value: float, digits: int = 3) -> float | None:
    """Round a number; None stands for NaN, such as the CKA of a single image, as JSON has none."""
    return round(float(value), digits) if isfinite(value) else None


def named(row: Row) -> dict[str, Any]:
    """Return the columns by which a reader chooses a method, with VOR and without, and tells it."""
    return {"family": row.family, "method": row.label}


def extremes(values: NDArray[np.float64]) -> dict[str, float | None]:
    return {"low": rounded(values.min()), "high": rounded(values.max())}


def differences(found: Records) -> Records:
    """Return one record for each comparison and metric."""
    return [
        {
            "what": f"{name}, with VOR against without"
            if one["kind"] == "VOR"
            else f"{name}, against {one['against']}",
            "method": one["method"],
            "against": one["against"],
            **{key: one[name][key] for key in ("mean", "low", "high", "seeds")},
        }
        for one in found
        for name in METRICS
    ]


def curves(rows: list[Row]) -> Records:
    """Return the mean accuracy over the tasks so far, after each, and what guessing would give.

    With least and most over seeds; of one seed, with the interval that so many images leave.
    """
    found = []
    tasks = task_classes(rows)
    most = max(len(result["tasks"]) for row in rows for result in row.results)
    for row in rows:
        after = np.nanmean(matrices(row), axis=2).T
        first = 1 if len(after) > 1 else most  # all tasks at once: that is at the end
        sizes = np.cumsum(row.results[0]["tasks"]).tolist()
        images = task_images(row.runs[0], row.diagnostics[0]) if len(row.runs) == 1 else None
        for number, (task, values) in enumerate(enumerate(after, first)):
            record = {"method": row.label, "task": task, "accuracy": rounded(values.mean())}
            record |= interval(values.mean(), sum(images[: number + 1])) if images else {}
            if not images:
                record |= extremes(values)
            record["guessing"] = rounded(100 / sizes[number])
            found.append({**record, **classes_in(tasks, task - 1)})
    return found


def interval(percent: float, images: int) -> dict[str, float | None]:
    low, high = wilson(percent / 100 * images, images)
    return {"low": rounded(low), "high": rounded(high)}


def classes_in(tasks: list[list[str]] | None, task: int) -> dict[str, str]:
    """Return a column that names the classes of a task, if all runs have the same in it."""
    return {"classes": f"{listing(tasks[task], TASK_NAMES)}"} if tasks else {}


def matrices(row: Row) -> NDArray[np.float64]:
    """Return the accuracies of every run: seed, after task, on task."""
    return np.array([result["accuracy"] for result in row.results], dtype=float)


def matrix(rows: list[Row]) -> Records:
    """Return the accuracy on every task after every task, mean over seeds."""
    tasks = task_classes(rows)
    return [
        {
            **named(row),
            "after task": t + 1,
            "on task": i + 1,
            **(classes_in(tasks, i) if len(row.results[0]["tasks"]) > 1 else {}),
            "accuracy": rounded(value, 2),
        }
        for row in rows
        for t, values in enumerate(matrices(row).mean(0))
        for i, value in enumerate(values[: t + 1])
    ]


def confusion(rows: list[Row]) -> Records:
    """Return the percent of a task's test images taken for each task's, mean over seeds."""
    found = []
    classes = task_classes(rows)
    for row in rows:
        counts = np.array([look["confusion"] for look in row.diagnostics if look], dtype=float)
        if not len(counts) or len(counts[0]) < 2:
            continue
        shares = (counts / counts.sum(axis=2, keepdims=True)).mean(0)
        for (true, predicted), share in np.ndenumerate(shares):
            tasks = {"true task": true + 1, "predicted task": predicted + 1}
            own = classes_in(classes, true)
            found.append({**named(row), **tasks, **own, "percent": rounded(100 * share, 2)})
    return found


def errors(table: Records) -> Records:
    return [
        {"method": row["method"], "taken for": words, "percent": rounded(row[kind], 2)}
        for row in table
        if row["errors"] is not None
        for kind, words in ERROR_WORDS.items()
    ]


def first_diagnostics(rows: list[Row], part: str) -> Iterator[tuple[Row, Finished, dict[str, Any]]]:
    """Yield each row's first run that was measured, if its diagnostics have the part asked for.

    Energies and planes are of one run each.
    """
    for row in rows:
        pairs = zip(row.runs, row.diagnostics, strict=True)
        run, look = next(((run, look) for run, look in pairs if look), (row.runs[0], None))
        if look and look[part] is not None:
            yield row, run, look


def energies(rows: list[Row]) -> Records:
    """Return each kind's shares by energy, in bins that a run's kinds share, then VOR's limits."""
    found: Records = []
    for row, _, look in first_diagnostics(rows, "energies"):
        low, high = look["energies"]["low"], look["energies"]["high"]
        for kind, fine in look["energies"]["counts"].items():
            counts = np.add.reduceat(fine, range(0, len(fine), MERGED)).tolist()
            edges = np.linspace(low, high, len(counts) + 1)
            for start, end, count in zip(edges, edges[1:], counts, strict=False):
                percent = rounded(100 * count / max(1, sum(counts)), 2)
                place = {"of": ENERGY_WORDS[kind], "energy": rounded((start + end) / 2)}
                found.append({**named(row), **place, "percent": percent})
    return found + taus(rows)


def taus(rows: list[Row]) -> Records:
    """Return where VOR wants energies: the task's own below one limit, outliers above the other."""
    found = []
    for row, run, look in first_diagnostics(rows, "energies"):
        vor = run.run.vor
        if not vor:
            continue
        classes = run.result["tasks"][look["middle_task"]]
        shift = np.log(20 / classes) if vor.tau_outlier_relative else 0.0
        limits = (vor.tau_current, rounded(vor.tau_outlier + shift))
        for name, value in zip(TAUS, limits, strict=True):
            found.append({**named(row), "of": name, "energy": value, "percent": None})
    return found


def energy_means(rows: list[Row]) -> Records:
    """Return the mean energy of each kind, one record a method."""
    found = []
    for row, _, look in first_diagnostics(rows, "energies"):
        means = look["energies"]["means"].items()
        found.append({"method": row.label, **{ENERGY_WORDS[kind]: mean for kind, mean in means}})
    return found


def plane(rows: list[Row]) -> Records:
    """Return points of each kind, evenly chosen so that all methods together are not too many."""
    found = []
    each = max(20, MOST_POINTS // (3 * len(rows)))  # of a kind
    for row, run, look in first_diagnostics(rows, "plane"):
        names = names_of(run, look)
        start = sum(run.result["tasks"][: look["middle_task"]])
        share = f"{100 * sum(look['plane']['shares']):.0f} % of the variance"
        for kind in ("outliers", "features", "boundary"):  # later ones are drawn on top
            points = look["plane"][kind]
            for i in range(0, len(points), -(-len(points) // each) or 1):
                label = look["plane"]["labels"][i] if kind == "features" else None
                if label is not None:
                    label = names[start + label] if names else f"class {start + label + 1}"
                x, y = (rounded(part, 2) for part in points[i])
                point = {"kind": PLANE_WORDS[kind], "class": label, "x": x, "y": y}
                found.append({**named(row), **point, "shown": share})
    return found


def changes(rows: list[Row]) -> Records:
    """Return each task's accuracy with the task given: at the end minus when it was learned."""
    found = []
    tasks = task_classes(rows)
    for row in rows:
        values = np.array([changes_of(result) for result in row.results])
        for t, column in enumerate(values.T):
            record = {"method": row.label, "task": t + 1, "change": rounded(column.mean())}
            found.append({**record, **extremes(column), **classes_in(tasks, t)})
    return found


def drift(rows: list[Row]) -> Records:
    """Return similarities before and after each task, of runs that kept every task's weights."""
    found = []
    for row in rows:
        known = [drift for drift in map(read_drift, row.runs) if drift]
        for name in MEASURES if known else ():
            for t, column in enumerate(np.array([drift[name] for drift in known]).T):
                measured = {"measure": DRIFT_WORDS[name], "task": t + 2}
                percent = rounded(column.mean(), 4)
                found.append({"method": row.label, **measured, "percent": percent})
    return found


def read_drift(run: Finished) -> dict[str, list[float]] | None:
    """Return what drift.json holds, or None if it is missing or incomplete."""
    try:
        found = json.loads(run.folder.drift_file.read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and all(name in found for name in MEASURES)
    return found if whole else None


def costs(table: Records) -> Records:
    return [
        {
            "method": row["method"],
            "learned parameters": row["learnable_parameters"],
            "multiply-accumulates": row["macs"],
            "A_T": rounded(row["A_T_mean"]),
        }
        for row in table
    ]


def times(rows: list[Row]) -> Records:
    """Return the seconds of every phase, mean over seeds; a phase of no time is left out."""
    found = []
    for row in rows:
        each = [seconds_by_phase(one.folder, one.run) for one in row.runs]
        known = [seconds for seconds in each if seconds]
        for phase in PHASES if known else ():
            mean = rounded(fmean(seconds[phase] for seconds in known), 2)
            if mean:
                found.append({"method": row.label, "phase": phase, "seconds": mean})
    return found
