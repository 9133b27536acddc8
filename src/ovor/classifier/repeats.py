"""Which items of a lesson stand in it twice, or were learned before.

Judged by all others, such an item is judged by its own copy, which says nothing of new ones. Single
items are not kept unless digests are (`--once`), but the sum of a class is, and it is exact.
"""

from collections import Counter

import torch
from torch import Tensor

from ovor.classifier.collect import Collected
from ovor.data.base import Integers
from ovor.learners.moments import FEATURE_STEPS, Moments


def repeated(found: Collected, rows: Integers, added: Integers, before: Moments) -> list[int]:
    """Return the numbers of the items that are learned more than once, as the same class.

    `rows` are the classes of all items of a lesson, `added` the numbers of those that are learned,
    and `before` are the sums of the model without them.
    """
    keys = {int(i): (found.digests[i], int(rows[i])) for i in added}
    often = Counter(keys.values())
    twice = {i for i, key in keys.items() if often[key] > 1}
    return sorted(twice | learned_before(found, rows, len(keys), before))


def learned_before(found: Collected, rows: Integers, added: int, before: Moments) -> set[int]:
    """Return the numbers of the items by which their classes were learned before."""
    if len(found.numbers) < added:  # of so many items not all features are kept
        return set()
    numbers, features = torch.tensor(found.numbers, dtype=torch.int64), found.kept()
    of_them, known = torch.from_numpy(rows)[numbers], set[int]()
    for row in range(len(before.counts)):
        own = numbers[of_them == row].tolist()
        count = first_known(features[of_them == row], before.sums[row], float(before.counts[row]))
        known.update(own[:count])
    return known


def first_known(steps: Tensor, total: Tensor, count: float) -> int:
    """Return how many items of a class, from the first on, are those that it was learned from.

    They are if their features add up to just the sum that is kept: a table may have grown since,
    and may have been learned more than once.
    """
    if not len(steps) or not count:
        return 0
    again = min(len(steps), int(count))
    times = count / again
    same = torch.equal(steps[:again].double().sum(0) / FEATURE_STEPS * times, total)
    return again if same and times.is_integer() else 0
