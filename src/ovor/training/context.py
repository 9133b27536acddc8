"""What does not change while a run goes on, and the images that it feeds to the network."""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from ovor.config import Run
from ovor.data.base import Dataset, Images
from ovor.data.loader import Batch, test_batches, train_batches
from ovor.data.tasks import Part, Task
from ovor.data.transforms import normalised
from ovor.data.views import Pair, Views, batch_lengths
from ovor.distributed.ranks import ALONE, Ranks
from ovor.encoders import Architecture, Backbone
from ovor.errors import OvorError
from ovor.learners.base import Learner
from ovor.outliers.feature_buffer import FeatureBuffer
from ovor.training.vor_cache import Stem

KEPT_VIEWS = 256 * 2**20  # bytes of test images kept in memory
KEPT_BLOCK = 31 * 2**20  # glibc keeps freed blocks of up to 32 MB
COMPARED = 8  # images of a task that the processes of a run compare
PRECISION: dict[str, Any] = {"fp32": "32-true", "bf16": "bf16-mixed"}
Listener = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Session:
    """What does not change while a run goes on."""

    run: Run
    dataset: Dataset
    order: list[int]
    tasks: tuple[Task, ...]
    backbone: Backbone
    fabric: Fabric
    checkpoint: Path
    listen: Listener = field(repr=False)
    ranks: Ranks = ALONE
    stem: Stem | None = None
    about: dict[str, Any] = field(default_factory=dict)
    """what else the checkpoint says"""
    # Of test images, by task, computed when first needed:
    queries: dict[int, list[Tensor | None]] = field(default_factory=lambda: defaultdict(list))
    settled: dict[int, Pair] = field(default_factory=dict)
    views: dict[tuple[int, ...], list[Batch]] = field(default_factory=dict)


def check_input(arch: Architecture, size: int) -> None:
    if size % arch.patch_size:
        raise OvorError(
            f"transform.size {size} is not a multiple of the backbone's patches of "
            f"{arch.patch_size}: use {arch.image_size}, its own, or another multiple."
        )
    if arch.in_chans != 3:
        raise OvorError(f"The backbone takes {arch.in_chans} channel(s), but images have 3 (RGB).")


def make_fabric(run: Run, device: torch.device | None = None) -> Fabric:
    """For the device that the run wants, or for this one."""
    if run.device == "cuda" and not torch.cuda.is_available():
        raise OvorError("There is no CUDA device here: use --device cpu or auto.")
    if run.device == "mps" and not torch.backends.mps.is_available():
        raise OvorError("There is no Apple GPU here: use --device cpu or auto.")
    fabric = Fabric(
        accelerator=device.type if device else run.device,
        devices=1 if device is None or device.index is None else [device.index],
        precision=PRECISION[run.precision],
    )
    if run.precision == "bf16" and fabric.device.type == "cpu":
        # Slower than fp32 on most, and an illegal instruction on some that claim to have it.
        raise OvorError("bf16 needs a GPU: use --precision fp32 on a CPU.")
    torch.backends.cudnn.deterministic = True
    return fabric


def check_alike(session: Session) -> None:
    """Processes with other images or weights would quietly learn a mixture."""
    if session.ranks.size == 1:
        return
    own = [version("ovor"), session.backbone.sha256, session.dataset.class_names]
    own += [_digest(session.dataset.train, task.train) for task in session.tasks]
    own += [_digest(session.dataset.test, task.test) for task in session.tasks]
    if session.ranks.told(own) != own:
        raise OvorError(
            f"Process {session.ranks.rank + 1} has other images, another backbone or another "
            "version of ovor than the first: give every machine the same."
        )


def _digest(images: Images, part: Part) -> str:
    """Of which images they are, and of a few in full: to read them all would take long."""
    digest = hashlib.sha256(part.indices.tobytes() + part.labels.tobytes())
    for index in part.indices[:: max(1, len(part) // COMPARED)]:
        digest.update(images.image(int(index)).tobytes())
    return digest.hexdigest()


def images_at_once(session: Session) -> int:
    """How many images of a batch go through the network together.

    All on a GPU. On a CPU so few that every activation is small enough for the C library to keep
    its memory for the next one; a larger one would be paid for anew each time, page by page.
    """
    if session.fabric.device.type != "cpu":
        return session.run.batch_size
    arch, size = session.backbone.vit.arch, session.run.transform.size
    return min(session.run.batch_size, small_batch(arch, size))


def small_batch(arch: Architecture, size: int) -> int:
    tokens = (size // arch.patch_size) ** 2 + 1 + arch.registers
    widest = 4 * tokens * max(arch.mlp_dim, 3 * arch.embed_dim)  # bytes of an image
    return max(1, KEPT_BLOCK // widest)


def batches(
    session: Session,
    task: int,
    epoch: int,
    batch_size: int,
    rows: Callable[[int], slice] = ALONE.share,
    numbers: Sequence[int] | None = None,
) -> Iterator[Pair]:
    """Augmented training images: all, or some rows of each batch, or some of the batches."""
    run, part = session.run, session.tasks[task].train
    for batch in train_batches(
        session.dataset.train,
        part.indices,
        part.labels,
        run.transform,
        seed=run.seed,
        task=task,
        epoch=epoch,
        batch_size=batch_size,
        workers=run.workers,
        rows=rows,
        numbers=numbers,
    ):
        yield to_device(session, batch)


def augmented_images(session: Session, task: int, epoch: int) -> Views:
    """The training images of an epoch, to be looked at."""
    size = images_at_once(session)

    def load(numbers: Sequence[int]) -> Iterator[Pair]:
        return batches(session, task, epoch, size, numbers=numbers)

    return Views(load, batch_lengths(len(session.tasks[task].train), size), session.ranks)


def test_images(session: Session, task: int) -> Views:
    """Loaded once, if the test images of all tasks are few enough to be kept."""
    part = session.tasks[task].test
    count = sum(len(task.test) for task in session.tasks)
    keep = 3 * session.run.transform.size**2 * count <= KEPT_VIEWS

    def load(numbers: Sequence[int]) -> Iterator[Pair]:
        kept = session.views.get((task, *numbers))
        views = kept or as_tested(session, session.dataset.test, part, numbers)
        if keep and not kept:
            views = session.views[(task, *numbers)] = list(views)
        return (to_device(session, batch) for batch in views)

    return Views(load, batch_lengths(len(part), images_at_once(session)), session.ranks)


def still_images(session: Session, task: int) -> Views:
    """The training images of a task as they are tested, with labels counted within it."""
    part, start = session.tasks[task].train, session.tasks[task].start

    def load(numbers: Sequence[int]) -> Iterator[Pair]:
        for batch in as_tested(session, session.dataset.train, part, numbers):
            images, labels = to_device(session, batch)
            yield images, labels - start

    def tell(images: int) -> None:
        session.listen({"event": "means", "task": task, "images": images, "loss": None})

    return Views(load, batch_lengths(len(part), images_at_once(session)), session.ranks, tell)


def as_tested(
    session: Session, images: Images, part: Part, numbers: Sequence[int]
) -> Iterator[Batch]:
    return test_batches(
        images,
        part.indices,
        part.labels,
        session.run.transform,
        batch_size=images_at_once(session),
        workers=session.run.workers,
        numbers=numbers,
    )


def to_device(session: Session, batch: Batch) -> Pair:
    pixels, labels = session.fabric.to_device(batch)
    return normalised(pixels, session.run.transform), labels


def features_of(
    session: Session,
    look: Callable[[Tensor], Tensor],
    images: Views,
    event: dict[str, Any],
) -> Pair:
    """In memory, or in a mapped file beside the checkpoint if that would be too much."""
    features, labels = FeatureBuffer(session.checkpoint.parent), []
    for some, of_them in images.seen(look):
        features.add(some)
        labels.append(of_them)
        session.listen({**event, "images": len(of_them)})
    return features.tensor(), torch.cat(labels)


def looking_again(learner: Learner, queries: list[Tensor | None]) -> Callable[[Tensor], Tensor]:
    """`learner.features` for batches that come in the same order every time.

    `queries` belong to them one by one; what is missing there is added.
    """
    count = itertools.count()

    def look(batch: Tensor) -> Tensor:
        number = next(count)
        if number == len(queries):
            queries.append(learner.query(batch))
        return learner.features_given(queries[number], batch)

    return look
