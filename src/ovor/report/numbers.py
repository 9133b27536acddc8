"""The numbers of a group: what was run, the figures of every method, and how methods differ."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np

from ovor.errors import OvorError
from ovor.presets import ALIASES
from ovor.report.runs import Finished, Group, Row
from ovor.report.statistics import paired
from ovor.report.vega import Records

METRICS = ("A_T", "F_T")
ERRORS = (
    "errors",
    "errors_between",
    "errors_within",
    "errors_between_share",
    "errors_between_share_by_chance",
)


def facts(group: Group) -> dict[str, str]:
    """Return what was run, on what and with what; where runs differ, every value there is."""
    runs = [one for row in group.rows for one in row.runs]

    def each(describe: Callable[[Finished], object]) -> str:
        return ", ".join(dict.fromkeys(str(describe(one)) for one in runs))

    sizes = max((one.result["tasks"] for one in runs), key=len)
    minutes = sum(float(one.result["seconds"]) for one in runs) / 60
    computing = f"{minutes:.0f} minutes" if minutes >= 1.5 else f"{60 * minutes:.0f} seconds"
    return {
        "methods": ", ".join(row.label for row in group.rows),
        "data": each(lambda one: ", ".join((one.run.data, *one.run.arrival))),
        "tasks": f"{len(sizes)}, of {joined(sizes, 'or')} classes",
        "classes": str(sum(sizes)),
        "seeds": joined(sorted({one.run.seed for one in runs}), "and"),
        "backbone": each(lambda one: backbone(one.result["backbone"])),
        "epochs per task": joined(sorted({one.run.epochs for one in runs}), "or"),
        "device": each(lambda one: device(one.result)),
        "versions": each(lambda one: versions(one.result["versions"])),
        "runs": f"{len(runs)}, {computing} of computing",
    }


def joined(numbers: Iterable[int], last: str) -> str:
    """Return distinct numbers as words: "1, 2 or 3", where `last` is "or"."""
    words = [str(number) for number in dict.fromkeys(numbers)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def backbone(found: dict[str, str]) -> str:
    return f"{found['name']} (sha256 {found['sha256'][:12]})"


def device(result: dict[str, Any]) -> str:
    many = int(result.get("processes", 1))
    return f"{result['device']}, {result['precision']}" + f", {many} processes" * (many > 1)


def versions(found: dict[str, Any]) -> str:
    return " ".join(f"{name} {number}" for name, number in found.items() if name != "threads")


def figures(row: Row) -> dict[str, Any]:
    """Return a method's line of the table: each metric by seed, mean and std, and its costs."""
    found: dict[str, Any] = {"method": row.label, "seeds": [one.run.seed for one in row.runs]}
    for number, name in enumerate(METRICS):
        values = [result["metrics"][name] for result in row.results]
        found[name] = values
        found[f"{name}_mean"], found[f"{name}_std"] = float(np.mean(values)), float(np.std(values))
        found[f"{name}_paper"] = row.paper[number]
        found[f"{name}_paper_std"] = row.paper_std[number]
    found["learnable_parameters"] = row.results[0]["learnable_parameters"]
    found["macs"] = next((look["macs"] for look in row.diagnostics if look), None)
    found["seconds"] = fmean(result["seconds"] for result in row.results)
    return found | errors(row)


def errors(row: Row) -> dict[str, float | None]:
    """Return the percent of test images that are wrong after the last task, between and within.

    And the share of them that is between tasks, beside the share if wrong answers were guesses.
    Every image counts the same, unlike in A_T, where every task does.
    """
    looks = [look for look in row.diagnostics if look]
    if not looks or len(looks[0]["right"]) < 2:
        return dict.fromkeys(ERRORS)
    between, within, chance = [], [], []
    sizes = np.array(row.results[0]["tasks"])
    for look in looks:
        counts = np.array(look["confusion"])
        same = int(np.trace(counts))
        between.append(100 * (1 - same / counts.sum()))
        within.append(100 * (same - sum(look["right"])) / counts.sum())
        # Whoever guesses among the wrong classes takes most of them from other tasks too.
        wrong = counts.sum(axis=1) - np.array(look["right"])
        others = (sizes.sum() - sizes) / max(1, sizes.sum() - 1)
        chance.append(100 * float(wrong @ others) / max(1, int(wrong.sum())))
    b, w = float(np.mean(between)), float(np.mean(within))
    shares = (100 * b / (b + w), float(np.mean(chance))) if b + w else (None, None)
    return dict(zip(ERRORS, (b + w, b, w, *shares), strict=True))


def differences(group: Group, against: str | None) -> Records:
    """Compare each row with VOR to the one without, then every row to the reference."""
    rows = {row.label: row for row in group.rows}
    reference = reference_of(group, against)
    pairs = [(row.label, row.family) for row in group.rows if row.family != row.label]
    found = [compare("VOR", rows[a], rows[b]) for a, b in pairs if b in rows]
    others = [name for name in rows if name != reference and (name, reference) not in pairs]
    found += [compare("reference", rows[name], rows[reference]) for name in others]
    return [record for record in found if record is not None]


def compare(kind: str, ours: Row, theirs: Row) -> dict[str, Any] | None:
    """Return the paired difference of every metric, or None where no seed is in common."""
    record: dict[str, Any] = {"kind": kind, "method": ours.label, "against": theirs.label}
    for name in METRICS:
        difference = paired(by_seed(ours, name), by_seed(theirs, name))
        if difference is None:
            return None
        record[name] = {**asdict(difference), "clear": difference.clear}
    return record


def by_seed(row: Row, metric: str) -> dict[int, float]:
    return {one.run.seed: one.result["metrics"][metric] for one in row.runs}


def reference_of(group: Group, against: str | None) -> str:
    """Return the row to compare with: the one asked for, or the first if the group lacks it."""
    labels = [row.label for row in group.rows]
    name = ALIASES.get(against, against) if against else None
    return name if name in labels else labels[0]


def check_reference(groups: list[Group], against: str | None) -> None:
    """Raise an error if the row asked for is in no group."""
    labels = list(dict.fromkeys(row.label for group in groups for row in group.rows))
    if against is not None and ALIASES.get(against, against) not in labels:
        raise OvorError(f"There is no row {against!r} to compare with: choose {', '.join(labels)}.")
