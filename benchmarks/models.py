"""ViT-B/16 at 224 px with random weights, and every prompt method on it, ours and as released."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.released import Released
from ovor.analysis.cost import VIT_B
from ovor.encoders.vit import Architecture, VisionTransformer
from ovor.learners import build_learner
from ovor.learners.prompt import PromptLearner
from ovor.training.loop import train_step

CLASSES = 20  # of a task: ImageNet-R in ten
METHODS = ("oneprompt", "l2p", "dualprompt", "coda-p")
AS_RELEASED = {"l2p": {"match": "batch"}}  # for the same loss; all else is the same by default
Step = Callable[[], object]


def random_vit(arch: Architecture = VIT_B) -> VisionTransformer:
    """Of the size that trained weights have; what is in them does not change the time."""
    vit = VisionTransformer(arch).requires_grad_(False)
    draw = torch.Generator().manual_seed(0)
    for parameter in vit.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02, generator=draw)
    return vit


def random_batch(size: int, classes: int, arch: Architecture = VIT_B) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    images = torch.rand(size, 3, arch.image_size, arch.image_size, generator=draw)
    return images, torch.randint(classes, (size,), generator=draw)


def our_learner(
    method: str, vit: VisionTransformer, tasks: int, options: dict[str, Any] | None = None
) -> PromptLearner:
    """In the middle of its last task."""
    learner = build_learner(method, options or {}, vit, nullcontext)
    assert isinstance(learner, PromptLearner)
    for task in range(tasks):
        learner.begin_task(CLASSES, (0, task))
    return learner


def released_learner(learner: PromptLearner) -> Released:
    """The same method with the same weights, computed as the released code does."""
    arch, tasks = learner.vit.arch, learner.head.tasks
    head = nn.Linear(arch.embed_dim, CLASSES * len(tasks))
    with torch.no_grad():
        head.weight.copy_(torch.cat([part.weight for part in tasks]))
        head.bias.copy_(torch.cat([part.bias for part in tasks]))
    released = Released(arch, learner.prompt, head, CLASSES * (len(tasks) - 1))
    released.vit.load_state_dict(learner.backbone.state_dict())
    return released


def our_step(learner: PromptLearner, images: Tensor, labels: Tensor, at_once: int = 0) -> Step:
    """One step of training as the loop does it, on labels counted within the task."""
    optimizer = torch.optim.Adam(learner.learnable(), lr=1e-3)
    learner.train()
    size = at_once or learner.backbone.batch(images.shape[-1])
    if not learner.separable:
        size = len(images)
    return partial(train_step, learner, optimizer, Tensor.backward, images, labels, size)


def released_step(released: Released, images: Tensor, labels: Tensor) -> Step:
    """Gradients of the ViT's weights pile up: the optimiser does not know them."""
    optimizer = released.optimizer()
    released.train()

    def step() -> None:
        loss = released.loss(images, labels + released.start)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def step_flops(method: str) -> tuple[int, int]:
    """Of one image's training step, ours and as released.

    On the meta device, where the counter sees fused attention.
    """
    with torch.device("meta"):
        ours = our_learner(method, VisionTransformer(VIT_B).requires_grad_(False), tasks=1)
        released = released_learner(ours)
        images, labels = torch.empty(1, 3, 224, 224), torch.zeros(1, dtype=torch.long)
        totals = []
        for loss in (ours.loss, released.loss):
            with FlopCounterMode(display=False) as counter:
                loss(images, labels).backward()  # type: ignore[no-untyped-call]
            totals.append(int(counter.get_total_flops()))
    return totals[0], totals[1]
