"""What a classifier mistakes for what, and whether it is as often right as it is sure."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ovor.classifier.prediction import Floats

EXAMPLES = 5  # images of a mistake that are named, the surest first
BINS = 15  # of confidence

Numbers = NDArray[np.int64]


def confusions(
    truth: Numbers,
    answers: Numbers,
    confidences: Floats,
    names: Sequence[str],
    where: Sequence[str],
) -> list[dict[str, Any]]:
    """Return every mistake that was made, the most frequent first.

    `truth` and `answers` are positions in `names`, `where` says which images they are of.
    """
    wrong = np.flatnonzero(truth != answers)
    pairs: dict[tuple[int, int], list[int]] = {}
    for i in wrong[np.argsort(-confidences[wrong], kind="stable")].tolist():
        pairs.setdefault((int(truth[i]), int(answers[i])), []).append(i)
    of_class = np.bincount(truth, minlength=len(names))
    return [
        {
            "class": names[own],
            "taken_for": names[other],
            "images": len(found),
            "share": round(100 * len(found) / int(of_class[own]), 1),
            "examples": [where[i] for i in found[:EXAMPLES]],
        }
        for (own, other), found in sorted(pairs.items(), key=lambda it: (-len(it[1]), it[0]))
    ]


def calibration(right: NDArray[np.bool_], confidences: Floats) -> dict[str, Any]:
    """Return how sure the answers were beside how often they were right, in bins of confidence.

    The error is their difference, averaged over the images, `by_chance` what it would be
    of answers that are exactly as often right as they are sure. Above 0 the bias says too sure.
    """
    places = np.clip((confidences * BINS).astype(np.int64), 0, BINS - 1)
    bins, error, by_chance = [], 0.0, 0.0
    for place in np.unique(places):
        here = places == place
        sure, share = 100 * float(confidences[here].mean()), 100 * float(right[here].mean())
        count = int(here.sum())
        bins.append({"images": count, "confidence": round(sure, 4), "accuracy": round(share, 4)})
        error += abs(sure - share) * count
        scatter = float((confidences[here] * (1 - confidences[here])).sum())
        by_chance += 100 * math.sqrt(2 / math.pi * scatter)  # the mean of a normal's absolute value
    images = max(len(right), 1)
    bias = 100 * float((confidences - right).sum()) / images
    return {
        "error": round(error / images, 4),
        "by_chance": round(by_chance / images, 4),
        "bias": round(bias, 4),
        "confidence": round(100 * float(confidences.sum()) / images, 4),
        "bins": bins,
    }
