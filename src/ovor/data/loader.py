"""Batches of views, for training and for tests, as numpy has them.

Shuffles and augmentation are pure functions of (seed, task, epoch, sample index): the numbers of
workers and of processes and the batch size change nothing, and a resumed run equals an unbroken
one. Images stay bytes until they are on the device (`Encoder.tensor`): a quarter of the memory goes
there, and from process to process.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import (
    get_all_start_methods,
    get_start_method,
    parent_process,
    set_forkserver_preload,
)
from threading import Thread

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ovor.config import Transform
from ovor.data.base import Integers, Items
from ovor.data.modality import IMAGES, Modality, View
from ovor.distributed.ranks import ALONE
from ovor.errors import OvorError

Batch = tuple[Tensor, Tensor]  # views, of images B, H, W, 3 bytes; labels: B

# The first number of every seed sequence: without it sample 0 would reuse the shuffle's numbers.
SHUFFLE, VIEW = 1, 2


def train_batches(
    items: Items,
    indices: Integers,
    labels: Integers,
    transform: Transform,
    *,
    seed: int,
    task: int,
    epoch: int,
    batch_size: int,
    workers: int,
    rows: Callable[[int], slice] = ALONE.shard,
    numbers: Sequence[int] | None = None,
    reads: Modality = IMAGES,
) -> Iterator[Batch]:
    """Yield an epoch of shuffled views; `labels` go with `indices`, the last batch may be short.

    `rows` says which rows of a batch of so many images to read; `numbers` are the batches to make,
    by default all.
    """
    order = np.random.default_rng((SHUFFLE, seed, task, epoch)).permutation(len(indices))
    stream = [word for number in (VIEW, seed, task, epoch) for word in _words(number)]
    look = partial(_random_view, items, reads, transform, stream)
    batches = _BatchMaker(
        look, reads.blank(transform), indices[order], labels[order], batch_size, rows
    )
    return _load(batches, workers, numbers)


def test_batches(
    items: Items,
    indices: Integers,
    labels: Integers,
    transform: Transform,
    *,
    batch_size: int,
    workers: int,
    numbers: Sequence[int] | None = None,  # noqa: PT028, it is no test
    reads: Modality = IMAGES,  # noqa: PT028
) -> Iterator[Batch]:
    """Yield the images in their order, without chance: all batches, or those of these numbers."""
    look = partial(_plain_view, items, reads, transform)
    batches = _BatchMaker(look, reads.blank(transform), indices, labels, batch_size, ALONE.shard)
    return _load(batches, workers, numbers)


def _words(number: int) -> list[int]:
    """Split a number into words of 32 bits, the lowest first, as numpy itself splits a seed.

    Done once for an epoch, it saves numpy from doing it for every image.
    """
    high, low = divmod(number, 2**32)
    return [low, *_words(high)] if high else [low]


def _random_view(
    items: Items, reads: Modality, transform: Transform, stream: list[int], index: int
) -> View:
    rng = np.random.default_rng(np.array([*stream, index], np.uint32))
    return reads.random_view(items.item(index), transform, rng)


def _plain_view(items: Items, reads: Modality, transform: Transform, index: int) -> View:
    return reads.view(items.item(index), transform)


@dataclass(frozen=True, eq=False)
class _BatchMaker(TorchDataset[Batch | OvorError]):
    """Makes batch number b on demand and all at once, which is cheaper than image by image."""

    look: Callable[[int], View]
    like: View  # has the shape and the type of every view
    indices: Integers
    labels: Integers
    batch_size: int
    rows: Callable[[int], slice]

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def __getitem__(self, number: int) -> Batch | OvorError:
        """Return a batch, or the user's error: raised in a worker it would become a traceback."""
        try:
            return self._batch(number)
        except OvorError as error:
            return error

    def _batch(self, number: int) -> Batch:
        whole = slice(number * self.batch_size, (number + 1) * self.batch_size)
        rows = self.rows(len(self.indices[whole]))
        indices = self.indices[whole][rows].tolist()
        views = np.empty((len(indices), *self.like.shape), self.like.dtype)
        for row, index in enumerate(indices):
            views[row] = self.look(index)
        return torch.from_numpy(views), torch.from_numpy(self.labels[whole][rows].copy())


def _load(batches: _BatchMaker, workers: int, numbers: Sequence[int] | None) -> Iterator[Batch]:
    with warnings.catch_warnings():  # torch advises against more workers than cores, twice
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        # With a generator of its own the loader leaves torch's global one alone.
        loader: DataLoader[Batch | OvorError] = DataLoader(
            batches,
            batch_size=None,
            sampler=range(len(batches)) if numbers is None else numbers,
            num_workers=workers,
            multiprocessing_context=_way_to_start() if workers else None,
            generator=torch.Generator(),
            worker_init_fn=_end_with_parent,
        )
        loaded = iter(loader)
    try:
        for batch in loaded:
            if isinstance(batch, OvorError):
                raise batch
            yield batch[0], batch[1]
    finally:
        del loaded  # ends the workers now, not when whoever caught an error forgets it


def _way_to_start() -> str | None:
    """Choose how workers are started: as usual, unless each would have to load torch anew.

    That is so in processes that were spawned themselves, as those of a grid are, and would be paid
    for every pass over images; a server that has loaded torch once then forks the workers.
    """
    if get_start_method() != "spawn" or "forkserver" not in get_all_start_methods():
        return None
    set_forkserver_preload([__name__])
    return "forkserver"


def _end_with_parent(worker: int) -> None:
    """Let a worker end when the process that it loads for is killed; torch watches the server."""
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()
