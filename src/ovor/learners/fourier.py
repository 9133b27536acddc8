"""Random Fourier features of a Gaussian kernel (Rahimi and Recht, 2007).

Products of them are exp(-gamma |x - y|^2), on average over the draws and ever closer with width.
"""

import math

import torch
from torch import Tensor


def draw_waves(read: int, width: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return directions (read, width), of the kernel with gamma = 1/2, and phases."""
    directions = torch.randn(read, width, generator=draw)
    return directions, 2 * math.pi * torch.rand(width, generator=draw)


def waves(features: Tensor, gamma: Tensor, directions: Tensor, phases: Tensor) -> Tensor:
    """Return the Fourier features (n, width) of features (n, read)."""
    angles = features @ (directions.to(features.dtype) * (2 * gamma).sqrt()) + phases
    return torch.cos(angles) * math.sqrt(2 / len(phases))


def usual_gamma(features: Tensor) -> Tensor:
    """Return the gamma of a kernel as wide as features differ: 1 / (their width x variance)."""
    return 1 / (features.shape[1] * features.var(correction=0)).clamp(min=1e-12)
