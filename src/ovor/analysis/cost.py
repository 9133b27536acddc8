"""What a method costs: learnable parameters, stored numbers, passes and FLOPs.

The paper's FLOPs are multiply-accumulates of one image with LayerNorm at 5 an element
(docs/methods.md, cost).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ovor.encoders.base import Encoder
from ovor.encoders.prefixed import Prefixes
from ovor.encoders.vit import Architecture, PatchEmbed, VisionTransformer
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.presets import ANALYTIC

VIT_B = Architecture(
    embed_dim=768, depth=12, num_heads=12, mlp_dim=3072, patch_size=16, in_chans=3, grid=(14, 14)
)
LAYER_NORM = 5  # per element

# A method's own options that are not its defaults. CODA-P shares 100 components among the tasks.
OPTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "analytic": lambda _: ANALYTIC,
    "coda-p": lambda tasks: {"per_task": max(1, 100 // tasks)},
}


@dataclass(frozen=True)
class Setting:
    """Tasks, classes and network; the default is the paper's cost table, ImageNet-R in 10 tasks."""

    tasks: int = 10
    classes: int = 20  # of each task
    arch: Architecture = VIT_B


@dataclass(frozen=True)
class Cost:
    """What one method costs after all tasks."""

    method: str
    parameters: int  # that gradient descent may change in one task or another
    stored: int  # numbers in the learned state
    passes: int  # of one image through the network
    macs: int  # one image, as the paper counts
    own_macs: int  # one image, as the learner computes


class PublishedViT(VisionTransformer):
    """The same network with the work that the paper counts, where no pass spares anything.

    Each pass embeds the image itself, and the last block is computed for all tokens.
    """

    def embed(self, images: Tensor) -> Tensor:
        return images

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        x, prefixes = super().embed(tokens), prefixes or {}
        for layer, block in enumerate(self.blocks):
            x = block(x, prefixes.get(layer))
        return self.norm(x)[:, 0]  # type: ignore[no-any-return]

    def after(self, images: Tensor, which: Collection[int]) -> Iterator[Tensor]:
        return super().after(super().embed(images), which)


@cache
def measure(method: str, setting: Setting) -> Cost:
    """Return what a method costs, counted on a network without values."""
    own, parameters = after_all_tasks(method, setting, VisionTransformer)
    published, _ = after_all_tasks(method, setting, PublishedViT)
    stored = sum(tensor.numel() for tensor in own.learned_state().values())
    size = setting.arch.image_size
    macs, own_macs = (inference_macs(learner, size) for learner in (published, own))
    return Cost(method, parameters, stored, inference_passes(published, size), macs, own_macs)


def after_all_tasks(
    method: str, setting: Setting, kind: type[VisionTransformer]
) -> tuple[Learner, int]:
    """Return the learner after all tasks, and how many parameters one or another could change.

    A new method joins by its name, if `begin_task` makes all that inference reads.
    """
    options = OPTIONS[method](setting.tasks) if method in OPTIONS else {}
    with torch.device("meta"):
        backbone = kind(setting.arch).requires_grad_(False)
    return grown(method, options, [setting.classes] * setting.tasks, backbone)


def grown(
    method: str,
    options: dict[str, Any],
    sizes: Sequence[int],
    backbone: Encoder,
) -> tuple[Learner, int]:
    """Return the learner after tasks of these sizes, and how many parameters they could change.

    All of it, the backbone too, is on the meta device: nothing has values, so RanPAC's Gram matrix
    takes no memory, and the counter sees fused attention, which on a CPU it does not.
    """
    learnable = set()
    with torch.device("meta"):
        learner = build_learner(method, options, backbone, nullcontext)
        for task, classes in enumerate(sizes):
            learner.begin_task(classes, (0, task))
            learnable.update(learner.learnable())
    # The counter hooks gradients, which here nobody wants.
    learner.eval().requires_grad_(False)
    return learner, sum(parameter.numel() for parameter in learnable)


def inference_macs(learner: Learner, size: int) -> int:
    """Return the multiply-accumulates by which the learner classifies one image of this size."""
    return count_macs(lambda images: learner.logits(learner.features(images)), size)


def inference_passes(learner: Learner, size: int) -> int:
    """Count how often an image goes through the published network, where each pass embeds it."""
    passes: list[None] = []
    hooks = [
        module.register_forward_hook(lambda *_: passes.append(None))
        for module in learner.modules()
        if isinstance(module, PatchEmbed)
    ]
    with torch.device("meta"):
        learner.features(torch.empty(1, 3, size, size))
    for hook in hooks:
        hook.remove()
    return len(passes)


def count_macs(forward: Callable[[Tensor], Tensor], size: int) -> int:
    """Count the multiply-accumulates of one image: products, convolution, attention, LayerNorm."""
    norms = {torch.ops.aten.native_layer_norm: layer_norm_flops}
    with torch.device("meta"), FlopCounterMode(display=False, custom_mapping=norms) as counter:
        forward(torch.empty(1, 3, size, size))
    return int(counter.get_total_flops()) // 2


def layer_norm_flops(x: torch.Size, *_: Any, out_shape: Any) -> int:
    return 2 * LAYER_NORM * x.numel()  # twice, as the counter's other figures


def vit_macs(arch: Architecture) -> int:
    """Return the multiply-accumulates of the pre-trained network alone, as published."""
    with torch.device("meta"):
        return count_macs(PublishedViT(arch).requires_grad_(False), arch.image_size)
