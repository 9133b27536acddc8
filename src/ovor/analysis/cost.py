"""Learnable parameters, stored numbers and FLOPs of every method, beside the paper's cost table.

The paper's FLOPs are multiply-accumulates of one image with LayerNorm at 5 an element
(methods.md, I).
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ovor.encoders.vit import Architecture, Prefixes, VisionTransformer
from ovor.learners import METHODS, build_learner, options_type
from ovor.learners.base import Learner
from ovor.paper import paper
from ovor.presets import ALIASES

VIT_B = Architecture(
    embed_dim=768, depth=12, num_heads=12, mlp_dim=3072, patch_size=16, in_chans=3, grid=(14, 14)
)
UNIT = "oneprompt"  # the method that ratios refer to
LAYER_NORM = 5  # per element

# A method's own options, where they depend on the number of tasks. CODA-P shares 100 components.
OPTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "coda-p": lambda tasks: {"per_task": max(1, 100 // tasks)},
}

# As printed, of parameters and of FLOPs; paper.json has the figures that they are ratios of.
PRINTED_RATIOS = {
    "l2p": (2.44, 1.99),
    "dualprompt": (4.26, 1.99),
    "coda-p": (13.28, 1.99),
    "oneprompt": (1.00, 1.00),
}


@dataclass(frozen=True)
class Setting:
    """The paper's cost table is of ImageNet-R in 10 tasks."""

    tasks: int = 10
    classes: int = 20  # of each task
    arch: Architecture = VIT_B


@dataclass(frozen=True)
class Cost:
    """Of one method after all tasks."""

    method: str
    parameters: int  # that gradient descent may change in one task or another
    stored: int  # numbers in the learned state
    macs: int  # one image, as the paper counts
    own_macs: int  # one image, as the learner computes


class PublishedViT(VisionTransformer):
    """The same network at the price that the paper counts, where no pass spares anything.

    Each pass embeds the image itself, and the last block is computed for all tokens.
    """

    def embed(self, images: Tensor) -> Tensor:
        return images

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        x, prefixes = super().embed(tokens), prefixes or {}
        for layer, block in enumerate(self.blocks):
            x = block(x, prefixes.get(layer))
        return self.norm(x)[:, 0]  # type: ignore[no-any-return]


def measure(method: str, setting: Setting) -> Cost:
    own, parameters = after_all_tasks(method, setting, VisionTransformer)
    published, _ = after_all_tasks(method, setting, PublishedViT)
    stored = sum(tensor.numel() for tensor in own.learned_state().values())
    arch = setting.arch
    macs, own_macs = inference_macs(published, arch), inference_macs(own, arch)
    return Cost(method, parameters, stored, macs, own_macs)


def after_all_tasks(
    method: str, setting: Setting, kind: type[VisionTransformer]
) -> tuple[Learner, int]:
    """The learner as it is in the end, and how many parameters one task or another could change.

    A new method joins by its name, if `begin_task` makes all that inference reads.
    """
    options = OPTIONS[method](setting.tasks) if method in OPTIONS else {}
    return grown(method, options, [setting.classes] * setting.tasks, kind, setting.arch)


def grown(
    method: str,
    options: dict[str, Any],
    sizes: Sequence[int],
    kind: type[VisionTransformer],
    arch: Architecture,
) -> tuple[Learner, int]:
    """The same for tasks of these sizes.

    All of it is on the meta device: nothing has values, so RanPAC's Gram matrix takes no memory,
    and the counter sees fused attention, which on a CPU it does not.
    """
    learnable = set()
    with torch.device("meta"):
        backbone = kind(arch).requires_grad_(False)
        learner = build_learner(method, options, backbone, nullcontext)
        for task, classes in enumerate(sizes):
            learner.begin_task(classes, (0, task))
            learnable.update(learner.learnable())
    # The counter hooks gradients, which here nobody wants.
    learner.eval().requires_grad_(False)
    return learner, sum(parameter.numel() for parameter in learnable)


def inference_macs(learner: Learner, arch: Architecture) -> int:
    return count_macs(lambda images: learner.logits(learner.features(images)), arch)


def count_macs(forward: Callable[[Tensor], Tensor], arch: Architecture) -> int:
    """Multiply-accumulates of one image: matrix products, convolution, attention, LayerNorm."""
    norms = {torch.ops.aten.native_layer_norm: layer_norm_flops}
    with torch.device("meta"), FlopCounterMode(display=False, custom_mapping=norms) as counter:
        forward(torch.empty(1, arch.in_chans, arch.image_size, arch.image_size))
    return int(counter.get_total_flops()) // 2


def layer_norm_flops(x: torch.Size, *_: Any, out_shape: Any) -> int:
    return 2 * LAYER_NORM * x.numel()  # twice, as the counter's other figures


def vit_macs(arch: Architecture) -> int:
    """Of the pre-trained network alone, as published."""
    with torch.device("meta"):
        return count_macs(PublishedViT(arch).requires_grad_(False), arch)


def paper_rows() -> dict[str, dict[str, float]]:
    """The paper's cost table by our method names; VOR costs nothing at inference."""
    return {plain(name): row for name, row in paper()["cost_imagenet-r/10"].items()}


def plain(method: str) -> str:
    """The name of the row: a method costs the same with VOR."""
    return ALIASES.get(method, method).removesuffix("+vor")


def cost_table(setting: Setting, methods: Sequence[str] = ()) -> dict[str, Any]:
    """The cost of these methods or of all, and the paper's where the setting is the paper's."""
    names = list(dict.fromkeys(map(plain, methods or METHODS)))
    for name in names:
        options_type(name)  # says so if there is no such method, before anything is computed
    costs = {name: measure(name, setting) for name in dict.fromkeys([*names, UNIT])}
    printed = paper_rows() if setting == Setting() else {}
    rows = [compare(costs[name], costs[UNIT], printed.get(name)) for name in names]
    return {
        "tasks": setting.tasks,
        "classes_per_task": setting.classes,
        "image_size": setting.arch.image_size,
        "backbone_gflops": vit_macs(setting.arch) / 1e9,
        "methods": rows,
        "misprints": [misprint for row in rows for misprint in misprints(row)],
    }


def compare(cost: Cost, unit: Cost, printed: dict[str, float] | None) -> dict[str, Any]:
    params_m, gflops = cost.parameters / 1e6, cost.macs / 1e9
    row: dict[str, Any] = {
        "method": cost.method,
        "parameters": cost.parameters,
        "parameters_ratio": cost.parameters / unit.parameters,
        "stored": cost.stored,
        "gflops": gflops,
        "gflops_ratio": cost.macs / unit.macs,
        "gflops_computed_by_ovor": cost.own_macs / 1e9,
        "paper": None,
        "difference": None,
    }
    if printed is not None:
        parameters_ratio, gflops_ratio = PRINTED_RATIOS[cost.method]
        ratios = {"parameters_ratio": parameters_ratio, "gflops_ratio": gflops_ratio}
        row["paper"] = {**printed, **ratios}
        row["difference"] = {
            "params_m": difference(params_m, printed["params_m"]),
            "gflops": difference(gflops, printed["gflops"]),
        }
    return row


def difference(computed: float, printed: float) -> float:
    """In the digits that the paper prints."""
    return round(round(computed, 2) - printed, 2) + 0.0  # no negative zero


def misprints(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Printed ratios that are neither the computed one rounded nor cut, as the paper cuts 1.998."""
    if row["paper"] is None:
        return []
    return [
        {
            "method": row["method"],
            "what": what,
            "printed": row["paper"][what],
            "computed": row[what],
        }
        for what in ("parameters_ratio", "gflops_ratio")
        if abs(row["paper"][what] - row[what]) >= 0.01
    ]
