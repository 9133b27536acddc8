"""Images inside tar shards, read one by one where the index says that they are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ovor.data.base import Integers
from ovor.data.folders import decoded
from ovor.data.tar_index import Samples, Shard, members
from ovor.errors import OvorError

OPEN = 128  # files at a time, of the 256 or more that systems allow a process


@dataclass(frozen=True, eq=False)
class TarImages:
    """As many bytes in memory as an index has; files are opened by the process that reads."""

    shards: tuple[Shard, ...]
    places: NDArray[np.int32]
    """of each image, the position of its shard"""
    offsets: Integers
    sizes: Integers
    labels: Integers

    def __len__(self) -> int:
        return len(self.labels)

    def chosen(self, mask: NDArray[np.bool_]) -> "TarImages":
        return TarImages(
            self.shards,
            self.places[mask],
            self.offsets[mask],
            self.sizes[mask],
            self.labels[mask],
        )

    def image(self, index: int) -> Image.Image:
        member = Member(self.shards[self.places[index]], int(self.offsets[index]))
        return decoded(BytesIO(self.origin(index)), member)

    def origin(self, index: int) -> bytes:
        """The file as it is in the tar. A read at a place, without seeking, suits threads too."""
        shard = self.shards[self.places[index]]
        file = _opened(shard)
        stat = os.fstat(file.fileno())
        if (stat.st_size, stat.st_mtime_ns) != (shard.size, shard.modified):
            raise OvorError(
                f"{shard.path} changed during the run: start the run anew, and leave its shards "
                "alone meanwhile."
            )
        return os.pread(file.fileno(), int(self.sizes[index]), int(self.offsets[index]))


@lru_cache(maxsize=OPEN)
def _opened(shard: Shard) -> IO[bytes]:
    """What falls out of the cache is closed once nobody reads it."""
    try:
        return shard.path.open("rb", buffering=0)
    except OSError as error:
        raise OvorError(
            f"{shard.path} cannot be opened any more ({error.strerror}): put it back, and start "
            "the run anew."
        ) from error


@dataclass(frozen=True)
class Member:
    """For a sentence about it; its name is looked up when it is needed, the index has none."""

    shard: Shard
    offset: int

    def __str__(self) -> str:
        found = (m.name for m in members(self.shard.path) if m.offset_data == self.offset)
        return f"{next(found, f'at byte {self.offset:,}')} in {self.shard.path}"


def tar_images(parts: Sequence[tuple[Shard, Samples]], labels: Integers) -> TarImages:
    """The samples of the shards one after the other; `labels` go with them."""
    counts = [len(samples) for _, samples in parts]
    return TarImages(
        tuple(shard for shard, _ in parts),
        np.repeat(np.arange(len(parts), dtype=np.int32), counts),
        np.concatenate([samples["offset"] for _, samples in parts]),
        np.concatenate([samples["size"] for _, samples in parts]),
        labels,
    )
