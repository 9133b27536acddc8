"""A classifier by angles that grows by one task's classes at a time, and its loss with a margin."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineHead(nn.Module):
    """A vector a class, without bias; logits are cosines."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.tasks = nn.ParameterList()  # per task: classes, D

    def begin_task(self, classes: int, generator: torch.Generator) -> None:
        self.requires_grad_(False)
        bound = self.dim**-0.5  # torch's own default for a Linear
        weights = torch.empty(classes, self.dim).uniform_(-bound, bound, generator=generator)
        self.tasks.append(nn.Parameter(weights))

    def current(self, features: Tensor) -> Tensor:
        return cosines(features, self.tasks[-1])

    def forward(self, features: Tensor) -> Tensor:
        return cosines(features, torch.cat(list(self.tasks)))

    def forget(self, task: int, row: int) -> None:
        """Remove a class, given as a row of its task."""
        old = self.tasks[task]
        kept = torch.cat([old[:row], old[row + 1 :]]).detach()
        self.tasks[task] = nn.Parameter(kept, old.requires_grad)


def cosines(features: Tensor, vectors: Tensor) -> Tensor:
    return F.normalize(features) @ F.normalize(vectors).T


def margin_loss(cosines: Tensor, labels: Tensor, scale: float, margin: float) -> Tensor:
    """Return the cross-entropy of scaled cosines, the true class's being less by the margin."""
    less = margin * F.one_hot(labels, cosines.shape[1])
    return F.cross_entropy(scale * (cosines - less), labels)
