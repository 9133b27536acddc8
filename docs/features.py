"""Features of the drawings as the analytic method reads them, for scripts that compare heads."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ovor.data.base import Images
from ovor.data.embedded import quickdraw, quickdraw_dev
from ovor.data.loader import test_batches
from ovor.data.transforms import normalised
from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.analytic import Analytic
from ovor.learners.moments import Moments
from ovor.presets import ANALYTIC, settings

DATA = {"quickdraw": quickdraw, "quickdraw-dev": quickdraw_dev}
BATCH = 128


@dataclass(frozen=True, eq=False)
class Encoded:
    """Every image of one part of a data set."""

    features: Tensor  # n, p
    labels: Tensor  # n

    def of(self, classes: Any, each: int | None = None, seed: int | None = None) -> "Encoded":
        """Return images of some classes, labelled by their places; `each` drawn by the seed."""
        chosen = []
        for number in classes:
            own = np.flatnonzero(self.labels.numpy() == number)
            if seed is not None:
                own = np.random.default_rng((seed, int(number))).permutation(own)
            chosen.append(own[:each])
        places = torch.from_numpy(np.concatenate(chosen))
        labels = np.repeat(np.arange(len(chosen)), [len(own) for own in chosen])
        return Encoded(self.features[places], torch.from_numpy(labels))

    def and_of(self, other: "Encoded", shift: int) -> "Encoded":
        """Return these and others, whose labels go on after `shift`."""
        labels = torch.cat([self.labels, other.labels + shift])
        return Encoded(torch.cat([self.features, other.features]), labels)


def learner_of(options: dict[str, Any]) -> Analytic:
    """Return a learner on the embedded network that has seen nothing."""
    network = load_backbone("embedded").vit
    learner = build_learner("analytic", ANALYTIC | options, network, nullcontext).eval()
    assert isinstance(learner, Analytic)
    return learner


@torch.no_grad()
def encode(learner: Analytic, images: Images) -> Encoded:
    """Return the features of images in the order in which they come."""
    size, labels = learner.backbone.arch.image_size, images.labels
    transform = replace(settings("quickdraw", "analytic").transform, size=size)
    batches = test_batches(
        images, np.arange(len(labels)), labels, transform, batch_size=BATCH, workers=0
    )
    found = [learner.features(normalised(pixels, transform)) for pixels, _ in batches]
    return Encoded(torch.cat(found), torch.from_numpy(np.asarray(labels, np.int64)))


def summed(learner: Analytic, images: Encoded, classes: int) -> Moments:
    """Return the sums of images."""
    moments = Moments.empty(learner.moments.width).grown(classes)
    moments.add(images.features, images.labels)
    return moments


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Return the percentage of rows whose largest is at the label."""
    return 100 * float((logits.argmax(1) == labels).double().mean())


def class_means(train: Encoded, test: Tensor, classes: int) -> Tensor:
    """Return cosines of test features to the class means."""
    means = torch.zeros(classes, train.features.shape[1], dtype=train.features.dtype)
    means.index_add_(0, train.labels, train.features)
    unit = torch.nn.functional.normalize
    return unit(test, dim=1) @ unit(means, dim=1).T
