"""What a lesson says of itself: what to expect of each class, what is confused, what would help.

In models of exact sums by leave-one-out: every image of the lesson is named by a model that has
learned all others. Nothing is held out, and the numbers are those of new images, as far as the
lesson's are like them. With methods that train, by the images that were held out.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ovor.classifier import verdict
from ovor.classifier.verdict import interval
from ovor.data.modality import WORDS, Words

ENOUGH = 90.0  # percent expected: no advice above
LEAST, MOST = 10, 50  # images that are asked for at once
SURE = 0.9  # that it is another class, for an image to look mislabelled
SHOWN = 20

By = Literal["leave-one-out", "held-out", "taught"]  # how the images were judged
UNTESTED = (
    "Older classes were not tested, as no image of them is kept: evaluate the model with images of "
    "them (`ovor evaluate`)."
)
NOTHING_OLDER: dict[str, Any] = {"how": "none", "lost": None, "classes": [], "note": ""}


def lesson_report(
    shares: Tensor,
    rows: Tensor,
    names: Sequence[str],
    counts: Sequence[float],
    where: Sequence[str],
    taught: Sequence[int],
    by: By = "leave-one-out",
) -> dict[str, Any]:
    """Return all that judging the lesson's images says, as one value that can be written as JSON.

    `shares` are the probabilities of every class for every image that was judged, `rows` the
    classes that they were taught as, `where` says which images they are, and `taught` are the
    classes of the lesson.
    """
    answers = shares.argmax(1)
    right = answers == rows
    classes = [
        of_class(row, names, counts[row], answers[rows == row], right[rows == row])
        for row in taught
    ]
    return {
        "by": by,
        "judged": len(rows),
        "expected": percent(right),
        "interval": interval(int(right.sum()), len(rows)),
        "chance": verdict.chance(len(names)),
        "classes": classes,
        "pairs": pairs(answers, rows, names),
        "suspects": suspects(shares, rows, names, where) if where else [],
    }


def with_verdict(
    report: dict[str, Any], older: dict[str, Any], classes: int, *, exact: bool
) -> dict[str, Any]:
    """Return a report with what became of older classes, what all of it amounts to, and advice."""
    report = {"reads": "images", **report, "older": older}
    words = WORDS[report["reads"]]
    report["verdict"] = verdict.verdict(report, classes)
    helped = sorted(report["classes"], key=lambda found: found["expected"] or 0.0)
    report["advice"] = verdict.advice(report, classes, exact) + [
        line
        for found in helped
        if (line := advice(found, words)) and classes > 1 and report["judged"]
    ]
    return report


def estimated(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the sums say of older classes, and how far that goes."""
    if not found:
        return NOTHING_OLDER
    lost = sum(one["lost"] for one in found) / len(found)
    return {
        "how": "estimated",
        "lost": round(lost, 1),
        "classes": list(found),
        "note": "Estimated from the sums alone: right to about 5 points on average.",
    }


def of_class(
    row: int, names: Sequence[str], count: float, answers: Tensor, right: Tensor
) -> dict[str, Any]:
    """Return what to expect of one class."""
    wrong = answers[~right]
    others = torch.bincount(wrong, minlength=len(names))
    order = others.argsort(descending=True, stable=True)[:3].tolist()
    return {
        "class": names[row],
        "images": int(count) if float(count).is_integer() else count,
        "judged": len(answers),
        "expected": percent(right),
        "interval": interval(int(right.sum()), len(right)),
        "confused_with": [
            {"class": names[other], "share": round(100 * int(others[other]) / len(answers), 1)}
            for other in order
            if others[other]
        ],
    }


def percent(right: Tensor) -> float | None:
    """Return the share of images named right, or None if none was judged."""
    return round(100 * float(right.double().mean()), 1) if len(right) else None


def pairs(answers: Tensor, rows: Tensor, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the pairs of classes that are taken for each other most often."""
    wrong = answers != rows
    low, high = torch.minimum(answers, rows)[wrong], torch.maximum(answers, rows)[wrong]
    codes, often = torch.unique(low * len(names) + high, return_counts=True)
    order = often.argsort(descending=True, stable=True)[:5].tolist()
    return [
        {
            "classes": [names[int(codes[i]) // len(names)], names[int(codes[i]) % len(names)]],
            "images": int(often[i]),
        }
        for i in order
        if often[i] > 1
    ]


def suspects(
    shares: Tensor, rows: Tensor, names: Sequence[str], where: Sequence[str]
) -> list[dict[str, Any]]:
    """Return images that look as if they had the wrong label, the surest first."""
    confidence, answers = shares.max(1)
    strange = ((answers != rows) & (confidence >= SURE)).nonzero()[:, 0]
    order = strange[confidence[strange].argsort(descending=True, stable=True)][:SHOWN].tolist()
    return [
        {
            "image": where[i],
            "class": names[int(rows[i])],
            "looks_like": names[int(answers[i])],
            "confidence": round(float(confidence[i]), 4),
        }
        for i in order
    ]


def advice(found: dict[str, Any], words: Words) -> str | None:
    """Return a line on what would help a class, if it needs help."""
    images, expected = found["images"], found["expected"]
    if expected is None:
        return (
            f"{found['class']}: {words.count(images)}, which says nothing yet: add about {LEAST}."
        )
    if expected >= ENOUGH:
        return None
    others = [other["class"] for other in found["confused_with"][:2]]
    confused = f", confused with {' and '.join(others)}" if others else ""
    return (
        f"{found['class']}: {words.count(images)}, expect {expected:g} %{confused}: "
        f"add about {wanted(images)}."
    )


def wanted(images: float) -> int:
    """Return how many images to add: as many again, which on drawings leaves 6 errors of 7."""
    return int(max(LEAST, min(MOST, round(images / 5) * 5)))
