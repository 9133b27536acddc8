"""The pretrained backbone by name: embedded, from a file, or fetched by its timm name (App. C).

The architecture is read off the tensors, so that any plain ViT loads without being registered.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import as_file, files
from math import isqrt
from pathlib import Path

import torch
from torch import Tensor

from ovor.encoders import efficientnet, onnx, text, timm
from ovor.encoders.backbone import PAPER, Backbone
from ovor.encoders.base import Encoder, with_memory
from ovor.encoders.formats import READERS, abridge, read_weights
from ovor.encoders.hub import download
from ovor.encoders.preprocessing import (
    UNCHANGED,
    Preprocessing,
    find_preprocessing,
    of_efficientnet,
)
from ovor.encoders.vit import Architecture, VisionTransformer
from ovor.errors import OvorError

ASSETS = files("ovor") / "assets"
HUB_FILE = "model.safetensors"
TIMM_NAME = re.compile(r"(?:flexivit_\w+|\w+_patch\d+\w*)(?P<tag>\.\w+)?")
BLOCK = re.compile(r"^blocks\.\d+\.")
# Recommended for photographs: DINOv2 with registers.
SHORT_NAMES = {
    size: f"vit_{size}_patch14_reg4_dinov2.lvd142m" for size in ("small", "base", "large")
}

# Published ViTs whose heads are not 64 wide: huge, giant and gigantic. A wrong number of heads
# would load without complaint and give wrong features.
HEADS = {1280: 16, 1408: 16, 1664: 16}

Shapes = Mapping[str, torch.Size]


def load_backbone(
    name: str, num_heads: int | None = None, cache_dir: str | Path | None = None
) -> Backbone:
    """Load what ENCODERS names, a .safetensors, .pth, .pt, .bin or .npz file, a timm name with its
    tag, or one of SHORT_NAMES.

    `num_heads` is needed only where heads are not 64 wide; `cache_dir` replaces the hub's cache.
    """
    kind, colon, rest = name.partition(":")
    if kind + colon in ENCODERS:
        return ENCODERS[kind + colon](rest if colon else name, num_heads)
    if name in SHORT_NAMES:
        full = SHORT_NAMES[name]
        return load_file(fetch(full, cache_dir), name, f"hub: timm/{full}", num_heads)
    path = Path(os.path.expanduser(name))  # Path.expanduser fails for a file called ~x
    timm_name = None if path.suffix in READERS else TIMM_NAME.fullmatch(name)
    if timm_name is None:
        check_is_a_path(path, name)
        return load_file(path, name, f"file: {path.name}", num_heads)
    if not timm_name["tag"]:
        raise OvorError(
            f'"{name}" does not say which weights: a bare timm name means whatever timm holds for '
            "its default, and that of vit_base_patch16_224 is now augreg2_in21k_ft_in1k, not the "
            f'paper\'s; add the tag, such as "{PAPER}".'
        )
    return load_file(fetch(name, cache_dir), name, f"hub: timm/{name}", num_heads)


def load_embedded(name: str, num_heads: int | None) -> Backbone:
    """Load the network that is part of this package."""
    with as_file(ASSETS / "backbone.safetensors") as path:
        if not path.is_file():
            raise OvorError("the embedded backbone is missing; install ovor again.")
        found = load_file(path, name, f"embedded in ovor {version('ovor')}", num_heads)
    size = found.encoder.image_size
    own = Preprocessing(size, *UNCHANGED, 1.0, "bilinear", "ovor, which made it")
    return replace(found, preprocessing=own)


def load_photos(name: str, _: int | None) -> Backbone:
    """Load a network whose weights are a package of their own."""
    path, package = efficientnet.weights_file(name)
    source = f"package: {package.name} {version(package.name)}"
    return load_file(path, name, source, None)


def check_is_a_path(path: Path, name: str) -> None:
    if path.suffix == ".onnx":
        raise OvorError(f'"{name}" is an ONNX file: write onnx:{name}')
    if not path.suffix and not path.exists():
        short = ", ".join(f'"{known}"' for known in SHORT_NAMES)
        raise OvorError(
            f'there is no backbone "{name}"; write "embedded" (drawings), "photos", {short}, '
            f'timm:NAME, onnx:FILE, "text" (or text:NAME), a timm name with its tag such as '
            f'"{PAPER}", or the path of a '
            f"{', '.join(READERS)} file."
        )


def fetch(name: str, cache_dir: str | Path | None) -> Path:
    """Return the file in the hub's cache, downloaded if it is not there yet."""
    return download(f"timm/{name}", HUB_FILE, cache_dir, "give its path as the backbone")


def load_file(path: Path, name: str, source: str, num_heads: int | None) -> Backbone:
    label = source.removeprefix("file: ").removeprefix("hub: ").removeprefix("package: ")
    found = read_weights(path, label)
    if num_heads is None:
        num_heads = found.num_heads
    elif found.num_heads not in (None, num_heads):
        raise OvorError(
            f"{label} has {found.num_heads} heads, not {num_heads}; leave num_heads out."
        )
    encoder = build(found.tensors, num_heads, label)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if isinstance(encoder, VisionTransformer):
        own = find_preprocessing(path, label, encoder.arch)
    else:
        own = of_efficientnet(encoder.image_size)
    return Backbone(encoder, name, source, sha256, own)


def build(tensors: dict[str, Tensor], num_heads: int | None, label: str) -> Encoder:
    """Return the frozen network that the tensors describe, with a copy of them as weights."""
    if text.describes(tensors):
        return text.build(tensors, label)
    if efficientnet.describes(tensors):
        return efficientnet.build(tensors, label)
    return build_vit(tensors, num_heads, label)


def build_vit(tensors: dict[str, Tensor], num_heads: int | None, label: str) -> VisionTransformer:
    """Return the ViT that the tensors describe."""
    arch = read_architecture({name: x.shape for name, x in tensors.items()}, num_heads, label)
    with torch.device("meta"):  # the weights are replaced at once: do not draw them
        vit = VisionTransformer(arch)
    # A copy lies where torch puts it, at multiples of 64 bytes: where a file has the numbers, MKL
    # may add up in another order, and the last bits of a feature would depend on the file.
    with_memory(vit).load_state_dict(tensors)
    return vit.requires_grad_(False).eval()


def read_architecture(shapes: Shapes, num_heads: int | None, label: str) -> Architecture:
    """Read an architecture off names and shapes; refuse what this plain ViT would not compute."""
    outline = read_outline(shapes)
    check_names(shapes, outline, label)
    check_ranks(shapes, outline, label)
    embed_dim, in_chans, rows, _ = shapes["patch_embed.proj.weight"]
    grid, embed_class = read_grid(shapes["pos_embed"][1], label)
    arch = replace(
        outline,
        embed_dim=embed_dim,
        num_heads=choose_heads(embed_dim, num_heads, label),
        mlp_dim=shapes["blocks.0.mlp.fc1.weight"][0],
        patch_size=rows,
        in_chans=in_chans,
        grid=grid,
        registers=shapes["reg_token"][1] if outline.registers else 0,
        embed_class=embed_class,
    )
    check_shapes(shapes, arch, label)
    return arch


def read_outline(shapes: Shapes) -> Architecture:
    """Return an architecture with the right parts, all of size one."""
    blocks = {match[0] for name in shapes if (match := BLOCK.match(name))}
    return Architecture(
        embed_dim=1,
        depth=max(1, len(blocks)),
        num_heads=1,
        mlp_dim=1,
        patch_size=1,
        in_chans=1,
        grid=(1, 1),
        registers=int("reg_token" in shapes),
        layer_scale=any(name.endswith(".ls1.gamma") for name in shapes),
        qkv_bias=any(name.endswith(".attn.qkv.bias") for name in shapes),
    )


def expected_shapes(arch: Architecture) -> Shapes:
    with torch.device("meta"):
        return {name: x.shape for name, x in VisionTransformer(arch).state_dict().items()}


def check_names(shapes: Shapes, outline: Architecture, label: str) -> None:
    if "cls_token" not in shapes:
        raise OvorError(
            f"{label} has no cls_token, whose feature the methods here read; "
            f"choose a ViT with a class token, such as {PAPER}."
        )
    expected = expected_shapes(outline)
    # A block beyond the last is no foreign part: it means that one before it is missing.
    extra = [name for name in shapes if BLOCK.sub("blocks.0.", name) not in expected]
    if extra:
        raise OvorError(
            f"{label} has {len(extra)} tensor(s) that a plain ViT does not ({abridge(extra)}), and "
            f"without them its features would be wrong; choose a plain ViT, such as {PAPER}."
        )
    missing = [name for name in expected if name not in shapes]
    if missing:
        raise OvorError(
            f"{label} lacks {len(missing)} tensor(s) of a ViT ({abridge(missing)}); "
            "save the whole state_dict(), or download the file again."
        )


def check_ranks(shapes: Shapes, outline: Architecture, label: str) -> None:
    wrong = [
        f"{name} {list(shapes[name])}"
        for name, shape in expected_shapes(outline).items()
        if len(shapes[name]) != len(shape)
    ]
    if wrong:
        raise OvorError(
            f"{label} has tensors of another shape than a ViT's ({abridge(wrong)}); "
            f"choose a plain ViT, such as {PAPER}."
        )


def check_shapes(shapes: Shapes, arch: Architecture, label: str) -> None:
    wrong = [
        f"{name} {list(shapes[name])} instead of {list(shape)}"
        for name, shape in expected_shapes(arch).items()
        if shapes[name] != shape
    ]
    if wrong:
        raise OvorError(
            f"{label} has tensors whose shapes do not fit together ({abridge(wrong)}); "
            f"choose a plain ViT, such as {PAPER}: gated MLPs and non-square patches are not."
        )


def read_grid(positions: int, label: str) -> tuple[tuple[int, int], bool]:
    """Return the square grid of patches, and whether the class token has a position too."""
    for embed_class in (False, True):
        patches = positions - embed_class
        side = isqrt(max(0, patches))
        if side and side * side == patches:
            return (side, side), embed_class
    raise OvorError(
        f"{label} has {positions} positions, which are no square grid, with or without one for "
        f"the class token; choose a plain ViT with square input, such as {PAPER}."
    )


def choose_heads(embed_dim: int, num_heads: int | None, label: str) -> int:
    if num_heads is None and embed_dim % 64 == 0:
        return HEADS.get(embed_dim, embed_dim // 64)
    if num_heads is None:
        raise OvorError(
            f"{label} is {embed_dim} wide, not a multiple of the usual 64 per head; give num_heads."
        )
    if num_heads < 1 or embed_dim % num_heads:
        raise OvorError(
            f"{label} is {embed_dim} wide, which does not split into {num_heads} heads; "
            "give the num_heads it was trained with."
        )
    return num_heads


# What has a name of its own, or begins with the name of its kind.
ENCODERS: dict[str, Callable[[str, int | None], Backbone]] = {
    "embedded": load_embedded,
    **dict.fromkeys(efficientnet.PACKAGES, load_photos),
    "text": text.load_package,
    "text:": text.load,
    "timm:": timm.load,
    "onnx:": onnx.load,
}
