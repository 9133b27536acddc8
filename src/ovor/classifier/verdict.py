"""Whether a lesson went well: good, fair or poor, and what would help.

What counts is how far the expected share of right answers is on the way from guessing to perfect:
of two classes 60 % is poor, of a hundred it is not. The limits are a choice: below POOR of the way
more answers are wrong than most would put up with, from GOOD on few are.
"""

from collections.abc import Sequence
from typing import Any, Literal

from ovor.metrics import wilson

Verdict = Literal["good", "fair", "poor"]

GOOD, POOR = 0.75, 0.4  # of the way from guessing to perfect
MUCH = 5.0  # points that older classes lost on average, for a lesson not to be good
FEW = 20  # points between the ends of an interval that is called wide


def interval(right: float, images: int) -> list[float] | None:
    """Return the percentages between which the true share lies, 19 times of 20, rounded."""
    return [round(end, 1) for end in wilson(right, images)] if images else None


def chance(classes: int) -> float:
    """Return the percentage that guessing names right."""
    return round(100 / max(classes, 1), 1)


def way(expected: float, classes: int) -> float:
    """Return how far from guessing (0) to perfect (1) a percentage of right answers is."""
    guessed = 100 / max(classes, 1)
    return (expected - guessed) / max(100 - guessed, 1e-9)


def verdict(report: dict[str, Any], classes: int) -> Verdict:
    """Return what a lesson's numbers amount to, in a model of so many classes."""
    expected, older = report["expected"], report["older"]
    taught = report.get("of_taught")
    if classes > 1 and taught is not None:  # to know those promises nothing; not to, says much
        return "poor" if way(taught, classes) < POOR else "fair"
    if classes == 1 or expected is None:  # nothing to tell apart, or nothing to tell by
        return "fair"
    if way(expected, classes) < POOR:
        return "poor"
    each = [found["expected"] for found in report["classes"] if found["expected"] is not None]
    lowest = min(each, default=expected)
    sure = report["interval"][0]
    if (
        way(expected, classes) < GOOD
        or way(lowest, classes) < POOR
        or way(sure, classes) < POOR  # so few images that it may be poor as well
        or (older["lost"] or 0) >= MUCH
    ):
        return "fair"
    return "good"


def advice(report: dict[str, Any], classes: int, exact: bool) -> list[str]:
    """Return what would help a lesson as a whole, a sentence each."""
    said, many = [], report.get("reads", "images")
    if classes == 1:
        return ["Another class, for it to be told apart from."]
    if report["verdict"] == "poor":
        said.append(
            f"More {many}, or a backbone that suits them."
            if exact
            else f"A smaller learning rate, more epochs or more {many}; the method analytic needs "
            "no such choice."
        )
    if report["expected"] is None:
        said.append(f"More {many} of each class, as nothing says how well new ones are named.")
    elif report["interval"][1] - report["interval"][0] > FEW:
        low, high = report["interval"]
        said.append(
            f"More {many} to judge by, as with so few it may be {low:g} % as well as {high:g} %."
        )
    said += lost_most(report["older"]["classes"], many)
    return said


def lost_most(older: Sequence[dict[str, Any]], many: str, most: int = 3) -> list[str]:
    """Return advice on the older classes that lost most to new ones."""
    worst = sorted(older, key=lambda found: -found["lost"])[:most]
    return [
        f"{found['class']}: has lost about {found['lost']:g} points, mostly to {found['to']}: add "
        f"{many} of both."
        for found in worst
        if found["lost"] >= MUCH
    ]
