"""The contract of every prompt method, and the few lines that several of them share.

A prompt turns a query into key/value prefixes for some layers (Sec. 3) and an auxiliary loss.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from ovor.encoders.prefixed import Blocks, Prefix
from ovor.errors import OvorError

Natural = Annotated[int, Field(ge=0)]
Lengths = tuple[Natural, ...]  # at layer 0, 1, 2 and so on
Layers = Annotated[tuple[Natural, ...], Field(min_length=1)]


class Prompt(nn.Module):
    """Makes prefixes that learn, task after task.

    `requires_grad` says what the current task may learn: each task has a new optimiser of exactly
    that. `training` tells training from inference.
    """

    Options: ClassVar[type]  # frozen, every field with a default
    needs_query: ClassVar[bool]  # is the unprompted CLS feature wanted?
    separable: bool = True  # is the loss of a batch the mean of its images' losses?

    def __init__(self, options: Any, arch: Blocks) -> None:
        super().__init__()

    def begin_task(self, generator: torch.Generator) -> None:
        """Make what the next task needs, and freeze what it must not change.

        All randomness is the generator's, and new tensors are on its device. The number of tasks
        is not known in advance; a checkpoint is loaded after as many calls as it has seen.
        """
        raise NotImplementedError

    def forward(self, query: Tensor | None) -> tuple[dict[int, Prefix], Tensor]:
        """Turn queries (B, D) into prefixes by layer, each (B or 1), P, D, and a scalar loss."""
        raise NotImplementedError


def uniform(generator: torch.Generator, *shape: int) -> nn.Parameter:
    """Draw from U(0, 1), as every prompt and key but CODA's starts (docs/methods.md, prefixes)."""
    return nn.Parameter(torch.rand(shape, generator=generator, device=generator.device))


def check_layers(layers: Sequence[int], arch: Blocks) -> None:
    """Refuse layers that are named twice or that the backbone does not have."""
    if len(set(layers)) < len(layers):
        raise OvorError(f"The prompt names a layer twice in {tuple(layers)}; name each once.")
    if max(layers, default=0) >= arch.depth:
        raise OvorError(
            f"The prompt wants layer {max(layers)}, but the backbone's layers are 0 to "
            f"{arch.depth - 1}; choose fewer or lower layers, or a deeper backbone."
        )


def matching(cosines: Tensor) -> Tensor:
    """Return the loss that pulls keys to the queries that use them."""
    return (1 - cosines).mean()
