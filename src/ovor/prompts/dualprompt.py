"""DualPrompt: a general prompt for all tasks, and an expert per task (Wang et al., 2022).

In training the task is known; at inference each layer takes the expert with the nearest key.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.encoders.prefixed import Blocks, Prefix
from ovor.prompts.base import Layers, Lengths, Prompt, check_layers, matching, uniform
from ovor.prompts.oneprompt import OnePrompt, OnePromptOptions


@dataclass(frozen=True, config=STRICT)
class DualPromptOptions:
    general_lengths: Lengths = (5, 5)
    """tokens of the general prompt, for keys and for values each, at layer 0, 1 and so on"""
    expert_length: Count = 20
    """tokens of an expert prompt, for keys and for values each"""
    expert_layers: Layers = (2, 3, 4)
    """layers that have expert prompts"""
    search: Literal["seen", "all"] = "seen"
    """look among the experts of the tasks seen, or as released: among untrained ones too"""
    pool: Count = 10
    """experts made in advance, for search="all" only; it grows if more tasks come"""


class DualPrompt(Prompt):
    Options: ClassVar[type] = DualPromptOptions
    needs_query = True

    def __init__(self, options: DualPromptOptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        check_layers(options.expert_layers, arch)
        self.options, self.dim, self.tasks = options, arch.embed_dim, 0
        self.general = OnePrompt(OnePromptOptions(lengths=options.general_lengths), arch)
        self.keys = nn.ParameterList()  # per expert: layers, D
        self.experts = nn.ParameterList()  # per expert: layers, 2, P, D

    def begin_task(self, generator: torch.Generator) -> None:
        self.general.begin_task(generator)
        layers, length = len(self.options.expert_layers), self.options.expert_length
        self.tasks += 1
        in_advance = self.options.pool if self.options.search == "all" else 0
        while len(self.keys) < max(self.tasks, in_advance):
            self.keys.append(uniform(generator, layers, self.dim))
            self.experts.append(uniform(generator, layers, 2, length, self.dim))
        for tensors in (self.keys, self.experts):
            tensors.requires_grad_(False)
            tensors[self.tasks - 1].requires_grad_(True)

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        assert query is not None
        candidates = slice(self.tasks - 1, self.tasks) if self.training else slice(None)
        keys = torch.stack(list(self.keys)[candidates])  # experts, layers, D
        experts = torch.stack(list(self.experts)[candidates])  # experts, layers, 2, P, D
        cosines, nearest = F.cosine_similarity(query[:, None, None], keys, dim=-1).max(1)
        # In training there is one candidate, which need not be copied for each input.
        layers = torch.arange(keys.shape[1], device=keys.device)
        chosen = experts if self.training else experts[nearest, layers]  # B or 1, layers, 2, P, D
        prefixes, _ = self.general(None)
        for layer, prompt in zip(self.options.expert_layers, chosen.unbind(1), strict=True):
            prefixes[layer] = join(prompt.unbind(1), prefixes.get(layer))
        return prefixes, matching(cosines)


def join(expert: tuple[Tensor, ...], general: Prefix | None) -> Prefix:
    """Join the tokens of a layer that has both kinds, the expert's first."""
    k, v = expert
    if general is None:
        return k, v
    gk, gv = (g.expand(k.shape[0], -1, -1) for g in general)
    return torch.cat([k, gk], dim=1), torch.cat([v, gv], dim=1)
