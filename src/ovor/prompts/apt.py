"""APT: two vectors a layer, added to the class token's key and value (Chen et al., 2025).

No token is added and nothing is selected. Each task goes on from the last one's vectors; inference
takes their moving average over the tasks (the paper's progressive prompt fusion).
"""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT
from ovor.encoders.prefixed import Added, Blocks, Prefix
from ovor.prompts.base import Prompt

INITIAL = 0.02  # standard deviation of the first task's vectors


@dataclass(frozen=True, config=STRICT)
class AptOptions:
    keep: Annotated[float, Field(ge=0, le=1)] = 0.7
    """the paper's alpha: weight of the earlier tasks' average beside the new task's vectors"""


class Apt(Prompt):
    Options: ClassVar[type] = AptOptions
    needs_query = False
    average: Tensor  # of the tasks before the current one

    def __init__(self, options: AptOptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        self.options, self.tasks = options, 0
        self.shape = (arch.depth, 2, 1, arch.embed_dim)  # layers, key and value, one token, D
        self.prompts = nn.ParameterList()  # one tensor
        self.register_buffer("average", torch.zeros(self.shape))

    @torch.no_grad()
    def begin_task(self, generator: torch.Generator) -> None:
        if self.tasks:
            self.average.copy_(self.fused())
        else:
            first = torch.empty(self.shape, device=generator.device)
            nn.init.trunc_normal_(first, std=INITIAL, generator=generator)
            self.prompts.append(nn.Parameter(first))
        self.tasks += 1

    def fused(self) -> Tensor:
        """Return what inference adds: the average, with the current task's vectors in it."""
        current: Tensor = self.prompts[0]
        if self.tasks < 2:
            return current
        return self.options.keep * self.average + (1 - self.options.keep) * current

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        vectors = self.prompts[0] if self.training else self.fused()
        layers = {layer: Added(both[:1], both[1:]) for layer, both in enumerate(vectors)}
        return dict(layers), torch.zeros(())
