"""The contract of networks that prompts can steer: blocks of attention that take prefixes (Sec. 3).

A prefix is keys and values that every token of a block attends to beside the others. It does not
matter to a prompt what the network reads.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ovor.encoders.base import Encoder


class Added(NamedTuple):
    """What is added to the class token's own key and value, instead of tokens before all others."""

    key: Tensor  # (B or 1), 1, D
    value: Tensor


Prefix = tuple[Tensor, Tensor]  # keys and values, each (B or 1), P, D; or `Added`
Prefixes = Mapping[int, Prefix]  # by layer, counted from 0


class Blocks(Protocol):
    """What a prompt must know of a network."""

    @property
    def embed_dim(self) -> int: ...

    @property
    def depth(self) -> int: ...


class Prefixed(Encoder):
    """A network whose blocks take prefixes."""

    arch: Blocks

    def embed(self, images: Tensor) -> Tensor:
        """Return what both passes of a prompt share, the query's and the prompted one."""
        raise NotImplementedError

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        """Turn what `embed` returned into one feature each (B, D)."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        return self.arch.embed_dim

    def forward(self, images: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        return self.encode(self.embed(images), prefixes)


def with_prefix(
    keys: Tensor, values: Tensor, prefix: Prefix, batch: int, heads: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the keys and values (B, H, N, D/H) of a block with a prefix, which `heads` splits."""
    more = [heads(part.to(keys.dtype).expand(batch, -1, -1)) for part in prefix]
    if isinstance(prefix, Added):
        more = [a + b[:, :, :1] for a, b in zip(more, (keys, values), strict=True)]
        keys, values = keys[:, :, 1:], values[:, :, 1:]
    return torch.cat([more[0], keys], dim=2), torch.cat([more[1], values], dim=2)
