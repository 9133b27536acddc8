"""Random Fourier features: their products are the kernel's values."""

import numpy as np
import torch

from ovor.learners.fourier import draw_waves, usual_gamma, waves


def test_products_approach_the_gaussian_kernel() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20, 6, generator=draw, dtype=torch.double)
    gamma, width = torch.tensor(0.2, dtype=torch.double), 40_000
    z = waves(x, gamma, *draw_waves(6, width, draw))
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    # The mean of `width` products of at most 2 in size: six standard errors.
    assert ((z @ z.T - torch.exp(-gamma * squares)).abs() < 6 * 2 / width**0.5).all()


def test_the_usual_gamma_is_scikit_learns() -> None:
    """1 / (width x variance), which `RBFSampler` calls "scale"."""
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(1)).double() * 3 + 1
    assert np.isclose(float(usual_gamma(x)), 1 / (5 * x.numpy().var()))
