"""Batches of images as the network gets them, the same every time, for one or several processes.

With several processes each encodes some of the batches, and all get what all have encoded, in the
order and with the bits of one process: a batch is never divided, and so is never rounded otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks

Pair = tuple[Tensor, Tensor]  # images or features, and their labels


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of normalised images with their labels, loaded when they are asked for."""

    load: Callable[[Sequence[int]], Iterator[Pair]]
    """loads the batches of these numbers"""
    lengths: Sequence[int]
    """images of each batch"""
    ranks: Ranks = ALONE
    tell: Callable[[int], None] = lambda images: None
    """hears how many images each batch had that is done"""

    def __iter__(self) -> Iterator[Pair]:
        """Yield every batch, in every process."""
        for images, labels in self.load(range(len(self.lengths))):
            self.tell(len(labels))
            yield images, labels

    def encoded(self, encode: Callable[[Tensor], Tensor]) -> Iterator[Pair]:
        """Yield what `encode` makes of each batch, with its labels; one process encodes a batch."""
        size = self.ranks.size
        rounds = range(0, len(self.lengths), size)
        # A process with nothing to do in the last round encodes the last batch too: all rows have a
        # shape to be exchanged in, and nobody waits longer.
        last = len(self.lengths) - 1
        own = [min(first + self.ranks.rank, last) for first in rounds]
        for first, (images, labels) in zip(rounds, self.load(own), strict=True):
            lengths = self.lengths[first : first + size]
            exchanged = (self.ranks.all_gather(rows, lengths) for rows in (encode(images), labels))
            for features, of_them in zip(*exchanged, strict=True):
                self.tell(len(of_them))
                yield features, of_them


def batch_lengths(images: int, batch_size: int) -> list[int]:
    """Return how many images each batch has; the last may be short."""
    return [min(batch_size, images - start) for start in range(0, images, batch_size)]
