"""Does the model know this image? By the energies of the tasks' heads (Sec. 4.1), or by distances.

VOR pulls the energy of a task's features down and pushes that of outliers up; an image that no task
claims is unknown. A model of exact sums knows how far images of its classes are from them.
"""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from ovor.classifier.calibration import Calibration, calibrated
from ovor.learners.novelty import Novelty
from ovor.losses import task_energies


class Judge(nn.Module):
    """Turns logits and features into logarithms of probabilities, and margins."""

    def forward(self, logits: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return what softmax makes probabilities of (B, C), and how surely it is known (B)."""
        raise NotImplementedError


class EnergyJudge(Judge):
    """By the energies of the tasks' heads; the logits are as they are."""

    def __init__(self, sizes: Sequence[int], thresholds: Sequence[float]) -> None:
        super().__init__()
        self.sizes, self.thresholds = sizes, thresholds

    def forward(self, logits: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits.float()
        return logits, margins(logits, self.sizes, self.thresholds)


class DistanceJudge(Judge):
    """By relative distances to the classes, and with confidences that were calibrated."""

    def __init__(self, novelty: Novelty, calibration: Calibration, false_alarms: float) -> None:
        super().__init__()
        self.novelty = novelty
        self.threshold = calibration.threshold(false_alarms)
        self.offset, self.slope = calibration.confidence()

    def forward(self, logits: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        x = features.to(self.novelty.centre.device, self.novelty.centre.dtype)
        margin = self.threshold - self.novelty.distances(x)
        return calibrated(logits, self.offset, self.slope), margin.to(logits.device)


def threshold(own: Tensor, false_alarms: float) -> float:
    """Return an energy above which lies at most that share of the task's new images.

    `own` are energies of images that the task was not trained on. The rank is the one of conformal
    prediction, which keeps the promise on average if there are at least 1 / false_alarms - 1
    of them; with fewer it is the largest.
    """
    rank = math.ceil((len(own) + 1) * (1 - false_alarms))
    return float(own.sort().values[min(max(rank, 1), len(own)) - 1])


def margins(logits: Tensor, sizes: Sequence[int], thresholds: Sequence[float]) -> Tensor:
    """Return how far the most willing task's energy is below its threshold; below 0: unknown."""
    limits = logits.new_tensor(thresholds)
    return (limits - task_energies(logits, sizes)).amax(dim=1)


def recalibrated(
    old: Sequence[float], logits: Tensor, sizes: Sequence[int], false_alarms: float
) -> list[float]:
    """Return the thresholds of all tasks after a new one, from its held-out images alone.

    Each task that may claim an image makes false alarms fewer and takes more unknown images for
    known, and learning moves the energies of old tasks, whose images are gone. So the new task's
    threshold is set by its own energies, and then all are moved together until the promise is
    kept again, now for whether any task claims.
    """
    limits = [*old, threshold(task_energies(logits, sizes)[:, -1], false_alarms)]
    shift = threshold(-margins(logits, sizes, limits), false_alarms)
    return [limit + shift for limit in limits]
