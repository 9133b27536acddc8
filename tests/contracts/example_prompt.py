"""Task-mean prompt: a prompt per task, and the mean of them all as the prefix for every input.

A past prompt never changes again, and a new one starts as the mean, so no task starts with a jump.
"""

from typing import ClassVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.encoders.prefixed import Blocks, Prefix
from ovor.prompts.base import Layers, Prompt, check_layers, uniform


@dataclass(frozen=True, config=STRICT)
class TaskMeanOptions:
    length: Count = 5
    """prefix tokens, for keys and for values each"""
    layers: Layers = (0, 1, 2, 3, 4)
    """layers that have a prompt"""


class TaskMean(Prompt):
    Options: ClassVar[type] = TaskMeanOptions
    needs_query = False

    def __init__(self, options: TaskMeanOptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        check_layers(options.layers, arch)
        self.layers = options.layers
        self.shape = (len(options.layers), 2, options.length, arch.embed_dim)
        self.prompts = nn.ParameterList()  # per task: layers, 2 (keys, values), P, D

    def mean(self) -> Tensor:
        return torch.stack(list(self.prompts)).mean(0)

    def begin_task(self, generator: torch.Generator) -> None:
        self.requires_grad_(False)
        first = not len(self.prompts)
        self.prompts.append(uniform(generator, *self.shape) if first else nn.Parameter(self.mean()))

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        layers = zip(self.layers, self.mean(), strict=True)
        return {layer: (p[:1], p[1:]) for layer, p in layers}, torch.zeros(())
