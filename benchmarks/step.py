"""A training step on ViT-B/16 at 224 px: against the released computation, and against the peak."""

from collections.abc import Iterator

import torch

from benchmarks.harness import Row, interleave, ratios
from benchmarks.models import (
    METHODS,
    Step,
    our_learner,
    our_step,
    random_batch,
    random_vit,
    released_learner,
    released_step,
    step_flops,
)
from ovor.analysis.cost import PublishedViT

TASKS = 10
SIDE = 4096  # of the matrices whose product is the machine's peak
PRODUCTS = 4


def measure(quick: bool) -> Iterator[Row]:
    # Batches nearer to the paper's 128 would take too long; with 8 or fewer images the released
    # code does not yet suffer from the size of its activations.
    yield from one_prompt(16, 1 if quick else 3, quick)
    for method in ("coda-p",) if quick else METHODS[1:]:
        yield query_based(method, 24, 1 if quick else 2)
    if not quick:
        yield forward(8, 3)
    for method in METHODS:
        ours, released = (flops / 2e9 for flops in step_flops(method))
        yield Row(f"arithmetic of a step, {method}", "", (ours,), unit="GMAC an image")
        yield Row("  as released", "", (released,), unit="GMAC an image")


def one_prompt(size: int, rounds: int, quick: bool) -> Iterator[Row]:
    variants = {**steps_of("oneprompt", size), "peak": product()}
    if not quick:
        variants |= halfway(size)
    seconds = interleave(variants, rounds, warm=warm("oneprompt"))
    yield Row(
        "training step, oneprompt", "released", ratios(seconds, "released", "ours"), at_least=1.6
    )
    for name in variants:
        if name not in ("released", "ours", "peak"):
            yield Row(f"  {name}", "released", ratios(seconds, "released", name))
    step = [step_flops("oneprompt")[0] * size / s / 1e9 for s in seconds["ours"]]
    peak = [PRODUCTS * 2 * SIDE**3 / s / 1e9 for s in seconds["peak"]]
    yield Row("  arithmetic of the step", "", tuple(step), unit="GFLOP/s")
    yield Row("  of a matrix product, the peak", "", tuple(peak), unit="GFLOP/s")
    shares = tuple(100 * s / p for s, p in zip(step, peak, strict=True))
    yield Row("  the step's share of the peak", "product", shares, unit="%", wish=80)


def query_based(method: str, size: int, rounds: int) -> Row:
    seconds = interleave(steps_of(method, size), rounds, warm=warm(method))
    return Row(
        f"training step, {method}", "released", ratios(seconds, "released", "ours"), at_least=1.45
    )


def warm(method: str) -> dict[str, Step]:
    """Small steps in place of a round that would not count: those take as long as the counted."""
    return steps_of(method, 4)


def steps_of(method: str, size: int) -> dict[str, Step]:
    images, labels = random_batch(size, 20)
    learner = our_learner(method, random_vit(), TASKS)
    released = released_step(released_learner(learner), images, labels)
    ours = our_step(learner, images, labels)
    return {"released": released, "ours": ours}


def halfway(size: int) -> dict[str, Step]:
    """One optimisation more at a time, from the released computation to ours."""
    images, labels = random_batch(size, 20)
    vit = random_vit()
    frozen = released_learner(our_learner("oneprompt", vit, TASKS))
    frozen.vit.requires_grad_(False)
    whole = PublishedViT(vit.arch).requires_grad_(False)
    whole.load_state_dict(vit.state_dict())
    fused, for_cls = (our_learner("oneprompt", network, TASKS) for network in (whole, vit))
    return {
        "frozen backbone": released_step(frozen, images, labels),
        "and fused attention": our_step(fused, images, labels, at_once=size),
        "and the last block for CLS": our_step(for_cls, images, labels, at_once=size),
    }


def product() -> Step:
    """The machine's own peak: large square products, in place, by the library of the step."""
    left, right, out = torch.rand(3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))

    def run() -> None:
        for _ in range(PRODUCTS):
            torch.mm(left, right, out=out)

    return run


def forward(size: int, rounds: int) -> Row:
    """The plain feature, without a prompt: timm computes the whole last block."""
    from tests.oracles import TimmViT  # it needs the test tools

    vit, (images, _) = random_vit(), random_batch(size, 20)
    timm = TimmViT(num_classes=0, global_pool="token").eval().requires_grad_(False)
    timm.load_state_dict(vit.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(vit(images[:1]), timm(images[:1]), rtol=1e-4, atol=1e-4)
        seconds = interleave({"timm": lambda: timm(images), "ours": lambda: vit(images)}, rounds)
    return Row("forward pass, no prompt", "timm", ratios(seconds, "timm", "ours"))
