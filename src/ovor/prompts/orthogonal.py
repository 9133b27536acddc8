"""Orthogonal vectors for CODA-P: how they start, and the penalty that keeps them so.

Smith et al. (2023); they start as theirs do (docs/methods.md, prompts), by matrices instead of one
by one.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def gram_schmidt(past: list[Tensor], new: Tensor) -> Tensor:
    """Subtract from new vectors (layers, n, d) their projections on the past; orthonormalise them.

    The past counts as training left it, so the new are orthogonal to it only as far as it is still
    orthogonal itself. The released loop differs a little: it projects the draw itself on the new
    before it, not what the past left of the draw, so that its new are not quite orthogonal.
    After d vectors no direction is left: a further one keeps the direction it was drawn with.
    """
    before = torch.cat([new[:, :0], *past], dim=1)  # layers, p, d
    along = new @ before.mT / before.square().sum(-1).unsqueeze(1)  # layers, n, p
    room = max(0, new.shape[2] - before.shape[1])
    q, r = torch.linalg.qr((new - along @ before)[:, :room].mT)  # layers, d, room
    signs = r.diagonal(dim1=-2, dim2=-1).sign()  # QR is free to turn a vector round
    return torch.cat([q.mT * signs.unsqueeze(-1), F.normalize(new[:, room:], dim=-1)], dim=1)


def orthogonality(x: Tensor) -> Tensor:
    """Return how far the rows of each (..., n, d) matrix are from orthonormal, by mean square."""
    return (x @ x.mT - torch.eye(x.shape[-2], device=x.device)).square().mean()
