"""Which images are alike, by the distances that are usual in the model that looks at them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ovor.classifier.model import Classifier

ALIKE = 0.75  # of the mean squared distance of all, where the model does not know what is usual


def groups_of(features: Tensor, model: Classifier) -> list[int]:
    """Return the number of the group of each image (n, p): those of the largest group have 1.

    The images of a group differ, on average, no more than images of one class do.
    """
    if len(features) < 2:
        return [1] * len(features)
    x = features.double()
    squares = torch.cdist(x, x).square()
    limit = model.usual_distance()
    if limit is None:
        limit = ALIKE * float(squares.sum()) / (len(x) * (len(x) - 1))
    return numbered(linked(squares.numpy(), limit))


def linked(squares: NDArray[np.float64], limit: float) -> NDArray[np.int64]:
    """Return a group for each image: the two nearest become one while they are near enough.

    The distance of groups is the mean of all between them, so a step needs the last matrix alone.
    """
    apart = squares.copy()
    np.fill_diagonal(apart, np.inf)
    group, sizes = np.arange(len(apart)), np.ones(len(apart))
    for _ in range(len(apart) - 1):
        one, other = np.unravel_index(int(apart.argmin()), apart.shape)
        if not apart[one, other] <= limit:
            break
        share = sizes[one] / (sizes[one] + sizes[other])
        mean = share * apart[one] + (1 - share) * apart[other]
        mean[one] = np.inf
        apart[one], apart[:, one] = mean, mean
        apart[other] = apart[:, other] = np.inf
        sizes[one] += sizes[other]
        group[group == group[other]] = group[one]
    return group


def numbered(group: NDArray[np.int64]) -> list[int]:
    """Return groups as numbers from 1 on, the largest first."""
    names, first, own, sizes = np.unique(
        group, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(names), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(names) + 1)
    return [int(number) for number in rank[own]]
