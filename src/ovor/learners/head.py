"""A linear classifier that grows by one task's classes at a time; older parts are frozen."""

import torch
from torch import Tensor, nn

from ovor.encoders.base import with_memory


class GrowingHead(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.tasks = nn.ModuleList()

    def begin_task(self, classes: int, generator: torch.Generator) -> None:
        self.requires_grad_(False)
        with torch.device("meta"):  # no values yet: they must not come from the global generator
            part = nn.Linear(self.dim, max(1, classes))
        with_memory(part)
        bound = self.dim**-0.5  # torch's own default for a Linear
        for parameter in part.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        self.tasks.append(part)
        if not classes:  # all of them are forgotten; torch would warn of a layer without outputs
            self.forget(len(self.tasks) - 1, 0)

    def current(self, features: Tensor) -> Tensor:
        return self.tasks[-1](features)  # type: ignore[no-any-return]

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([part(features) for part in self.tasks], dim=1)

    def forget(self, task: int, row: int) -> None:
        """Remove a class, given as a row of its task's part."""
        part: nn.Linear = self.tasks[task]  # type: ignore[assignment]
        part.out_features -= 1
        for name, old in list(part.named_parameters()):
            kept = torch.cat([old[:row], old[row + 1 :]]).detach()
            setattr(part, name, nn.Parameter(kept, old.requires_grad))
