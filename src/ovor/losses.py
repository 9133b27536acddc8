"""Virtual outlier regularization as a loss: energies and their hinges (Sec. 4.1).

The auxiliary losses of query-based prompts stand with those prompts.
"""

from collections.abc import Sequence
from math import log

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.config import Vor


def energy(logits: Tensor) -> Tensor:
    """Return the free energy -log sum exp of each row: low where the head is confident."""
    return -logits.logsumexp(dim=1)


def task_energies(logits: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the energy of each task's own logits (B, T) from those of all classes (B, C).

    That of a task without classes is infinite.
    """
    parts = torch.split(logits, list(sizes), dim=1)
    return torch.stack([energy(part) for part in parts], dim=1)


def hinge(excess: Tensor, kind: str) -> Tensor:
    """Return the mean penalty of what is above zero, by Huber (delta = 1) or square; 0 if empty."""
    excess = excess.relu()
    if len(excess) == 0:
        return excess.sum()
    penalty = F.huber_loss if kind == "huber" else F.mse_loss
    return penalty(excess, torch.zeros_like(excess))


def outlier_loss(current_logits: Tensor, outlier_logits: Tensor, vor: Vor) -> Tensor:
    """Return lambda * L_Outlier: features belong below tau_current, outliers above tau_outlier.

    Both logits are of the current task's classes only, (B, C) and (M, C).
    """
    tau_outlier = vor.tau_outlier
    if vor.tau_outlier_relative:
        tau_outlier += log(20) - log(outlier_logits.shape[1])
    loss = current_logits.new_zeros(())
    if vor.terms in ("both", "current"):
        loss = loss + hinge(energy(current_logits) - vor.tau_current, vor.hinge)
    if vor.terms in ("both", "outlier"):
        loss = loss + hinge(tau_outlier - energy(outlier_logits), vor.hinge)
    return vor.weight * loss
