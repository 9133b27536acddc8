"""Which classes a finished run takes for which, and where a few such test images are.

No image is kept: an example is its position among the test images and a digest of its pixels, so
that a report shows it only if the very same image is still there.
"""

import hashlib
from collections import Counter, defaultdict
from typing import Any

from PIL import Image
from torch import Tensor

from ovor.data.base import Items
from ovor.data.tasks import Task
from ovor.training.context import Context

WORST = 20  # classes of which examples are recorded
TAKEN_FOR = 3  # other classes, for each of them
EXAMPLES = 3  # images, for each of these

Pair = tuple[int, int]  # true and predicted label


def by_class(context: Context, logits: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
    """Return the names of the classes, and all mistakes by class, the commonest first.

    A mistake is [true label, predicted label, images, examples]; an example [index, digest].
    """
    wrong: dict[Pair, list[int]] = defaultdict(list)
    images: Counter[int] = Counter()
    for task, part, truth in zip(context.tasks, logits, labels, strict=True):
        images.update(truth.tolist())
        for pair, index in wrong_images(task, part, truth):
            wrong[pair].append(index)
    shown = worth_showing({pair: len(found) for pair, found in wrong.items()}, images)
    ordered = sorted(wrong, key=lambda pair: (-len(wrong[pair]), pair))
    return {
        "class_names": context.ordered_names,
        "class_images": [images[label] for label in range(len(context.order))],
        "mistakes": [
            [*pair, len(wrong[pair]), examples(context.dataset.test, wrong[pair], pair in shown)]
            for pair in ordered
        ],
    }


def wrong_images(task: Task, logits: Tensor, truth: Tensor) -> list[tuple[Pair, int]]:
    """Return true and predicted label of every image that is named wrong, and its index."""
    predicted = logits.argmax(1).tolist()
    rows = zip(truth.tolist(), predicted, task.test.indices.tolist(), strict=True)
    return [((true, said), index) for true, said, index in rows if true != said]


def worth_showing(counts: dict[Pair, int], images: Counter[int]) -> set[Pair]:
    """Return the commonest mistakes of the classes that are named right least often."""
    wrong: Counter[int] = Counter()
    for (true, _), count in counts.items():
        wrong[true] += count
    worst = sorted(wrong, key=lambda label: (-wrong[label] / images[label], label))[:WORST]
    found: set[Pair] = set()
    for label in worst:
        own = sorted((-count, pair) for pair, count in counts.items() if pair[0] == label)
        found |= {pair for _, pair in own[:TAKEN_FOR]}
    return found


def examples(items: Items, indices: list[int], shown: bool) -> list[list[Any]]:
    few = [(index, items.item(index)) for index in (indices[:EXAMPLES] if shown else [])]
    # Of texts there is no picture that a report could show.
    return [[index, digest(item)] for index, item in few if isinstance(item, Image.Image)]


def digest(image: Image.Image) -> str:
    """Identify the pixels of an image."""
    content = f"{image.size} {image.mode} ".encode() + image.tobytes()
    return hashlib.sha256(content).hexdigest()[:16]
