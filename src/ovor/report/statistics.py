"""Is one method better than another? Differences over paired seeds, with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """Mean over the seeds that both have; an interval needs two of them."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def clear(self) -> bool | None:
        """Whether 0 is outside of the interval."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 0 <= self.high


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference | None:
    """Ours minus theirs, seed by seed: Student's t on the differences.

    A seed is the same class order for both, so what it does to both cancels.
    """
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    differences = np.array([ours[seed] - theirs[seed] for seed in common])
    mean, count = float(differences.mean()), len(common)
    if count < 2:
        return Difference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / count**0.5
    half = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return Difference(mean, mean - half, mean + half, count)
