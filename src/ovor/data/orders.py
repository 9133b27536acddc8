"""The order in which classes arrive.

The paper averages over seeds 0 to 4, where seed 0 keeps the data set's own order.
"""

import random
from collections.abc import Callable

import numpy as np


def natural(classes: int, seed: int) -> list[int]:
    return list(range(classes))


def shuffled(classes: int, seed: int) -> list[int]:
    order = list(range(classes))
    random.Random(seed).shuffle(order)
    return order


def paper(classes: int, seed: int) -> list[int]:
    return shuffled(classes, seed) if seed > 0 else natural(classes, seed)


def icarl(classes: int, seed: int) -> list[int]:
    """Return the one order that iCaRL and its successors share, whatever the seed."""
    return [int(c) for c in np.random.RandomState(1993).permutation(classes)]


# From the number of classes and the seed to the original class ids, in the order of their arrival.
ORDERS: dict[str, Callable[[int, int], list[int]]] = {
    "paper": paper,
    "shuffled": shuffled,
    "icarl": icarl,
    "natural": natural,
}
