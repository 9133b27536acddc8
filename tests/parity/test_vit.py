"""The network against timm's, and its two shortcuts against the plain formulas."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from oracles import TimmViT, timm
from ovor.encoders import Architecture, Prefix, Prefixes, VisionTransformer, load_backbone
from ovor.encoders.vit import Attention
from ovor.encoders.weights import build

SMALL = {
    "embed_dim": 128,
    "depth": 3,
    "num_heads": 2,
    "num_classes": 5,
    "dynamic_img_size": True,
    "weight_init": "skip",  # timm's is slow, and all is drawn again below
}
PATCH8 = {**SMALL, "img_size": 32, "patch_size": 8}
PATCH14 = {**SMALL, "img_size": 56, "patch_size": 14, "init_values": 1e-5}

TIMM = {
    "plain": PATCH8,
    "one channel": {**PATCH8, "in_chans": 1},
    "no qkv bias": {**PATCH8, "qkv_bias": False},
    "narrow mlp": {**PATCH8, "mlp_ratio": 1.5},
    "dinov2": PATCH14,
    "dinov2 with registers": {**PATCH14, "reg_tokens": 4, "no_embed_class": True},
    "deit3": {**PATCH8, "init_values": 1e-5, "no_embed_class": True},
}


def randomise(network: nn.Module) -> None:
    """Draw every parameter, also those that start as zeros and ones and so would hide a mistake."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in network.named_parameters():
        centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        parameter.data = centre + 0.1 * torch.randn(parameter.shape, generator=generator)


def ours(reference: nn.Module, folder: Path) -> VisionTransformer:
    save_file(reference.state_dict(), folder / "reference.safetensors")
    return load_backbone(str(folder / "reference.safetensors")).vit


def encode_in_full(vit: VisionTransformer, tokens: Tensor, prefixes: Prefixes) -> Tensor:
    """Every block for every query, as one would write it without thinking of cost."""
    for layer, block in enumerate(vit.blocks):
        tokens = block(tokens, prefixes.get(layer))
    return vit.norm(tokens)[:, 0]


def check_against_timm(reference: nn.Module, vit: VisionTransformer, images: Tensor) -> None:
    with torch.no_grad():
        expected = reference.eval().forward_features(images)[:, 0]
        # The same operations in the same order: not a bit may differ.
        assert torch.equal(encode_in_full(vit, vit.embed(images), {}), expected)
        # The last block runs for one query instead of all, and matrix products of another shape
        # add up in another order: features of size one agree to float32 rounding.
        torch.testing.assert_close(vit(images), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("case", TIMM)
def test_features_are_those_of_timm(case: str, tmp_path: Path) -> None:
    reference = TimmViT(**TIMM[case])
    randomise(reference)
    vit = ours(reference, tmp_path)
    images = torch.rand(2, vit.arch.in_chans, vit.arch.image_size, vit.arch.image_size)
    check_against_timm(reference, vit, images)


@pytest.mark.parametrize("size", [(40, 40), (16, 16), (24, 48), (16, 64)])
@pytest.mark.parametrize("no_embed_class", [False, True])
def test_other_input_sizes_interpolate_positions_as_timm_does(
    size: tuple[int, int], no_embed_class: bool, tmp_path: Path
) -> None:
    # (16, 64) has as many patches as the checkpoint's grid, but not in the same places.
    reference = TimmViT(**PATCH8, no_embed_class=no_embed_class)
    randomise(reference)
    check_against_timm(reference, ours(reference, tmp_path), torch.rand(2, 3, *size))


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_patch16_224"])
def test_named_models_of_timm(name: str, tmp_path: Path) -> None:
    reference = timm.create_model(name, depth=2, img_size=48, weight_init="skip")
    randomise(reference)
    vit = ours(reference, tmp_path)
    assert vit.arch == Architecture(
        embed_dim=192, depth=2, num_heads=3, mlp_dim=768, patch_size=16, in_chans=3, grid=(3, 3)
    )
    check_against_timm(reference, vit, torch.rand(2, 3, 48, 48))


def test_vit_base_loads_strictly() -> None:
    reference = timm.create_model("vit_base_patch16_224", num_classes=0, weight_init="skip")
    for token in (reference.cls_token, reference.pos_embed):
        nn.init.normal_(token, std=0.02)
    vit = build(reference.state_dict(), None, "ViT-B")
    assert (vit.arch.depth, vit.arch.num_heads, vit.arch.grid) == (12, 12, (14, 14))
    check_against_timm(reference, vit, torch.rand(1, 3, 224, 224))


def test_class_position_beside_registers_is_added_to_the_class_token_alone() -> None:
    """DINOv2's own files keep the class position that timm's have folded into the token."""
    sizes = {"embed_dim": 64, "depth": 2, "num_heads": 1, "mlp_dim": 64, "patch_size": 8}
    own = VisionTransformer(Architecture(**sizes, in_chans=3, grid=(2, 2), registers=3))
    randomise(own)
    folded = VisionTransformer(
        Architecture(**sizes, in_chans=3, grid=(2, 2), registers=3, embed_class=False)
    )
    state = own.state_dict()
    state["cls_token"] = state["cls_token"] + state["pos_embed"][:, :1]
    state["pos_embed"] = state["pos_embed"][:, 1:]
    folded.load_state_dict(state)
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(own(images), folded(images))


def draw_prefixes(batch: int, width: int, dtype: torch.dtype) -> dict[int, Prefix]:
    """Shared by the batch in layer 0, one per image in layers 1 and 2; 2 is the last."""
    generator = torch.Generator().manual_seed(1)
    shapes = {0: (1, 5, width), 1: (batch, 2, width), 2: (batch, 3, width)}

    def draw(shape: tuple[int, int, int]) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    return {layer: (draw(shape), draw(shape)) for layer, shape in shapes.items()}


@pytest.mark.parametrize("case", ["plain", "no qkv bias", "dinov2 with registers"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    # In float64 only rounding is left, so that a wrong term cannot hide; float32 is what runs.
    [(torch.float64, 1e-12), (torch.float32, 1e-4)],
)
def test_last_block_for_the_class_query_alone_equals_the_full_one(
    case: str, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    reference = TimmViT(**TIMM[case])
    randomise(reference)
    vit = ours(reference, tmp_path).to(dtype)
    images = torch.rand(3, 3, vit.arch.image_size, vit.arch.image_size, dtype=dtype)
    prefixes = draw_prefixes(3, vit.arch.embed_dim, dtype)
    leaves = [tensor for pair in prefixes.values() for tensor in pair]
    direction = torch.randn(3, vit.arch.embed_dim, dtype=dtype)

    tokens = vit.embed(images)
    short, full = vit.encode(tokens, prefixes), encode_in_full(vit, tokens, prefixes)
    torch.testing.assert_close(short, full, rtol=0, atol=tolerance)
    gradients = zip(
        torch.autograd.grad((short * direction).sum(), leaves),
        torch.autograd.grad((full * direction).sum(), leaves),
        strict=True,
    )
    for of_short, of_full in gradients:
        assert of_full.abs().max() > 0
        torch.testing.assert_close(of_short, of_full, rtol=0, atol=tolerance)


def attend_naively(attention: Attention, x: Tensor, prefix: Prefix) -> Tensor:
    """softmax(q [P_k; k]' / sqrt(d)) [P_v; v], head by head and image by image."""
    width, heads = x.shape[-1], attention.num_heads
    out = torch.zeros_like(x)
    for image in range(len(x)):
        q, k, v = attention.qkv(x[image]).split(width, dim=-1)
        pk, pv = (p[image if len(p) > 1 else 0] for p in prefix)
        k, v = torch.cat([pk, k]), torch.cat([pv, v])
        for head in range(heads):
            part = slice(head * width // heads, (head + 1) * width // heads)
            scores = q[:, part] @ k[:, part].T / (width // heads) ** 0.5
            out[image, :, part] = torch.softmax(scores, dim=-1) @ v[:, part]
    return attention.proj(out)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("queries", [None, 1, 2])
def test_prefix_attention_is_softmax_over_prefix_and_tokens(
    batch: int, queries: int | None
) -> None:
    attention = Attention(32, num_heads=4, qkv_bias=True)
    randomise(attention)
    attention.double()
    x = torch.randn(3, 7, 32, dtype=torch.float64)
    prefix = tuple(torch.randn(2, batch, 5, 32, dtype=torch.float64))
    expected = attend_naively(attention, x, prefix)[:, :queries]
    torch.testing.assert_close(attention(x, prefix, queries), expected, rtol=0, atol=1e-12)
