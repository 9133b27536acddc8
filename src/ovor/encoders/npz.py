"""The AugReg layout of ViT weights (flax, .npz), converted to timm's names.

The paper's appendix C names its backbone as such a file. Flax keeps kernels as (in, out) and the
heads of attention as an axis of their own; torch wants (out, in) and the heads flattened.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ATTENTION = "MultiHeadDotProductAttention_1"


def same(x: Array) -> Array:
    return x


def dense(kernel: Array) -> Array:
    return kernel.T  # in, out -> out, in


def conv(kernel: Array) -> Array:
    return kernel.transpose(3, 2, 0, 1)  # HWIO -> OIHW


def split_heads(kernel: Array) -> Array:
    return kernel.reshape(kernel.shape[0], -1).T  # D, H, D/H -> D, D


def join_heads(kernel: Array) -> Array:
    return kernel.reshape(-1, kernel.shape[-1]).T  # H, D/H, D -> D, D


Rule = tuple[str, Callable[[Array], Array]]

STEM: dict[str, Rule] = {
    "cls": ("cls_token", same),
    "embedding/kernel": ("patch_embed.proj.weight", conv),
    "embedding/bias": ("patch_embed.proj.bias", same),
    "Transformer/posembed_input/pos_embedding": ("pos_embed", same),
    "Transformer/encoder_norm/scale": ("norm.weight", same),
    "Transformer/encoder_norm/bias": ("norm.bias", same),
}
BLOCK: dict[str, Rule] = {
    "LayerNorm_0/scale": ("norm1.weight", same),
    "LayerNorm_0/bias": ("norm1.bias", same),
    f"{ATTENTION}/out/kernel": ("attn.proj.weight", join_heads),
    f"{ATTENTION}/out/bias": ("attn.proj.bias", same),
    "LayerNorm_2/scale": ("norm2.weight", same),
    "LayerNorm_2/bias": ("norm2.bias", same),
    "MlpBlock_3/Dense_0/kernel": ("mlp.fc1.weight", dense),
    "MlpBlock_3/Dense_0/bias": ("mlp.fc1.bias", same),
    "MlpBlock_3/Dense_1/kernel": ("mlp.fc2.weight", dense),
    "MlpBlock_3/Dense_1/bias": ("mlp.fc2.bias", same),
}
QKV: dict[str, Rule] = {
    "kernel": ("attn.qkv.weight", split_heads),
    "bias": ("attn.qkv.bias", np.ravel),
}
BLOCK_NAME = re.compile(r"Transformer/encoderblock_(\d+)/(.+)")
QKV_NAME = re.compile(rf"{ATTENTION}/(query|key|value)/(kernel|bias)")


def to_timm(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Rename and transpose; what is not part of the layout keeps its name, to be refused."""
    if "embedding/kernel" not in arrays:
        raise KeyError("embedding/kernel")
    named: dict[str, Array] = {}
    for name, array in arrays.items():
        match = BLOCK_NAME.fullmatch(name)
        block, inner = match.groups() if match else ("", name)
        rules = BLOCK if match else STEM
        if inner in rules:
            target, change = rules[inner]
            named[f"blocks.{block}.{target}" if match else target] = change(array)
        elif not (part := QKV_NAME.fullmatch(inner)):
            named[name] = array
        elif part[1] == "query":
            target, change = QKV[part[2]]
            trio = [arrays[name.replace("/query/", f"/{p}/")] for p in ("query", "key", "value")]
            named[f"blocks.{block}.{target}"] = np.concatenate([change(x) for x in trio])
    return named


def count_heads(arrays: Mapping[str, Array]) -> int | None:
    """Return the number of heads, which this layout tells and timm's does not."""
    kernel = arrays.get(f"Transformer/encoderblock_0/{ATTENTION}/query/kernel")
    return kernel.shape[1] if kernel is not None and kernel.ndim == 3 else None
