"""Ideas for classes of unequal size, where `shapes` is least ahead (docs/own_method.py).

Sizes are drawn as in the field: from 5 images of a class to 80.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from docs.own_ideas import Fold, Idea, analytic, solved
from ovor.data.images import Pictures
from ovor.data.loader import test_batches
from ovor.data.scenarios import class_sizes
from ovor.data.transforms import normalised
from ovor.encoders.efficientnet import EfficientNet, weights_file
from ovor.encoders.vit import VisionTransformer
from ovor.learners.discriminant import SMALL_CLASS
from ovor.learners.shapes import ShapesOptions

FEW, MANY = 5, 80
DRAWS = 3  # of who has how many
SPLIT = 200, 100  # photographs of a class, and how many of them are learned


def unequal(parts: list[Fold]) -> list[Fold]:
    """Learn from few to many of the images that each of these folds learns, by several draws."""
    return [kept(fold, number, seed) for seed in range(DRAWS) for number, fold in enumerate(parts)]


def kept(fold: Fold, number: int, seed: int) -> Fold:
    chosen = []
    for label, size in enumerate(class_sizes(fold.classes, FEW, MANY, seed)):
        own = fold.learned[fold.own == label]
        order = np.random.default_rng((seed, number, label)).permutation(len(own))
        chosen.append(own[torch.from_numpy(order[:size])])
    return Fold(fold.labels, torch.cat(chosen).sort().values, fold.asked)


def split(labels: Tensor) -> Fold:
    """Learn the first half of every class, and ask the other; classes come one after the other."""
    each, learned = SPLIT
    place = torch.arange(len(labels)) % each
    return Fold(labels, torch.nonzero(place < learned)[:, 0], torch.nonzero(place >= learned)[:, 0])


def spanned(features: Tensor, ridge: float = 1.0) -> Idea:
    """`analytic` in the span of the learned images, which is sooner where they are few.

    The ridges to choose from are relative to the mean variance, and so lie a little elsewhere.
    """

    def ask(fold: Fold) -> Tensor:
        centre = features[fold.learned].mean(0)
        _, lengths, axes = torch.linalg.svd(features[fold.learned] - centre, full_matrices=False)
        seen = axes[lengths > 1e-9 * lengths[0]]
        return analytic((features - centre) @ seen.T, ridge)(fold)

    return ask


def half_as_long(features: Tensor, vit: VisionTransformer) -> Tensor:
    """Return class tokens, means and deviations of the depths, the last half as long."""
    parts = features.unflatten(1, (-1, 3, vit.arch.embed_dim)).clone()
    parts[:, :, 2] /= 2
    return parts.flatten(1)


def uncorrected(shaped: Idea, vit: VisionTransformer) -> Idea:
    """`shapes` without what it adds to classes whose means are of few images."""
    across = 2 * vit.arch.embed_dim

    def ask(fold: Fold) -> Tensor:
        counts = torch.bincount(fold.own, minlength=fold.classes)
        return shaped(fold) - ShapesOptions().weight / 2 * across / (counts + SMALL_CLASS)

    return ask


def uncertain(features: Tensor) -> Idea:
    """Class means drawn from a Gaussian of their own, and known the better the more images.

    As probabilistic discriminant analysis (Ioffe, 2006) has it: along each axis a mean moves
    towards that of all by how uncertain it is, and a class is as much wider.
    """

    def ask(fold: Fold) -> Tensor:
        mixture = solved(features[fold.learned], fold.own, fold.classes)
        discriminant, counts = mixture.discriminant, mixture.discriminant.scatter.counts[:, None]
        freedom = discriminant.scatter.freedom
        values, axes = torch.linalg.eigh(discriminant.gram * freedom)
        there = values > 1e-6 * values[-1]
        values, axes = values[there], axes[:, there]
        means = axes * values.sqrt()  # of the classes, where images have a scatter of about 1
        onto = axes / values.sqrt()
        images = discriminant.outputs(features[fold.asked]) * freedom @ onto
        noise = (onto.T @ (discriminant.noise * freedom**2) @ onto).diagonal()
        between = (means.square() - noise / counts).mean(0).clamp(min=1e-3)
        left = between / (between + noise / counts)
        likely, width = left * means, noise + left * noise / counts
        squares = ((images[:, None] - likely).square() / width).sum(2)
        return -(squares + width.log().sum(1)) / 2

    return ask


@torch.no_grad()
def claims(encoder: Any, transform: Any, images: list[Any]) -> Tensor:
    """Return the probabilities of the thousand classes that the network was trained on."""
    assert isinstance(encoder, EfficientNet)
    path, _ = weights_file("photos")
    tensors = torch.load(path, weights_only=True)
    last, numbers = len(encoder.widths) - 1, np.arange(len(images))
    pictures = Pictures(images, np.zeros(len(images), np.int64))
    found = []
    for pixels, _ in test_batches(
        pictures, numbers, pictures.labels, transform, batch_size=8, workers=0
    ):
        (places,) = encoder.after(normalised(pixels, transform), (last,))
        logits = F.linear(places.mean(dim=(2, 3)), tensors["_fc.weight"], tensors["_fc.bias"])
        found.append(logits.softmax(1))
    return torch.cat(found).double()


def with_claims(features: Tensor, found: Tensor, length: float = 0.7) -> Tensor:
    """Return features and, as one depth more, what the network's own classifier says."""
    return torch.cat([features, F.layer_norm(found, found.shape[-1:]) * length], 1)
