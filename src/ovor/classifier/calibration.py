"""What leave-one-out says of a model's own images: how sure to be, and what is too far away.

Every image of a lesson is judged as if it alone had not been learned, so none is held out. What is
kept of that are two histograms. A lesson adds its images to them, each class counting alike. What
was there before was judged by a smaller model: it counts the less the more the model has grown
since (by the square of the ratio), and as so many images at most.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

KEPT_DISTANCES, KEPT_ANSWERS = 25.0, 200.0  # images; chosen on development classes
BOUNDS = torch.linspace(-20, 20, 801, dtype=torch.double)  # of the bins of distances
ODDS = torch.linspace(-8, 16, 97, dtype=torch.double)  # of the bins of log-odds
TEMPERATURE = 0.6  # of the softmax that the odds are from; near the best for drawings
PRIOR = 4.0  # images' worth of believing those odds as they are
EXPECTED = 1.0  # image of distances as the sums let expect them


@dataclass(frozen=True, eq=False)
class Calibration:
    """Histograms of how images of known classes were judged."""

    distances: Tensor  # bins
    answers: Tensor  # bins: by the log-odds of the likeliest class
    right: Tensor  # bins: those of them that were right

    @classmethod
    def empty(cls) -> "Calibration":
        """Return the histograms of no image."""
        odds = torch.zeros(len(ODDS) + 1, dtype=torch.double)
        return cls(torch.zeros(len(BOUNDS) + 1, dtype=torch.double), odds, odds.clone())

    def plus(self, other: "Calibration") -> "Calibration":
        """Return the histograms of both."""
        return Calibration(
            self.distances + other.distances, self.answers + other.answers, self.right + other.right
        )

    def with_lesson(
        self, distances: Tensor, logits: Tensor, labels: Tensor, weights: Tensor, old: float
    ) -> "Calibration":
        """Return the histograms after more images were judged.

        `old` is the share of the model's images that it had before.
        """
        images = max(float(self.distances.sum()), 1e-9)
        far = old**2 * min(1.0, KEPT_DISTANCES / images)
        sure = old**2 * min(1.0, KEPT_ANSWERS / max(float(self.answers.sum()), 1e-9))
        _, odds = likeliest(logits)
        answered = torch.bucketize(odds, ODDS)
        right = weights * (logits.argmax(1) == labels)
        added = Calibration(
            counted(torch.bucketize(distances, BOUNDS), weights, len(self.distances)),
            counted(answered, weights, len(self.answers)),
            counted(answered, right, len(self.right)),
        )
        rest = Calibration(far * self.distances, sure * self.answers, sure * self.right)
        return rest.plus(added)

    def threshold(self, false_alarms: float) -> float:
        """Return the distance beyond which lies that share of images of known classes.

        The rank is that of conformal prediction. To what was counted comes a little of what the
        sums let expect, a standard normal. Where nothing was counted, nothing is too far.
        """
        if not self.distances.any():
            return float(BOUNDS[-1])
        normal = torch.special.ndtr(BOUNDS)
        expected = torch.diff(torch.cat([torch.zeros(1).double(), normal, torch.ones(1).double()]))
        total = self.distances + EXPECTED * expected
        images = float(total.sum())
        wanted = min((images + 1) * (1 - false_alarms), images)
        upto = total.cumsum(0)
        number = int(torch.searchsorted(upto, wanted - 1e-9))
        if number == 0:
            return float(BOUNDS[0])
        if number >= len(BOUNDS):
            return float(BOUNDS[-1])
        into = (wanted - float(upto[number - 1])) / max(float(total[number]), 1e-12)
        return float(BOUNDS[number - 1] + into * (BOUNDS[number] - BOUNDS[number - 1]))

    def confidence(self) -> tuple[float, float]:
        """Return offset and slope of the log-odds that the likeliest class is right.

        Logistic regression on the histogram, by Newton's method with halved steps.
        """
        middles = torch.cat([ODDS[:1], (ODDS[1:] + ODDS[:-1]) / 2, ODDS[-1:]])
        inputs = torch.stack([torch.ones_like(middles), middles], dim=1)
        prior = torch.tensor([0.0, 1.0], dtype=torch.double)

        def cost(at: Tensor) -> float:
            odds = inputs @ at
            fit = self.right @ odds - self.answers @ torch.nn.functional.softplus(odds)
            return float(PRIOR / 2 * (at - prior).square().sum() - fit)

        found = prior
        for _ in range(30):
            share = torch.sigmoid(inputs @ found)
            slope = inputs.T @ (self.right - self.answers * share) - PRIOR * (found - prior)
            bend = inputs.T @ ((self.answers * share * (1 - share))[:, None] * inputs)
            step = torch.linalg.solve(bend + PRIOR * torch.eye(2, dtype=torch.double), slope)
            length = 1.0
            while length > 1e-6 and cost(found + length * step) > cost(found):
                length /= 2
            found = found + length * step
            if float(step.abs().max()) < 1e-10:
                break
        return float(found[0]), max(float(found[1]), 0.05)

    def state(self) -> dict[str, Tensor]:
        """Return the histograms by name."""
        return {"distances": self.distances, "answers": self.answers, "right": self.right}


def counted(bins: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return the sum of the weights in each bin."""
    return torch.zeros(count, dtype=torch.double).index_add_(0, bins, weights)


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities by the fixed temperature, and the likeliest class's log-odds."""
    log_shares = torch.log_softmax(logits / TEMPERATURE, dim=1)
    return log_shares, log_shares.amax(1) - rest(log_shares)[1]


def rest(log_shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return which class is the likeliest (one-hot), and the logarithm of what others share."""
    places = torch.arange(log_shares.shape[1], device=log_shares.device)
    best = places == log_shares.argmax(1, keepdim=True)
    return best, log_shares.masked_fill(best, -math.inf).logsumexp(1)


def calibrated(logits: Tensor, offset: float, slope: float) -> Tensor:
    """Return logarithms of probabilities whose largest is right as often as it says.

    The order of the classes stays: the likeliest keeps at least the odds of the next.
    """
    if logits.shape[1] == 1:
        return torch.zeros_like(logits)
    log_shares = torch.log_softmax(logits / TEMPERATURE, dim=1)
    best, others = rest(log_shares)
    odds = offset + slope * (log_shares.amax(1) - others)
    # What is left to the other classes they share as the slope says: the flatter, the less is sure.
    among = (slope / TEMPERATURE * logits).masked_fill(best, -math.inf)
    among = among - among.logsumexp(1, keepdim=True)
    odds = torch.maximum(odds, among.amax(1) + 1e-3)[:, None]
    sure, not_sure = torch.nn.functional.logsigmoid(odds), torch.nn.functional.logsigmoid(-odds)
    return torch.where(best, sure, among + not_sure)
