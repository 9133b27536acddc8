"""Images as a network gets them, in batches that are the same every time.

With several processes each looks at some of the batches, and all get what all have seen, in the
order and with the bits of one process: a batch is never divided, and so is never rounded otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from ovor.distributed.ranks import ALONE, Ranks

Pair = tuple[Tensor, Tensor]  # images or features, and their labels


def nobody(images: int) -> None:
    """Listens to nothing."""


@dataclass(frozen=True, eq=False)
class Views:
    load: Callable[[Sequence[int]], Iterator[Pair]]
    """the batches of these numbers"""
    lengths: Sequence[int]
    """images of each batch"""
    ranks: Ranks = ALONE
    tell: Callable[[int], None] = nobody
    """how many images of a batch were seen"""

    @classmethod
    def of(cls, batches: Sequence[Pair]) -> "Views":
        return cls(
            lambda numbers: (batches[number] for number in numbers),
            [len(labels) for _, labels in batches],
        )

    def __iter__(self) -> Iterator[Pair]:
        """All of them, in every process."""
        for images, labels in self.load(range(len(self.lengths))):
            self.tell(len(labels))
            yield images, labels

    def seen(self, look: Callable[[Tensor], Tensor]) -> Iterator[Pair]:
        """What `look` makes of each batch, with the labels, each batch in one process."""
        size = self.ranks.size
        rounds = range(0, len(self.lengths), size)
        # Who has nothing to do in the last round looks at the last batch too: all rows have a shape
        # to be exchanged in, and nobody waits longer.
        last = len(self.lengths) - 1
        own = [min(first + self.ranks.rank, last) for first in rounds]
        for first, (images, labels) in zip(rounds, self.load(own), strict=True):
            lengths = self.lengths[first : first + size]
            exchanged = (self.ranks.all_gather(rows, lengths) for rows in (look(images), labels))
            for features, of_them in zip(*exchanged, strict=True):
                self.tell(len(of_them))
                yield features, of_them


def batch_lengths(images: int, batch_size: int) -> list[int]:
    return [min(batch_size, images - start) for start in range(0, images, batch_size)]
