"""Parameter-efficient tuning of a ViT copy: VPT, adapters, SSF, or all weights (for ADAM, RanPAC).

Each function adds to a copy a few parameters that learn; the original, and what the copy shares
with it, stay as they are.
"""

import copy
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ovor.encoders.prefixed import Prefix
from ovor.encoders.vit import Block, VisionTransformer


class TokenBlock(nn.Module):
    """Visual prompt tuning: learned tokens join the others in a block, and leave after it."""

    def __init__(self, block: Block, tokens: int, dim: int, leave: bool) -> None:
        super().__init__()
        self.block = block
        self.tokens = nn.Parameter(torch.zeros(1, tokens, dim))
        self.leave = leave

    def forward(
        self, x: Tensor, prefix: Prefix | None = None, queries: int | None = None
    ) -> Tensor:
        count = x.shape[1]
        x = self.block(
            torch.cat([x, self.tokens.expand(x.shape[0], -1, -1)], dim=1), prefix, queries
        )
        return x[:, :count] if self.leave else x


class AdapterBlock(nn.Module):
    """AdaptFormer: a bottleneck beside the MLP, which adds nothing at first."""

    def __init__(self, block: Block, bottleneck: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.block = block
        self.down = nn.Parameter(torch.empty(bottleneck, dim))
        self.down_bias = nn.Parameter(torch.zeros(bottleneck))
        self.up = nn.Parameter(torch.zeros(dim, bottleneck))
        self.up_bias = nn.Parameter(torch.zeros(dim))
        nn.init.kaiming_uniform_(self.down, a=5**0.5, generator=generator)

    def forward(
        self, x: Tensor, prefix: Prefix | None = None, queries: int | None = None
    ) -> Tensor:
        x = self.block.attend(x, prefix, queries)
        narrow = F.relu(F.linear(x, self.down, self.down_bias))
        return self.block.feed(x) + 0.1 * F.linear(narrow, self.up, self.up_bias)


class Scale(nn.Module):
    """SSF's scale, on the output channels of a weight."""

    def __init__(self, gamma: nn.Parameter) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.gamma.view(-1, *[1] * (weight.dim() - 1))


class ScaleShift(nn.Module):
    """SSF's scale and shift, on a bias."""

    def __init__(self, gamma: nn.Parameter, beta: nn.Parameter) -> None:
        super().__init__()
        self.gamma, self.beta = gamma, beta

    def forward(self, bias: Tensor) -> Tensor:
        return bias * self.gamma + self.beta


def with_tokens(vit: VisionTransformer, tokens: int, deep: bool) -> None:
    """Add learned tokens to the first block or, if deep, other ones to every block."""
    for number in range(len(vit.blocks) if deep else 1):
        block = vit.blocks[number]
        assert isinstance(block, Block)
        vit.blocks[number] = TokenBlock(block, tokens, vit.arch.embed_dim, leave=deep)


def with_adapters(vit: VisionTransformer, bottleneck: int, generator: torch.Generator) -> None:
    """Add an adapter to every block."""
    for number, block in enumerate(vit.blocks):
        assert isinstance(block, Block)
        vit.blocks[number] = AdapterBlock(block, bottleneck, vit.arch.embed_dim, generator)


def with_scale_and_shift(vit: VisionTransformer, generator: torch.Generator) -> None:
    """Add gamma * y + beta after every linear map and norm, folded into its weight and bias."""
    for module in list(vit.modules()):
        if not isinstance(module, nn.Linear | nn.LayerNorm | nn.Conv2d):
            continue
        if module.bias is None:
            module.bias = nn.Parameter(torch.zeros(len(module.weight)), requires_grad=False)
        noise = torch.randn(2, len(module.weight), generator=generator) * 0.02
        gamma, beta = nn.Parameter(1 + noise[0]), nn.Parameter(noise[1])
        parametrize.register_parametrization(module, "weight", Scale(gamma))
        parametrize.register_parametrization(module, "bias", ScaleShift(gamma, beta))


def with_all_weights(vit: nn.Module) -> None:
    """Let every weight learn, so that none is shared with the original any more."""
    for module in vit.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(parameter.detach().clone()))


def with_attention(vit: VisionTransformer) -> None:
    """Let the weights that make queries, keys and values learn, in every block."""
    for block in vit.blocks:
        assert isinstance(block, Block)
        with_all_weights(block.attn.qkv)


Tunings = Literal["none", "adapter", "ssf", "vpt-deep", "finetune"]
Tuning = Callable[[VisionTransformer, torch.Generator], None]


def tune(
    vit: VisionTransformer, kind: str, bottleneck: int, tokens: int, draw: torch.Generator
) -> None:
    """Add to the network the parameters of a kind of tuning, by its name."""
    match kind:
        case "adapter":
            with_adapters(vit, bottleneck, draw)
        case "ssf":
            with_scale_and_shift(vit, draw)
        case "vpt-deep":
            with_tokens(vit, tokens, deep=True)
        case "finetune":
            with_all_weights(vit)


def tuned_copy(vit: VisionTransformer, tuning: Tuning, draw: torch.Generator) -> VisionTransformer:
    """Return a copy that shares the frozen weights, with what the tuning adds, which learns."""
    clone = shared_copy(vit)
    tuning(clone, draw)
    return clone


def shared_copy(vit: VisionTransformer) -> VisionTransformer:
    """Return a network of its own structure with the same weights in memory."""
    shared = {id(p): p for p in vit.parameters()}
    return copy.deepcopy(vit, memo=dict(shared))
