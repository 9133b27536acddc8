"""CODA-P: a prompt composed of weighted components, to which each task adds (Smith et al., 2023).

The weights are cosines between the attended query and the keys; past components are frozen.
"""

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.encoders.prefixed import Blocks, Prefix
from ovor.prompts.base import Layers, Prompt, check_layers
from ovor.prompts.orthogonal import gram_schmidt, orthogonality


@dataclass(frozen=True, config=STRICT)
class CodaPOptions:
    per_task: Count = 10
    """components that each task adds at each layer (the paper: 100 in all, so 100 // tasks)"""
    length: Count = 4
    """prefix tokens, for keys and for values each"""
    layers: Layers = (0, 1, 2, 3, 4)
    """layers that have a prompt"""
    ortho: Annotated[float, Field(ge=0)] = 0.0
    """weight of the orthogonality penalty"""


class CodaP(Prompt):
    Options: ClassVar[type] = CodaPOptions
    needs_query = True

    def __init__(self, options: CodaPOptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        check_layers(options.layers, arch)
        self.options, self.dim = options, arch.embed_dim
        self.keys = nn.ParameterList()  # per task: layers, n, D
        self.attention = nn.ParameterList()  # per task: layers, n, D
        self.components = nn.ParameterList()  # per task: layers, n, 2PD

    def begin_task(self, generator: torch.Generator) -> None:
        self.requires_grad_(False)
        layers, n, dim = len(self.options.layers), self.options.per_task, self.dim
        sizes = (dim, dim, 2 * self.options.length * dim)
        pools = (self.keys, self.attention, self.components)
        for pool, size in zip(pools, sizes, strict=True):
            new = torch.randn(layers, n, size, generator=generator)
            pool.append(nn.Parameter(gram_schmidt([p.to(new.device) for p in pool], new)))

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        assert query is not None
        pools = (self.keys, self.attention, self.components)
        keys, attention, components = (torch.cat(list(pool), dim=1) for pool in pools)
        weights = attended_cosines(query, attention, keys)  # B, layers, n
        prompts = torch.einsum("bln,lnd->lbd", weights, components)
        tokens = prompts.view(*prompts.shape[:2], 2, self.options.length, self.dim)
        prefixes = {n: (p[:, 0], p[:, 1]) for n, p in zip(self.options.layers, tokens, strict=True)}
        if not self.options.ortho:
            return prefixes, torch.zeros(())
        penalty = orthogonality(keys) + orthogonality(attention) + orthogonality(components)
        return prefixes, self.options.ortho * penalty


def attended_cosines(query: Tensor, attention: Tensor, keys: Tensor) -> Tensor:
    """Return cos(q * A, K) of all components, without making a B x layers x n x D tensor."""
    dots = torch.einsum("bd,lnd->bln", query, attention * F.normalize(keys, dim=-1))
    squares = torch.einsum("bd,lnd->bln", query.square(), attention.square())
    return dots / squares.clamp_min(1e-16).sqrt()
