"""How sure a number is: differences over paired seeds, with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi, sin, sqrt, tan

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """A mean over the seeds that both methods have, with an interval if there are two or more."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def clear(self) -> bool | None:
        """Whether 0 lies outside the interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 0 <= self.high


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Return ours minus theirs, seed by seed, with Student's t interval of the differences.

    A seed is the same class order for both, so what it does to both cancels.
    """
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    differences = np.array([ours[seed] - theirs[seed] for seed in common])
    mean, count = float(differences.mean()), len(common)
    if count < 2:
        return Difference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / sqrt(count)
    half = student_t(CONFIDENCE, count - 1) * error
    return Difference(mean, mean - half, mean + half, count)


def student_t(confidence: float, freedom: int) -> float:
    """Return the t for which Student's distribution has this probability between -t and t."""
    low, high = 0.0, pi / 2
    for _ in range(60):  # halvings, after which the two are neighbours
        middle = (low + high) / 2
        if probability_within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return sqrt(freedom) * tan(low)


def probability_within(angle: float, freedom: int) -> float:
    """Return P(|T| < sqrt(freedom) tan(angle)), Abramowitz and Stegun 26.7.3 and 26.7.4."""
    odd = freedom % 2
    total, term = 0.0, cos(angle) if odd else 1.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cos(angle) ** 2 * k / (k + 1)
    area = sin(angle) * total
    return 2 / pi * (angle + area) if odd else area
