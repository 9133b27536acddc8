"""Vectors at right angles, for CODA-P: how they start, and the penalty that keeps them so.

Smith et al. (2023); the start is theirs as released (methods.md, C).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def gram_schmidt(past: list[Tensor], new: Tensor) -> Tensor:
    """Each new vector (layers, n, d) less its projections on all before it, at unit norm.

    The past counts as training left it, so the new is orthogonal to it only as far as it still is
    so itself. After d vectors no direction is left: a further one keeps the one it was drawn with.
    """
    known = torch.cat([*past, new], dim=1)
    count = known.shape[1]
    for i in range(count - new.shape[1], count):
        before, vector = known[:, :i], known[:, i : i + 1]
        if i < new.shape[2]:
            along = vector @ before.mT / before.square().sum(-1).unsqueeze(1)  # layers, 1, i
            vector = vector - along @ before
        known[:, i : i + 1] = F.normalize(vector, dim=-1)
    return known[:, -new.shape[1] :].clone()


def orthogonality(x: Tensor) -> Tensor:
    """How far the rows of each (..., n, d) matrix are from orthonormal, by mean square."""
    return (x @ x.mT - torch.eye(x.shape[-2], device=x.device)).square().mean()
