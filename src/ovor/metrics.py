"""From the accuracy matrix to single numbers, each convention by a name of its own.

Row t, column i holds the accuracy in percent on task i's test data after task t; above the
diagonal there is nothing (NaN). A_T and F_T are the paper's (Sec. 5); papers differ, so check
which of these a published number is. And how sure a share of few images is.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]  # T, T
NORMAL = NormalDist().inv_cdf(0.975)  # standard deviations that 95 % are within


def accuracy_matrix(rows: Sequence[Sequence[float]]) -> Matrix:
    """Turn rows of growing length into a square matrix with NaN above the diagonal."""
    matrix = np.full((len(rows), len(rows)), np.nan)
    for t, row in enumerate(rows):
        matrix[t, : len(row)] = row
    return matrix


def average_accuracy(accuracy: Matrix) -> float:
    """Return A_T: the mean of the tasks' accuracies after the last task, whatever their sizes."""
    return float(accuracy[-1].mean())


def forgetting(accuracy: Matrix) -> float:
    """Return F_T: how far each earlier task fell from its best, on average; may be negative."""
    if len(accuracy) == 1:
        return 0.0
    best = np.nanmax(accuracy[:-1, :-1], axis=0)
    return float((best - accuracy[-1, :-1]).mean())


def average_incremental_accuracy(accuracy: Matrix) -> float:
    """Return the mean over t of A_t, which iCaRL and many after it report."""
    return float(np.nanmean(accuracy, axis=1).mean())


def pooled_accuracy(accuracy: Matrix, test_images: Sequence[int]) -> float:
    """Return the accuracy after the last task, every test image counting the same (PILOT)."""
    return float(np.average(accuracy[-1], weights=test_images))


def coda_forgetting(accuracy: Matrix) -> float:
    """Return the mean over t of earlier tasks' mean drop from t-1 to t, as in CODA-P's code."""
    drops = [(accuracy[t - 1, :t] - accuracy[t, :t]).mean() for t in range(1, len(accuracy))]
    return float(np.mean(drops)) if drops else 0.0


def backward_transfer(accuracy: Matrix) -> float:
    """Return earlier tasks' mean change since they were learned (Lopez-Paz and Ranzato, 2017)."""
    if len(accuracy) == 1:
        return 0.0
    return float((accuracy[-1, :-1] - np.diag(accuracy)[:-1]).mean())


def all_metrics(accuracy: Matrix, test_images: Sequence[int]) -> dict[str, float]:
    """Return every metric by the name that results have it under."""
    return {
        "A_T": average_accuracy(accuracy),
        "F_T": forgetting(accuracy),
        "average_incremental_accuracy": average_incremental_accuracy(accuracy),
        "pooled_accuracy": pooled_accuracy(accuracy, test_images),
        "coda_forgetting": coda_forgetting(accuracy),
        "backward_transfer": backward_transfer(accuracy),
    }


def wilson(right: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval, in percent, of a share of which `right` of `count` were seen.

    Wilson's, which stays within 0 and 100 and is of use for a handful of images too.
    """
    if not count:
        return 0.0, 100.0
    share, weight = right / count, NORMAL**2 / count
    middle = (share + weight / 2) / (1 + weight)
    half = NORMAL * sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))
