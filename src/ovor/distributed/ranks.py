"""The processes (ranks) that do one run together, and what they exchange.

Every rank holds the whole model, computes its shard of each batch, and makes the same steps. In a
run by one process, all of this returns its input unchanged.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

Value = TypeVar("Value")


class RankLostError(Exception):
    """An exchange failed because another process of the run is gone."""


@dataclass(frozen=True)
class Ranks:
    """This process's number among those of the run, counted from 0, and how many they are."""

    rank: int = 0
    size: int = 1

    def shard(self, count: int) -> slice:
        """Return this rank's block of `count` rows; blocks differ by one row at most."""
        start, stop = (-(-count * rank // self.size) for rank in (self.rank, self.rank + 1))
        return slice(start, stop)

    def shards(self, count: int) -> list[slice]:
        """Return every rank's block of `count` rows, in order of rank."""
        return [Ranks(rank, self.size).shard(count) for rank in range(self.size)]

    def all_on_first(self, count: int) -> slice:
        """Return all `count` rows on rank 0 and none elsewhere, for work that cannot be split."""
        return slice(0, 0 if self.rank else count)

    def all_gather(self, rows: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Return every rank's rows, in order of rank.

        `lengths` says how many rows each rank has; ranks beyond its end are left out.
        """
        if self.size == 1:
            return [rows]
        longest = max(lengths)
        own = rows.new_zeros(longest, *rows.shape[1:])  # all_gather wants equal shapes
        own[: len(rows)] = rows
        found = [torch.empty_like(own) for _ in range(self.size)]
        with detecting_lost_ranks():
            dist.all_gather(found, own)
        return [part[:length] for part, length in zip(found, lengths, strict=False)]

    def gather_columns(self, columns: Tensor, width: int, filler: float) -> Tensor:
        """Return every rank's columns of the same rows, each rank's padded to `width`."""
        if self.size == 1:
            return columns
        own = columns.new_full((len(columns), width), filler)
        own[:, : columns.shape[1]] = columns
        return torch.cat(self.all_gather(own, [len(own)] * self.size), dim=1)

    def all_reduce_gradients(self, parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
        """Replace each gradient by its sum over ranks, and return the sum of the losses.

        A parameter without a gradient on every rank keeps none, so that Adam does not move it.
        """
        if self.size == 1:
            return loss
        has = torch.tensor([p.grad is not None for p in parameters], device=loss.device)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([loss.reshape(1), has.float(), *(g.flatten() for g in gradients)])
        with detecting_lost_ranks():
            dist.all_reduce(flat)  # one exchange is faster than one for each parameter
        lengths = [1, len(parameters), *(p.numel() for p in parameters)]
        total, anywhere, *sums = torch.split(flat, lengths)
        for parameter, found, new in zip(parameters, anywhere.tolist(), sums, strict=True):
            parameter.grad = new.view_as(parameter).to(parameter.dtype) if found else None
        return total[0]

    def synchronize(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors that all ranks computed alike by rank 0's: GPUs may round apart."""
        if self.size == 1:
            return
        with detecting_lost_ranks(), torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def broadcast(self, value: Value) -> Value:
        """Return rank 0's value, after every rank has come here."""
        if self.size == 1:
            return value
        box = [value]
        with detecting_lost_ranks():
            dist.broadcast_object_list(box, src=0)
            dist.barrier()
        return box[0]


ALONE = Ranks()


@contextmanager
def detecting_lost_ranks() -> Iterator[None]:
    """Turn what torch raises in a failed exchange into RankLostError."""
    try:
        yield
    except RuntimeError as error:  # the base class of gloo's and NCCL's errors
        raise RankLostError(str(error)) from error
