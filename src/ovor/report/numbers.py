"""The numbers of a group: its rows, how they differ, and the table behind every chart.

A chart's table is a list of flat records, which is also what its CSV file holds.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import fmean
from typing import Any

import numpy as np

from ovor.errors import OvorError
from ovor.experiments.diagnostics import read_diagnostics
from ovor.experiments.drift import MEASURES
from ovor.experiments.summary import changes
from ovor.presets import ALIASES
from ovor.report.runs import Finished, Group, Row
from ovor.report.statistics import Difference, paired
from ovor.report.timing import PHASES, seconds_by_phase

Records = list[dict[str, Any]]
METRICS = ("A_T", "F_T")
KINDS = {  # in closeup.json -> in words
    "own": "its own test images",
    "outliers": "virtual outliers",
    "earlier": "earlier tasks' test images",
    "later": "later tasks' test images",
}
DRIFT_WORDS = {
    "prompt": "prompt (cosine)",
    "prompt_centered": "prompt, centred (cosine)",
    "cosine": "features (cosine)",
    "cka_linear": "features (linear CKA)",
    "cka_kernel": "features (kernel CKA)",
}
MERGED = 2  # bins of a closeup in one of the picture, or a task's few images make it ragged
MOST_POINTS = 12_000  # in the planes of all methods of a page


@dataclass(frozen=True)
class Seen:
    """A row with its closeups, where they could be made."""

    row: Row
    closeups: list[dict[str, Any] | None]  # by run

    @property
    def label(self) -> str:
        return self.row.label


def look_up(group: Group) -> list[Seen]:
    return [Seen(row, [read_diagnostics(run.folder) for run in row.runs]) for row in group.rows]


# --- the table -------------------------------------------------------------------------------


def facts(group: Group) -> dict[str, str]:
    """What was run, on what and with what; where runs differ, all that there is."""
    runs = [one for row in group.rows for one in row.runs]

    def each(tell: Callable[[Finished], object]) -> str:
        return ", ".join(dict.fromkeys(str(tell(one)) for one in runs))

    sizes = max((one.result["tasks"] for one in runs), key=len)
    return {
        "methods": ", ".join(row.label for row in group.rows),
        "data": each(lambda one: one.run.data),
        "tasks": f"{len(sizes)}, of {spans(sizes)} classes",
        "seeds": spans(sorted({one.run.seed for one in runs}), "and"),
        "backbone": each(
            lambda one: (
                f"{one.result['backbone']['name']} (sha256 {one.result['backbone']['sha256'][:12]})"
            )
        ),
        "epochs per task": spans(sorted({one.run.epochs for one in runs}), "or"),
        "device": each(lambda one: device(one.result)),
        "versions": each(lambda one: versions(one.result["versions"])),
        "runs": f"{len(runs)}, {minutes(runs):.0f} minutes of computing",
    }


def device(result: dict[str, Any]) -> str:
    many = int(result.get("processes", 1))
    return f"{result['device']}, {result['precision']}" + f", {many} processes" * (many > 1)


def minutes(runs: list[Finished]) -> float:
    return sum(float(one.result["seconds"]) for one in runs) / 60


def spans(numbers: Iterable[int], last: str = "or") -> str:
    words = [str(number) for number in dict.fromkeys(numbers)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def versions(found: dict[str, Any]) -> str:
    return " ".join(f"{name} {number}" for name, number in found.items() if name != "threads")


def table(seen: list[Seen]) -> Records:
    return [table_row(one) for one in seen]


def table_row(one: Seen) -> dict[str, Any]:
    row, results = one.row, [run.result for run in one.row.runs]
    found: dict[str, Any] = {"method": row.label, "seeds": [run.run.seed for run in row.runs]}
    for number, name in enumerate(METRICS):
        values = [result["metrics"][name] for result in results]
        found[name] = values
        found[f"{name}_mean"], found[f"{name}_std"] = float(np.mean(values)), float(np.std(values))
        found[f"{name}_paper"] = row.paper[number]
        found[f"{name}_paper_std"] = row.paper_std[number]
    found["learnable_parameters"] = results[0]["learnable_parameters"]
    found["macs"] = next((look["macs"] for look in one.closeups if look), None)
    found["seconds"] = fmean(result["seconds"] for result in results)
    found |= errors(one)
    return found


def errors(one: Seen) -> dict[str, float | None]:
    """Of the test images after the last task, in percent: wrong between and within tasks.

    Every image counts the same, unlike in A_T, where every task does.
    """
    names = ("errors", "errors_between", "errors_within", "errors_between_share")
    looks = [look for look in one.closeups if look]
    if not looks or len(looks[0]["right"]) < 2:
        return dict.fromkeys(names)
    between, within = [], []
    for look in looks:
        counts = np.array(look["confusion"])
        same = int(np.trace(counts))
        between.append(100 * (1 - same / counts.sum()))
        within.append(100 * (same - sum(look["right"])) / counts.sum())
    b, w = float(np.mean(between)), float(np.mean(within))
    return dict(zip(names, (b + w, b, w, 100 * b / (b + w) if b + w else None), strict=True))


def differences(group: Group, against: str | None) -> Records:
    """Each row with VOR against the one without, then every row against the reference."""
    rows = {row.label: row for row in group.rows}
    reference = reference_of(group, against)
    pairs = [(row.label, row.family) for row in group.rows if row.family != row.label]
    found = [compare("VOR", rows[a], rows[b]) for a, b in pairs if b in rows]
    done = {(a, b) for a, b in pairs}
    others = [name for name in rows if name != reference and (name, reference) not in done]
    found += [compare("reference", rows[name], rows[reference]) for name in others]
    return [record for record in found if record is not None]


def reference_of(group: Group, against: str | None) -> str:
    """The row that is asked for; the first where there is no such row."""
    labels = [row.label for row in group.rows]
    name = ALIASES.get(against, against) if against else None
    return name if name in labels else labels[0]


def check_reference(groups: list[Group], against: str | None) -> None:
    labels = list(dict.fromkeys(row.label for group in groups for row in group.rows))
    if against is not None and ALIASES.get(against, against) not in labels:
        raise OvorError(f"There is no row {against!r} to compare with: choose {', '.join(labels)}.")


def compare(kind: str, ours: Row, theirs: Row) -> dict[str, Any] | None:
    found = {name: paired(by_seed(ours, name), by_seed(theirs, name)) for name in METRICS}
    record: dict[str, Any] = {"kind": kind, "method": ours.label, "against": theirs.label}
    for name, difference in found.items():
        if difference is None:
            return None
        record[name] = as_record(difference)
    return record


def as_record(difference: Difference) -> dict[str, Any]:
    return {**asdict(difference), "clear": difference.clear}


def by_seed(row: Row, metric: str) -> dict[int, float]:
    return {one.run.seed: one.result["metrics"][metric] for one in row.runs}


# --- what the charts show --------------------------------------------------------------------


def means(matrices: list[Any]) -> Any:
    return np.array(matrices, dtype=float).mean(0)


def number(value: float, digits: int = 3) -> float | None:
    """JSON has no NaN, such as the similarity of single images."""
    return round(float(value), digits) if isfinite(value) else None


def difference_records(found: Records) -> Records:
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


def curves(seen: list[Seen]) -> Records:
    """Mean accuracy over the tasks so far, after each; least and most over seeds."""
    found = []
    most = max(len(run.result["tasks"]) for one in seen for run in one.row.runs)
    for one in seen:
        matrices = np.array([run.result["accuracy"] for run in one.row.runs], dtype=float)
        after = np.nanmean(matrices, axis=2).T
        first = 1 if len(after) > 1 else most  # all tasks at once: that is at the end
        for task, values in enumerate(after, first):
            spread = {"low": number(values.min()), "high": number(values.max())}
            found.append(
                {"method": one.label, "task": task, "accuracy": number(values.mean()), **spread}
            )
    return found


def matrix(seen: list[Seen]) -> Records:
    return [
        {
            "family": one.row.family,
            "method": one.label,
            "after task": t + 1,
            "on task": i + 1,
            "accuracy": number(value, 2),
        }
        for one in seen
        for t, values in enumerate(means([run.result["accuracy"] for run in one.row.runs]))
        for i, value in enumerate(values[: t + 1])
    ]


def confusions(seen: list[Seen]) -> Records:
    """Of the test images of a task, the percent that are taken for each task's, over seeds."""
    found = []
    for one in seen:
        looks = [look["confusion"] for look in one.closeups if look]
        if not looks or len(looks[0]) < 2:
            continue
        shares = means([np.array(look) / np.sum(look, axis=1, keepdims=True) for look in looks])
        for true, values in enumerate(shares):
            for predicted, share in enumerate(values):
                found.append(
                    {
                        "family": one.row.family,
                        "method": one.label,
                        "true task": true + 1,
                        "predicted task": predicted + 1,
                        "percent": number(100 * share, 2),
                    }
                )
    return found


def error_records(rows: Records) -> Records:
    kinds = {"errors_between": "another task's class", "errors_within": "its own task, wrong class"}
    return [
        {"method": row["method"], "taken for": words, "percent": number(row[kind], 2)}
        for row in rows
        if row["errors"] is not None
        for kind, words in kinds.items()
    ]


def first_look(one: Seen) -> tuple[Finished, dict[str, Any]] | None:
    """The first seed's closeup: energies and planes are of one run each."""
    pairs = zip(one.row.runs, one.closeups, strict=True)
    return next(((run, look) for run, look in pairs if look), None)


def energy_records(seen: list[Seen]) -> Records:
    """Shares of each kind by energy, in bins that all kinds of a run have in common."""
    found = []
    for one in seen:
        first = first_look(one)
        if first is None or first[1]["energies"] is None:
            continue
        energies = first[1]["energies"]
        for kind, fine in energies["counts"].items():
            counts = np.add.reduceat(fine, range(0, len(fine), MERGED)).tolist()
            edges = np.linspace(energies["low"], energies["high"], len(counts) + 1)
            for start, end, count in zip(edges, edges[1:], counts, strict=False):
                found.append(
                    {
                        "family": one.row.family,
                        "method": one.label,
                        "of": KINDS[kind],
                        "energy": number((start + end) / 2),
                        "percent": number(100 * count / max(1, sum(counts)), 2),
                    }
                )
    return found


def tau_records(seen: list[Seen]) -> Records:
    """Where VOR wants energies to be: the task's own below one, outliers above the other."""
    found = []
    for one in seen:
        first = first_look(one)
        vor = first[0].run.vor if first else None
        if not first or not vor or first[1]["energies"] is None:
            continue
        classes = first[0].result["tasks"][first[1]["middle_task"]]
        shift = np.log(20 / classes) if vor.tau_outlier_relative else 0.0
        taus = {"tau current": vor.tau_current, "tau outlier": number(vor.tau_outlier + shift)}
        for name, value in taus.items():
            found.append(
                {"family": one.row.family, "method": one.label, "of": name, "energy": value}
            )
    return found


def energy_means(seen: list[Seen]) -> Records:
    found = []
    for one in seen:
        first = first_look(one)
        if first and first[1]["energies"]:
            words = {KINDS[kind]: mean for kind, mean in first[1]["energies"]["means"].items()}
            found.append({"method": one.label, **words})
    return found


def planes(seen: list[Seen], most: int = MOST_POINTS) -> Records:
    found = []
    each = max(20, most // (3 * len(seen)))  # of a kind
    for one in seen:
        first = first_look(one)
        if first is None or first[1]["plane"] is None:
            continue
        plane = first[1]["plane"]
        kinds = {"outliers": "outlier", "features": "feature", "boundary": "boundary sample"}
        share = f"{100 * sum(plane['shares']):.0f} % of the variance"
        for kind, words in kinds.items():
            points = plane[kind]
            for i in range(0, len(points), -(-len(points) // each) or 1):
                found.append(
                    {
                        "family": one.row.family,
                        "method": one.label,
                        "kind": words,
                        "class": plane["labels"][i] + 1 if kind == "features" else None,
                        "x": number(points[i][0], 2),
                        "y": number(points[i][1], 2),
                        "shown": share,
                    }
                )
    return found


def change_records(seen: list[Seen]) -> Records:
    """Accuracy with the task given, at the end against when the task was learned."""
    found = []
    for one in seen:
        values = [changes(run.result) for run in one.row.runs]
        for t, column in enumerate(np.array(values).T):
            found.append(
                {
                    "method": one.label,
                    "task": t + 1,
                    "change": number(column.mean()),
                    "low": number(column.min()),
                    "high": number(column.max()),
                }
            )
    return found


def drift_records(seen: list[Seen]) -> Records:
    """Similarity before and after each task, of runs that kept the weights of every task."""
    found = []
    for one in seen:
        drifts = [read_drift(run) for run in one.row.runs]
        known = [drift for drift in drifts if drift]
        for name in MEASURES if known else ():
            for t, column in enumerate(np.array([drift[name] for drift in known]).T):
                found.append(
                    {
                        "method": one.label,
                        "measure": DRIFT_WORDS[name],
                        "task": t + 2,
                        "percent": number(column.mean(), 4),
                    }
                )
    return found


def read_drift(run: Finished) -> dict[str, list[float]] | None:
    try:
        found = json.loads(run.folder.drift_file.read_bytes())
    except (OSError, ValueError):
        return None
    whole = isinstance(found, dict) and all(name in found for name in MEASURES)
    return found if whole else None


def cost_records(rows: Records) -> Records:
    return [
        {
            "method": row["method"],
            "learned parameters": row["learnable_parameters"],
            "multiply-accumulates": row["macs"],
            "A_T": number(row["A_T_mean"]),
        }
        for row in rows
    ]


def time_records(seen: list[Seen]) -> Records:
    found = []
    for one in seen:
        times = [seconds_by_phase(run.folder, run.run) for run in one.row.runs]
        known = [time for time in times if time]
        for phase in PHASES if known else ():
            mean = number(fmean(time[phase] for time in known), 2)
            if mean:
                found.append({"method": one.label, "phase": phase, "seconds": mean})
    return found
