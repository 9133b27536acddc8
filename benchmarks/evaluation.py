"""Both accuracies on a task's test images, class-incremental and with the task given (ViT-B/16).

A task is tested after itself and after each later one. The first time a query-based method also
computes the queries; from then on they are known.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.harness import Row, interleave, ratios
from benchmarks.models import (
    CLASSES,
    METHODS,
    our_learner,
    random_batch,
    random_vit,
    released_learner,
)
from ovor.learners.prompt import PromptLearner
from ovor.training.features import with_known_queries

TASKS = 10


def measure(quick: bool) -> Iterator[Row]:
    size, rounds = (4, 3) if quick else (4, 5)
    for method in METHODS[:2] if quick else METHODS:
        yield from evaluations(method, size, rounds)


def evaluations(method: str, size: int, rounds: int) -> Iterator[Row]:
    learner = our_learner(method, random_vit(), TASKS).eval()
    released = released_learner(learner).eval()
    images, labels = random_batch(size, CLASSES)
    known: list[Tensor | None] = []
    both_accuracies(learner, known, images, labels)
    seconds = interleave(
        {
            "released": lambda: released.accuracies(images, labels, range(CLASSES)),
            "first": lambda: both_accuracies(learner, [], images, labels),
            "later": lambda: both_accuracies(learner, known, images, labels),
        },
        rounds,
    )
    needs_query = learner.prompt.needs_query
    yield Row(
        f"evaluation, {method}" + (", queries known" if needs_query else ""),
        "released",
        ratios(seconds, "released", "later"),
        at_least=4.0 if needs_query else 2.0,
    )
    if needs_query:
        repeats = TASKS * (TASKS - 1) // 2
        whole = {
            "released": [(TASKS + repeats) * s for s in seconds["released"]],
            "ours": [
                TASKS * first + repeats * later
                for first, later in zip(seconds["first"], seconds["later"], strict=True)
            ],
        }
        yield Row(f"  over {TASKS} tasks", "released", ratios(whole, "released", "ours"))


@torch.no_grad()
def both_accuracies(
    learner: PromptLearner, queries: list[Tensor | None], images: Tensor, labels: Tensor
) -> tuple[float, float]:
    """As `ovor.training.loop.evaluate` does, without the loader."""
    logits = learner.logits(with_known_queries(learner, queries)(images))
    given = logits[:, :CLASSES]
    return tuple(float((x.argmax(1) == labels).float().mean()) for x in (logits, given))  # type: ignore[return-value]
