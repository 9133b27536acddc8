"""The training step through torch.compile, against the same step without."""

from collections.abc import Iterator

import torch

from benchmarks.harness import Row, interleave, ratios
from benchmarks.models import our_learner, our_step, random_batch, random_vit


def measure(quick: bool) -> Iterator[Row]:
    size, rounds = (4, 3) if quick else (8, 7)
    images, labels = random_batch(size, 20)
    plain, compiled = (our_learner("oneprompt", random_vit(), tasks=1) for _ in range(2))
    vit = compiled.vit
    vit.encode = torch.compile(vit.encode)  # type: ignore[method-assign]
    steps = {
        "plain": our_step(plain, images, labels),
        "compiled": our_step(compiled, images, labels),
    }
    seconds = interleave(steps, rounds)
    yield Row("training step, torch.compile", "without", ratios(seconds, "plain", "compiled"))
