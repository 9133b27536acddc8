"""What became of older classes in a lesson, without any image of them.

The sums say where the features of every class lie, and how images scatter around that: take them to
be normal. Then so are the logits, N(W mu + b, W^T S W), and drawing some of them shows which class
would be named, among all classes and among those that were there before. What the normal is too
sure of is corrected by the lesson's own images: leave-one-out says how many are named right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ovor.learners.analytic import Analytic
from ovor.learners.discriminant import Scatter
from ovor.seeds import NOISE, generator

DRAWS = 500  # of logits, the same for every class
WIDEST = 6.0  # times what the sums say that images scatter
HALVINGS = 12


@dataclass(frozen=True, eq=False)
class Cloud:
    """Where the logits of every class are expected."""

    centres: Tensor  # C, C: of each class's images
    noise: Tensor  # DRAWS, C
    counts: Tensor  # C

    @classmethod
    def of(cls, learner: Analytic) -> "Cloud":
        """Return what the sums and the head say."""
        scatter = Scatter.of(learner.moments)
        weights, bias = learner.weights.cpu(), learner.bias.cpu()
        spread = weights.T @ scatter.within @ weights / scatter.freedom
        values, axes = torch.linalg.eigh((spread + spread.T) / 2)
        draw = generator(NOISE, len(bias))
        drawn = torch.randn(DRAWS, len(bias), generator=draw, dtype=torch.double)
        noise = drawn @ (axes * values.clamp(min=0).sqrt()).T
        return cls(scatter.means @ weights + bias, noise, scatter.counts)

    def logits(self, row: int, width: float) -> Tensor:
        """Return draws of the logits of new images of a class, whose mean is itself uncertain."""
        uncertain: float = (1 + 1 / float(self.counts[row])) ** 0.5
        return self.centres[row] + self.noise * (width * uncertain)

    def right(self, row: int, width: float) -> float:
        """Return the share of a class's images that would be named right."""
        return float((self.logits(row, width).argmax(1) == row).double().mean())


def width_by(cloud: Cloud, expected: dict[int, float]) -> float:
    """Return how much wider than the sums say classes scatter, by the share right of some."""
    if not expected:
        return 1.0
    wanted = sum(expected.values()) / len(expected)
    low, high = 1.0, WIDEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = sum(cloud.right(row, middle) for row in expected) / len(expected)
        low, high = (middle, high) if found > wanted else (low, middle)
    return low


def older_classes(
    learner: Analytic,
    names: Sequence[str],
    new: int,
    expected: dict[int, float],
    rows: Sequence[int],
) -> list[dict[str, Any]]:
    """Return what to expect of older classes now, and what they lost to the last `new` ones.

    `expected` are shares right by leave-one-out, by the rows of classes of the lesson; `rows` are
    those of the classes to look at.
    """
    cloud = Cloud.of(learner)
    width = width_by(cloud, expected)
    old = len(names) - new
    found = []
    for row in rows:
        logits = cloud.logits(row, width)
        now = logits.argmax(1)
        before = logits[:, :old].argmax(1) == row
        lost = now[before & (now >= old)]
        takes = int(torch.bincount(lost, minlength=len(names)).argmax()) if len(lost) else None
        found.append(
            {
                "class": names[row],
                "expected": round(100 * float((now == row).double().mean()), 1),
                "lost": round(100 * len(lost) / DRAWS, 1),
                "to": None if takes is None else names[takes],
            }
        )
    return found
