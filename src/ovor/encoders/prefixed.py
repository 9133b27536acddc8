"""The contract of networks that prompts can steer: blocks of attention that take prefixes (Sec. 3).

A prefix is keys and values that every token of a block attends to beside the others. It does not
matter to a prompt what the network reads.
"""

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from ovor.encoders.base import Encoder

Prefix = tuple[Tensor, Tensor]  # keys and values, each (B or 1), P, D
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
