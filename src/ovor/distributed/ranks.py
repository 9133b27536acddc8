"""The processes that do one run together, and the few words that they exchange.

Every one holds the whole model, does its share of the images, and makes the same steps. A run alone
is the case of one process, in which nothing here does anything.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

Value = TypeVar("Value")


class LostError(Exception):
    """Another process of the run no longer answers."""


@dataclass(frozen=True)
class Ranks:
    rank: int = 0
    size: int = 1

    def share(self, count: int) -> slice:
        """Which of so many rows are for this process: a block, about as long as everybody's."""
        start, stop = (-(-count * rank // self.size) for rank in (self.rank, self.rank + 1))
        return slice(start, stop)

    def shares(self, count: int) -> list[slice]:
        """Everybody's."""
        return [Ranks(rank, self.size).share(count) for rank in range(self.size)]

    def first_only(self, count: int) -> slice:
        """All rows for the first process: of work that cannot be shared."""
        return slice(0, 0 if self.rank else count)

    def gather(self, rows: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Everybody's rows, which are so many; those of the last may be left out."""
        if self.size == 1:
            return [rows]
        longest = max(lengths)
        own = rows.new_zeros(longest, *rows.shape[1:])  # all must send equally many
        own[: len(rows)] = rows
        found = [torch.empty_like(own) for _ in range(self.size)]
        with noticing_losses():
            dist.all_gather(found, own)
        return [part[:length] for part, length in zip(found, lengths, strict=False)]

    def side_by_side(self, columns: Tensor, width: int, filler: float) -> Tensor:
        """Everybody's columns of the same rows, filled up to a width."""
        if self.size == 1:
            return columns
        own = columns.new_full((len(columns), width), filler)
        own[:, : columns.shape[1]] = columns
        return torch.cat(self.gather(own, [len(own)] * self.size), dim=1)

    def sum_gradients(self, parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
        """Everybody's gradients added up, in place, and everybody's losses.

        A parameter that has none anywhere stays without, as Adam leaves such a one alone.
        """
        if self.size == 1:
            return loss
        has = torch.tensor([p.grad is not None for p in parameters], device=loss.device)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([loss.reshape(1), has.float(), *(g.flatten() for g in gradients)])
        with noticing_losses():
            dist.all_reduce(flat)  # in one go: many small ones would take longer
        lengths = [1, len(parameters), *(p.numel() for p in parameters)]
        total, anywhere, *sums = torch.split(flat, lengths)
        for parameter, found, new in zip(parameters, anywhere.tolist(), sums, strict=True):
            parameter.grad = new.view_as(parameter).to(parameter.dtype) if found else None
        return total[0]

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Take the first process's values, where all computed the same: GPUs may differ a bit."""
        if self.size == 1:
            return
        with noticing_losses(), torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def told(self, value: Value) -> Value:
        """The first process's value; it also waits for everybody."""
        if self.size == 1:
            return value
        box = [value]
        with noticing_losses():
            dist.broadcast_object_list(box, src=0)
            dist.barrier()
        return box[0]


ALONE = Ranks()


@contextmanager
def noticing_losses() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # gloo's and NCCL's are of this kind
        raise LostError(str(error)) from error
