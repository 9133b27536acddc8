"""Which images were learned, as far as their digests are kept (`--once`).

A digest tells whether the network has seen the same pixels before, and nothing else of an image.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from ovor.classifier.collect import as_bytes


class Digests(dict[bytes, int]):
    """The row of the class that each known image was learned as."""

    def state(self) -> dict[str, Tensor]:
        """Return digests and rows as tensors."""
        rows = torch.tensor(list(self.values()), dtype=torch.int32)
        return {"digests": as_bytes(list(self)), "rows": rows}

    @classmethod
    def of_state(cls, state: dict[str, Tensor]) -> "Digests":
        """Return what `state` was made from."""
        keys = (bytes(row) for row in state["digests"].numpy())
        return cls(zip(keys, state["rows"].tolist(), strict=True))

    def without_row(self, row: int) -> "Digests":
        """Return the digests after a class has gone: later rows move up."""
        return Digests({key: at - (at > row) for key, at in self.items() if at != row})

    def moved(self, rows: list[int]) -> "Digests":
        """Return the same with rows of another model, where row i is rows[i]."""
        return Digests({key: rows[at] for key, at in self.items()})

    def less(self, keys: Iterable[bytes]) -> "Digests":
        """Return the digests but for these."""
        gone = set(keys)
        return Digests({key: at for key, at in self.items() if key not in gone})
