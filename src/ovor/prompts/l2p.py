"""L2P: each input takes the prompts whose keys are nearest to its query (Wang et al., 2022).

One pool serves all tasks and is trained throughout; the paper's L2P has it at layer 0 only.
"""

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.encoders.prefixed import Blocks, Prefix
from ovor.errors import OvorError
from ovor.prompts.base import Layers, Prompt, check_layers, matching, uniform


@dataclass(frozen=True, config=STRICT)
class L2POptions:
    pool: Count = 30
    """prompts in the pool of a layer"""
    top_k: Count = 5
    """prompts that an input takes from it"""
    length: Count = 10
    """prefix tokens of one prompt, for keys and for values each"""
    layers: Layers = (0,)
    """layers that have a pool"""
    match: Literal["sample", "batch"] = "sample"
    """pull a key to the inputs that took it, or as released: to all inputs of the batch"""


class L2P(Prompt):
    Options: ClassVar[type] = L2POptions
    needs_query = True

    def __init__(self, options: L2POptions, arch: Blocks) -> None:
        super().__init__(options, arch)
        check_layers(options.layers, arch)
        if options.top_k > options.pool:
            raise OvorError(f"top_k={options.top_k} is more than pool={options.pool}; lower it.")
        self.options, self.dim = options, arch.embed_dim
        self.separable = options.match == "sample"
        self.keys = nn.ParameterList()  # one tensor: layers, pool, D
        self.prompts = nn.ParameterList()  # one tensor: layers, pool, 2, P, D

    def begin_task(self, generator: torch.Generator) -> None:
        if not len(self.keys):
            pools = (len(self.options.layers), self.options.pool)
            self.keys.append(uniform(generator, *pools, self.dim))
            self.prompts.append(uniform(generator, *pools, 2, self.options.length, self.dim))

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        assert query is not None
        cosines = F.cosine_similarity(query[:, None, None], self.keys[0], dim=-1)  # B, layers, pool
        top = cosines.topk(self.options.top_k).indices  # B, layers, k
        # As embeddings: the gradient of an indexed tensor adds up in any order by several threads.
        rows = top + self.options.pool * torch.arange(top.shape[1], device=top.device)[:, None]
        pool = self.prompts[0]
        taken = F.embedding(rows, pool.flatten(0, 1).flatten(1))  # B, layers, k, 2 P D
        taken = taken.view(*rows.shape, *pool.shape[2:])  # B, layers, k, 2, P, D
        keys, values = (x.flatten(2, 3).unbind(1) for x in taken.unbind(3))
        prefixes = zip(keys, values, strict=True)
        loss = matching(self.matched(cosines, top))
        return dict(zip(self.options.layers, prefixes, strict=True)), loss

    def matched(self, cosines: Tensor, top: Tensor) -> Tensor:
        """Return the cosines that enter the loss."""
        if self.options.match == "sample":
            return cosines.gather(2, top)
        # Every query meets every key that anybody took, as often as it was taken: the mean over
        # that B x B x k tensor, without making it.
        taken = F.one_hot(top, self.options.pool).sum((0, 2))  # layers, pool
        share = taken / taken.sum(1, keepdim=True)
        return (cosines.mean(0) * share).sum(1)
