"""Learnable parameters and FLOPs of every prompt method, computed, beside the paper's cost table.

The paper's FLOPs are multiply-accumulates of one image with LayerNorm at 5 an element
(methods.md, I).
"""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from rich.console import Group
from rich.table import Table
from rich.text import Text
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ovor.backbones.vit import Architecture, Prefixes, VisionTransformer
from ovor.learners import build_learner
from ovor.learners.base import Learner
from ovor.presets import ALIASES
from ovor.prompts import PROMPTS

VIT_B = Architecture(
    embed_dim=768, depth=12, num_heads=12, mlp_dim=3072, patch_size=16, in_chans=3, grid=(14, 14)
)
UNIT = "oneprompt"  # the method that ratios refer to
LAYER_NORM = 5  # per element

# A new prompt joins by itself. Another method joins by its name, if `begin_task` makes all that
# inference reads.
COUNTED = tuple(PROMPTS)

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
    parameters: int
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
    arch = setting.arch
    return Cost(method, parameters, inference_macs(published, arch), inference_macs(own, arch))


def after_all_tasks(
    method: str, setting: Setting, kind: type[VisionTransformer]
) -> tuple[Learner, int]:
    """The learner as it is in the end, and how many parameters one task or another could change.

    It is on the meta device, where the counter sees fused attention; on a CPU it does not.
    """
    # Prompts start from real values, but nothing reads the backbone's: they are never written.
    backbone = on_meta(kind, setting.arch).to_empty(device="cpu")
    options = OPTIONS[method](setting.tasks) if method in OPTIONS else {}
    learner = build_learner(method, options, backbone, nullcontext)
    learnable = set()
    for task in range(setting.tasks):
        learner.begin_task(setting.classes, (0, task))
        learnable.update(learner.learnable())
    # The counter hooks gradients, which here nobody wants.
    learner.to("meta").eval().requires_grad_(False)
    return learner, sum(parameter.numel() for parameter in learnable)


def on_meta(kind: type[VisionTransformer], arch: Architecture) -> VisionTransformer:
    with torch.device("meta"):
        return kind(arch).requires_grad_(False)


def inference_macs(learner: Learner, arch: Architecture) -> int:
    return count_macs(lambda images: learner.logits(learner.features(images)), arch)


def count_macs(forward: Callable[[Tensor], Tensor], arch: Architecture) -> int:
    """Multiply-accumulates of one image: matrix products, convolution, attention, LayerNorm."""
    images = torch.empty(1, arch.in_chans, arch.image_size, arch.image_size, device="meta")
    norms = {torch.ops.aten.native_layer_norm: layer_norm_flops}
    with FlopCounterMode(display=False, custom_mapping=norms) as counter:
        forward(images)
    return int(counter.get_total_flops()) // 2


def layer_norm_flops(x: torch.Size, *_: Any, out_shape: Any) -> int:
    return 2 * LAYER_NORM * x.numel()  # twice, as the counter's other figures


def paper_rows() -> dict[str, dict[str, float]]:
    """The paper's cost table by our method names; VOR costs nothing at inference."""
    text = (files("ovor") / "assets" / "paper.json").read_text("utf-8")
    table = json.loads(text)["cost_imagenet-r/10"]
    return {ALIASES.get(name, name).removesuffix("+vor"): row for name, row in table.items()}


def cost_table(setting: Setting) -> dict[str, Any]:
    """Every method's cost, and the paper's where the setting is the paper's."""
    costs = [measure(method, setting) for method in COUNTED]
    (unit,) = (cost for cost in costs if cost.method == UNIT)
    paper = paper_rows() if setting == Setting() else {}
    rows = [compare(cost, unit, paper.get(cost.method)) for cost in costs]
    backbone = on_meta(PublishedViT, setting.arch)
    return {
        "tasks": setting.tasks,
        "classes_per_task": setting.classes,
        "image_size": setting.arch.image_size,
        "backbone_gflops": count_macs(backbone, setting.arch) / 1e9,
        "methods": rows,
        "misprints": [misprint for row in rows for misprint in misprints(row)],
    }


def compare(cost: Cost, unit: Cost, paper: dict[str, float] | None) -> dict[str, Any]:
    params_m, gflops = cost.parameters / 1e6, cost.macs / 1e9
    row: dict[str, Any] = {
        "method": cost.method,
        "parameters": cost.parameters,
        "parameters_ratio": cost.parameters / unit.parameters,
        "gflops": gflops,
        "gflops_ratio": cost.macs / unit.macs,
        "gflops_computed_by_ovor": cost.own_macs / 1e9,
        "paper": None,
        "difference": None,
    }
    if paper is not None:
        parameters_ratio, gflops_ratio = PRINTED_RATIOS[cost.method]
        ratios = {"parameters_ratio": parameters_ratio, "gflops_ratio": gflops_ratio}
        row["paper"] = {**paper, **ratios}
        row["difference"] = {
            "params_m": difference(params_m, paper["params_m"]),
            "gflops": difference(gflops, paper["gflops"]),
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


def as_json(table: dict[str, Any]) -> str:
    return json.dumps(table, indent=1) + "\n"


def as_tables(table: dict[str, Any]) -> Group:
    parameters = Table("method", title="Learnable parameters", title_justify="left")
    for heading in ("parameters", "M", "paper", "difference", "ratio", "paper"):
        parameters.add_column(heading, justify="right")
    flops = Table("method", title="FLOPs (G) of one image", title_justify="left")
    for heading in ("computed", "paper", "difference", "ratio", "paper", "in ovor"):
        flops.add_column(heading, justify="right")
    for row in table["methods"]:
        count, own = f"{row['parameters']:,}", f"{row['gflops_computed_by_ovor']:.2f}"
        params_m = row["parameters"] / 1e6
        parameters.add_row(row["method"], count, *cells(row, "params_m", params_m))
        flops.add_row(row["method"], *cells(row, "gflops", row["gflops"]), own)
    return Group(heading_of(table), "", parameters, "", flops, "", *map(Text, notes(table)))


def cells(row: dict[str, Any], what: str, computed: float) -> tuple[str, str, str, str, str]:
    ratio = "parameters_ratio" if what == "params_m" else "gflops_ratio"
    ours = f"{computed:.2f}", f"{row[ratio]:.3f}x"
    if row["paper"] is None:
        return ours[0], "-", "-", ours[1], "-"
    mark = " !" if any(misprint["what"] == ratio for misprint in misprints(row)) else ""
    paper = f"{row['paper'][what]:.2f}", f"{row['paper'][ratio]:.2f}x{mark}"
    return ours[0], paper[0], f"{row['difference'][what]:+.2f}", ours[1], paper[1]


def heading_of(table: dict[str, Any]) -> Text:
    size, tasks, classes = table["image_size"], table["tasks"], table["classes_per_task"]
    return Text(f"ViT-B/16, {size} pixels, {tasks} tasks of {classes} classes; +vor adds nothing.")


def notes(table: dict[str, Any]) -> list[str]:
    lines = [
        "FLOPs as the paper counts them: multiply-accumulates at inference, LayerNorm at 5 an "
        f"element; the ViT alone has {table['backbone_gflops']:.3f} G.",
        "in ovor: the last block for the CLS token only, the image embedded once for both passes.",
        f"Ratios are to {UNIT}.",
    ]
    if any(row["paper"] for row in table["methods"]):
        lines[-1] += " The paper cuts its own after two digits."
    for misprint in table["misprints"]:
        lines.append(
            f"! A misprint in the paper: {misprint['method']} has {misprint['computed']:.2f}x the "
            f"{misprint['what'].removesuffix('_ratio')} of {UNIT}, not {misprint['printed']:.2f}x."
        )
    return lines
