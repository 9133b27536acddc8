"""Batches of images, and the features that a learner computes of them.

Test images and what never changes of them (queries, the features of learners that tune nothing
after the first task) are kept, so that evaluating task after task computes each of them once.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from ovor.data.base import Items
from ovor.data.batches import Batches, Pair, batch_lengths
from ovor.data.loader import Batch, test_batches, train_batches
from ovor.data.tasks import Part
from ovor.distributed.ranks import ALONE
from ovor.events import Event, FeaturesExtracted, ImagesTested, MeansUpdated
from ovor.learners.base import Learner
from ovor.outliers.feature_buffer import FeatureBuffer
from ovor.training.context import Context

KEPT_VIEWS = 256 * 2**20  # bytes of test images kept in memory

Extract = Callable[[Tensor], Tensor]


class Features:
    """Computes the features that training, outliers and evaluation need."""

    def __init__(self, context: Context) -> None:
        self.context = context
        # Of test images, by task:
        self.queries: dict[int, list[Tensor | None]] = defaultdict(list)
        self.tested: dict[int, tuple[int, Pair]] = {}  # after which task, and the features
        self.views: dict[tuple[int, ...], list[Batch]] = {}

    def of_training(self, learner: Learner, task: int, epoch: int) -> Pair:
        """Return the features of a task's augmented images (Alg. 1, line 3), and their labels."""
        images = augmented_images(self.context, task, epoch)
        return self.extract(learner.features, images, partial(FeaturesExtracted, task, epoch))

    def of_test(self, learner: Learner, last: int, task: int) -> Pair:
        """Return the features of a task's test images after task `last`, and their labels."""
        after, pair = self.tested.get(task, (None, None))
        if pair and (after == last or learner.settled):
            self.context.listen(ImagesTested(last, len(pair[0])))
            return pair
        extract = with_known_queries(learner, self.queries[task])
        pair = self.extract(extract, self.test_images(task), partial(ImagesTested, last))
        self.tested[task] = last, pair
        return pair

    def extract(self, extract: Extract, images: Batches, event: Callable[[int], Event]) -> Pair:
        """Return features and labels, in memory or, if too large, in a file by the checkpoint.

        `event` makes of a number of images what is reported when they are done.
        """
        features, labels = FeatureBuffer(self.context.checkpoint.parent), []
        for some, of_them in images.encoded(extract):
            features.add(some)
            labels.append(of_them)
            self.context.listen(event(len(of_them)))
        return features.tensor(), torch.cat(labels)

    def test_images(self, task: int) -> Batches:
        """Return a task's test images, loaded once if those of all tasks fit into memory."""
        context, part = self.context, self.context.tasks[task].test
        count = sum(len(task.test) for task in context.tasks)
        view = context.backbone.encoder.reads.blank(context.run.transform)
        keep = view.nbytes * count <= KEPT_VIEWS

        def load(numbers: Sequence[int]) -> Iterator[Pair]:
            kept = self.views.get((task, *numbers))
            views = kept or unaugmented(context, context.dataset.test, part, numbers)
            if keep and not kept:
                views = self.views[(task, *numbers)] = list(views)
            return (to_device(context, batch) for batch in views)

        return Batches(load, batch_lengths(len(part), encoded_at_once(context)), context.ranks)


def with_known_queries(learner: Learner, queries: list[Tensor | None]) -> Extract:
    """Return `learner.features` for batches that come in the same order every time.

    `queries` holds those of the batches that came before; what is missing is added.
    """
    count = itertools.count()

    def extract(batch: Tensor) -> Tensor:
        number = next(count)
        if number == len(queries):
            queries.append(learner.query(batch))
        return learner.features_given(queries[number], batch)

    return extract


def images_at_once(context: Context) -> int:
    """Return how many images of a batch go through the network together.

    All on a GPU; on a CPU as many as the network likes.
    """
    if context.fabric.device.type != "cpu":
        return context.run.batch_size
    fitting = context.backbone.encoder.batch(context.run.transform.size)
    return min(context.run.batch_size, fitting)


def encoded_at_once(context: Context) -> int:
    """Return how many items go through the network together where nothing is learned from them.

    As many as it likes, if the company changes none of their bits; else as in training.
    """
    encoder = context.backbone.encoder
    if encoder.reads.steady and context.fabric.device.type == "cpu":
        return encoder.batch(context.run.transform.size)
    return images_at_once(context)


def training_batches(
    context: Context,
    task: int,
    epoch: int,
    batch_size: int,
    rows: Callable[[int], slice] = ALONE.shard,
    numbers: Sequence[int] | None = None,
) -> Iterator[Pair]:
    """Yield augmented training images: all, some rows of each batch, or some of the batches."""
    run, part = context.run, context.tasks[task].train
    for batch in train_batches(
        context.dataset.train,
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
        reads=context.backbone.encoder.reads,
    ):
        yield to_device(context, batch)


def augmented_images(context: Context, task: int, epoch: int) -> Batches:
    """Return the training images of an epoch, for a pass without gradients."""
    size = encoded_at_once(context)

    def load(numbers: Sequence[int]) -> Iterator[Pair]:
        return training_batches(context, task, epoch, size, numbers=numbers)

    return Batches(load, batch_lengths(len(context.tasks[task].train), size), context.ranks)


def still_images(context: Context, task: int) -> Batches:
    """Return a task's training images without augmentation, with labels counted within it."""
    part, start = context.tasks[task].train, context.tasks[task].start

    def load(numbers: Sequence[int]) -> Iterator[Pair]:
        for batch in unaugmented(context, context.dataset.train, part, numbers):
            images, labels = to_device(context, batch)
            yield images, labels - start

    def tell(images: int) -> None:
        context.listen(MeansUpdated(task, images))

    return Batches(load, batch_lengths(len(part), encoded_at_once(context)), context.ranks, tell)


def unaugmented(
    context: Context, images: Items, part: Part, numbers: Sequence[int]
) -> Iterator[Batch]:
    """Yield the batches of these numbers, resized and cropped as for a test."""
    return test_batches(
        images,
        part.indices,
        part.labels,
        context.run.transform,
        batch_size=encoded_at_once(context),
        workers=context.run.workers,
        numbers=numbers,
        reads=context.backbone.encoder.reads,
    )


def to_device(context: Context, batch: Batch) -> Pair:
    """Bring a batch of views to the device, and make the network's input of them there."""
    views, labels = context.fabric.to_device(batch)
    return context.backbone.encoder.tensor(views, context.run.transform), labels
