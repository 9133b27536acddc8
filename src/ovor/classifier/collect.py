"""One pass over the items of a lesson, images or texts: their sums, and meanwhile their features.

Every item goes through the network in a batch of the same size, filled up if need be: so its
features have the same bits in whatever company it comes, and so have the sums.
"""

import hashlib
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ovor.config import Run, Transform
from ovor.data.base import Integers, Items
from ovor.data.loader import test_batches
from ovor.errors import OvorError
from ovor.events import Listener, MeansUpdated, RunBegins, silent
from ovor.learners.analytic import Analytic
from ovor.learners.moments import AT_ONCE, FEATURE_STEPS, MOMENTS, Moments, rounded
from ovor.tensor_file import load_tensors, save_tensors

SAVED_EVERY = 5.0  # seconds, and so rarely that saving takes a twentieth of the time
JUDGED = 256 * 2**20  # bytes of features that are kept until the end of a lesson
SCHEMA = 1  # of the checkpoint


@dataclass(eq=False)
class Collected:
    """What a pass found, of all images so far."""

    moments: Moments
    """sums of these images alone, by the rows of the model's classes"""
    done: int = 0
    """batches"""
    numbers: list[int] = field(default_factory=list)
    """of the images whose features are kept"""
    features: list[Tensor] = field(default_factory=list)
    """rounded, in whole steps (int16)"""
    digests: list[bytes] = field(default_factory=list)
    """of every image"""
    left_out: list[int] = field(default_factory=list)
    """numbers of images that were learned before"""
    seen: set[bytes] = field(default_factory=set)
    """the digests again, to look them up"""
    shortened: int = 0
    """items whose end is beyond what the network sees"""
    waiting: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    """features, rows and weights of images that are still to be added to the sums"""

    def kept(self) -> Tensor:
        """Return the features that were kept, one after the other."""
        return torch.cat([torch.zeros(0, self.moments.width, dtype=torch.int16), *self.features])

    def add_waiting(self, enough: int = 1) -> None:
        """Add the images that wait, once they are enough: one product of many is the cheapest."""
        if sum(len(rows) for _, rows, _ in self.waiting) >= enough:
            features, rows, weights = (torch.cat(part) for part in zip(*self.waiting, strict=True))
            self.moments.add(features, rows, None if bool((weights == 1).all()) else weights)
            self.waiting.clear()


@dataclass(frozen=True, eq=False)
class Work:
    """A pass to be made."""

    learner: Analytic
    images: Items
    rows: Integers
    """of the class of each image"""
    run: Run
    transform: Transform
    classes: int
    """rows that the sums have"""
    weights: Tensor | None = None
    task: int = 0
    """number of the lesson, for who listens"""
    known: Collection[bytes] | None = None
    """digests of images that are left out, as they were learned before; None learns all"""
    about: dict[str, Any] = field(default_factory=dict)
    """what the checkpoint says, to be compared when it is continued"""
    remedy: str = ""
    """a sentence on what else to do about an image that cannot be read"""

    @property
    def batch(self) -> int:
        """Images that go through the network together, always."""
        if self.learner.device.type != "cpu":
            return self.run.batch_size
        return min(self.run.batch_size, self.learner.backbone.batch(self.transform.size))


def collect(
    work: Work, checkpoint: Path | None, listen: Listener = silent, *, judge: bool = True
) -> Collected:
    """Make the pass, or go on with one that was stopped."""
    count = len(work.images)
    found = resumed(work, checkpoint) or Collected(
        Moments.empty(work.learner.moments.width).grown(work.classes)
    )
    begin = RunBegins(
        task=work.task,
        epoch=0,
        train_images=(0,) * work.task + (count,),
        test_images=(0,) * (work.task + 1),
        epochs=(0,) * (work.task + 1),
        reads=work.learner.backbone.reads.many,
    )
    listen(begin)
    listen(MeansUpdated(work.task, min(count, found.done * work.batch)))
    stride = -(-count * work.learner.moments.width * 2 // JUDGED)
    saved, took = time.monotonic(), 0.0
    for number, pixels in views(work, found.done):
        features = encoded(work, pixels)
        fresh = note(work, found, pixels, number * work.batch)
        found.waiting.append(chosen(work, features, fresh, number * work.batch))
        found.add_waiting(AT_ONCE)
        if judge:
            keep(found, features, fresh, number * work.batch, stride)
        found.done = number + 1
        listen(MeansUpdated(work.task, len(pixels)))
        begun = time.monotonic()
        if checkpoint and begun - saved > max(SAVED_EVERY, 20 * took):
            save(work, found, checkpoint)
            saved = time.monotonic()
            took = saved - begun
    found.add_waiting()
    return found


def views(work: Work, first: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the number and the pixels of each batch, from the first that is wanted."""
    count = len(work.images)
    numbers = range(first, -(-count // work.batch))
    everything = np.arange(count)
    batches = test_batches(
        work.images,
        everything,
        work.rows,
        work.transform,
        batch_size=work.batch,
        workers=work.run.workers,
        numbers=numbers,
        reads=work.learner.backbone.reads,
    )
    try:
        for number, (pixels, _) in zip(numbers, batches, strict=True):
            yield number, pixels
    except OvorError as error:
        raise OvorError(f"{error} {work.remedy}".rstrip()) from error


@torch.no_grad()
def encoded(work: Work, pixels: Tensor) -> Tensor:
    """Return the rounded features of a batch, which is filled up to the usual size."""
    missing = work.batch - len(pixels)
    full = torch.cat([pixels, pixels.new_zeros(missing, *pixels.shape[1:])])
    inputs = work.learner.backbone.tensor(full.to(work.learner.device), work.transform)
    return rounded(work.learner.features(inputs)[: len(pixels)])


def note(work: Work, found: Collected, pixels: Tensor, start: int) -> list[int]:
    """Note the digests of a batch; return the places of the images that are to be learned."""
    fresh = []
    for place, view in enumerate(pixels.numpy()):
        key = digest(view)
        if work.known is not None and (key in work.known or key in found.seen):
            found.left_out.append(start + place)
        else:
            fresh.append(place)
        found.shortened += work.learner.backbone.reads.shortened(view)
        found.digests.append(key)
        found.seen.add(key)
    return fresh


def chosen(
    work: Work, features: Tensor, fresh: list[int], start: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, rows and weights of the fresh images of a batch."""
    numbers = torch.tensor(fresh, dtype=torch.int64) + start
    weights = torch.ones(len(fresh)).double() if work.weights is None else work.weights[numbers]
    return features[fresh], torch.from_numpy(work.rows)[numbers], weights


def keep(found: Collected, features: Tensor, fresh: list[int], start: int, stride: int) -> None:
    """Keep the features of every so manyth image for leave-one-out."""
    here = [place for place in fresh if (start + place) % max(1, stride) == 0]
    steps = (features[here] * FEATURE_STEPS).clamp(-32768, 32767)
    found.features.append(steps.to(torch.int16))
    found.numbers += [start + place for place in here]


def digest(view: np.ndarray[Any, Any]) -> bytes:
    """Return a digest of what the network sees of an image."""
    return hashlib.sha256(view.tobytes()).digest()[:16]


def save(work: Work, found: Collected, checkpoint: Path) -> None:
    """Write what was found so far, so that the pass can go on from there."""
    found.add_waiting()
    tensors = {f"moments.{name}": x for name, x in found.moments.state().items()}
    tensors["numbers"] = torch.tensor(found.numbers, dtype=torch.int64)
    tensors["features"] = found.kept()
    tensors["digests"] = as_bytes(found.digests)
    tensors["left_out"] = torch.tensor(found.left_out, dtype=torch.int64)
    meta = {"schema": SCHEMA, "exact": True, "done": found.done, "about": work.about}
    meta["shortened"] = found.shortened
    save_tensors(checkpoint, tensors, meta)


def resumed(work: Work, checkpoint: Path | None) -> Collected | None:
    """Return what an unfinished pass had found; refuse one over other images or another model."""
    if checkpoint is None or not checkpoint.exists():
        return None
    tensors, meta = load_tensors(checkpoint)
    if meta.get("schema") != SCHEMA:
        raise OvorError(
            f"{checkpoint} is of another version of ovor: finish it with that version, or throw it "
            "away (remove the file)."
        )
    differs = {
        "past": "the model has changed since",
        "lesson": "what is learned is not the same",
        "run": "it was begun with other settings",
        "once": "it was begun with or without `once`",
        "weights": "the weights are not the same",
    }
    about = meta.get("about", {})
    for key, what in differs.items():
        if about.get(key) != work.about.get(key):
            raise OvorError(
                f"The unfinished lesson in {checkpoint} cannot be continued, {what}: bring that "
                "back, or start again (remove the file)."
            )
    moments = Moments.of_state({name: tensors[f"moments.{name}"] for name in MOMENTS})
    digests = [bytes(row) for row in tensors["digests"].numpy()]
    features = [tensors["features"]] if len(tensors["features"]) else []
    numbers, left_out = tensors["numbers"].tolist(), tensors["left_out"].tolist()
    return Collected(
        moments,
        meta["done"],
        numbers,
        features,
        digests,
        left_out,
        set(digests),
        meta.get("shortened", 0),
    )


def as_bytes(digests: Sequence[bytes]) -> Tensor:
    """Return digests as rows of bytes."""
    joined = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)
    return torch.from_numpy(joined.copy())
