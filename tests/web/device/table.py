"""Classifiers whose network looks features up in a table: what JavaScript is compared with.

An image is the number of a row, written into its pixels. So any features can be learned, by all
that Python's classifier does after its network.
"""

import hashlib
from collections.abc import Collection, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ovor import Classifier
from ovor.encoders import Backbone
from ovor.encoders.base import Encoder
from ovor.encoders.preprocessing import Preprocessing

SIDE = 4
OWN = Preprocessing(SIDE, (0.0,) * 3, (1.0,) * 3, 1.0, "bilinear", "the test")
Pixels = NDArray[np.uint8]


class Table(Encoder):
    """Features by the number that an image shows."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        super().__init__()
        self.rows = torch.nn.Parameter(torch.from_numpy(features), requires_grad=False)
        self.widths = (features.shape[1],)
        self.image_size = SIDE

    def input_size(self, wanted: int) -> int:
        return SIDE

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        first = (images[:, :, 0, 0] * 255).round().long()  # B, 3
        return self.rows[first @ torch.tensor([1, 256, 65536])]

    def batch(self, size: int) -> int:
        return 64


def classifier(features: NDArray[np.float32]) -> Classifier:
    """Return one that has learned nothing, with a network that gives these features."""
    model = Classifier("table", device="cpu")
    sha256 = hashlib.sha256(str(features.shape[1]).encode()).hexdigest()
    model._network = Backbone(Table(features), "table", "a test's table", sha256, OWN)
    return model


def image(row: int) -> Pixels:
    """Return the image of which the network gives this row."""
    code = [row % 256, row // 256 % 256, row // 65536]
    return np.broadcast_to(np.array(code, np.uint8), (SIDE, SIDE, 3)).copy()


def images(rows: Sequence[int]) -> list[Pixels]:
    return [image(row) for row in rows]


def digest(row: int) -> bytes:
    """Return the digest by which Python knows the image again."""
    return hashlib.sha256(image(row).tobytes()).digest()[:16]


def clouds(
    counts: Sequence[int], width: int, seed: int = 0, apart: float = 0.35, axes: int = 20
) -> tuple[NDArray[np.float32], list[int]]:
    """Return features of classes of so many images, and the class of each.

    Images differ along some directions more than along others, as those of networks do.
    """
    draw = np.random.default_rng(seed)
    turn = draw.normal(size=(width, width)) / width**0.5
    lengths = 3 / (1 + np.arange(width) / axes)
    means = draw.normal(size=(len(counts), width)) * lengths * apart
    rows = [row for row, count in enumerate(counts) for _ in range(count)]
    found = (means[rows] + draw.normal(size=(len(rows), width)) * lengths) @ turn
    return found.astype(np.float32), rows
