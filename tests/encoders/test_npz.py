"""Files in the AugReg layout, written here by undoing the conversion, and read by timm as well."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from oracles import TimmViT
from ovor.encoders import VisionTransformer, load_backbone
from ovor.errors import OvorError

Arrays = dict[str, npt.NDArray[np.float32]]
ATTENTION = "MultiHeadDotProductAttention_1"


def augreg_block(state: dict[str, Tensor], heads: int) -> dict[str, Tensor]:
    width = state["norm1.weight"].shape[0]
    arrays = {
        "LayerNorm_0/scale": state["norm1.weight"],
        "LayerNorm_0/bias": state["norm1.bias"],
        f"{ATTENTION}/out/kernel": state["attn.proj.weight"].T.reshape(heads, -1, width),
        f"{ATTENTION}/out/bias": state["attn.proj.bias"],
        "LayerNorm_2/scale": state["norm2.weight"],
        "LayerNorm_2/bias": state["norm2.bias"],
        "MlpBlock_3/Dense_0/kernel": state["mlp.fc1.weight"].T,
        "MlpBlock_3/Dense_0/bias": state["mlp.fc1.bias"],
        "MlpBlock_3/Dense_1/kernel": state["mlp.fc2.weight"].T,
        "MlpBlock_3/Dense_1/bias": state["mlp.fc2.bias"],
    }
    for i, part in enumerate(("query", "key", "value")):
        rows = slice(i * width, (i + 1) * width)
        kernel = state["attn.qkv.weight"][rows].T
        arrays[f"{ATTENTION}/{part}/kernel"] = kernel.reshape(width, heads, -1)
        arrays[f"{ATTENTION}/{part}/bias"] = state["attn.qkv.bias"][rows].reshape(heads, -1)
    return arrays


def augreg(vit: VisionTransformer) -> Arrays:
    state = vit.state_dict()
    arrays = {
        "cls": state["cls_token"],
        "embedding/kernel": state["patch_embed.proj.weight"].permute(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        "Transformer/encoder_norm/scale": state["norm.weight"],
        "Transformer/encoder_norm/bias": state["norm.bias"],
        "head/kernel": torch.zeros(128, 5),
        "head/bias": torch.zeros(5),
    }
    for i, block in enumerate(vit.blocks):
        inner = augreg_block(block.state_dict(), vit.arch.num_heads)
        arrays |= {f"Transformer/encoderblock_{i}/{name}": x for name, x in inner.items()}
    return {name: tensor.numpy() for name, tensor in arrays.items()}


@pytest.fixture
def arrays(vit: VisionTransformer) -> Arrays:
    return augreg(vit)


def store(arrays: Arrays, folder: Path) -> str:
    np.savez(folder / "B_16.npz", **arrays)
    return str(folder / "B_16.npz")


def test_round_trip(arrays: Arrays, vit: VisionTransformer, tmp_path: Path) -> None:
    backbone = load_backbone(store(arrays, tmp_path))
    assert backbone.source == "file: B_16.npz"
    assert backbone.vit.arch == vit.arch
    for name, tensor in vit.state_dict().items():
        assert torch.equal(backbone.vit.state_dict()[name], tensor)


def test_timm_reads_the_same_weights(arrays: Arrays, images: Tensor, tmp_path: Path) -> None:
    file = store(arrays, tmp_path)
    reference = TimmViT(
        img_size=12, patch_size=4, embed_dim=128, depth=2, num_heads=2, mlp_ratio=0.75
    )
    reference.load_pretrained(file)
    vit = load_backbone(file).vit
    for name, tensor in vit.state_dict().items():
        assert torch.equal(tensor, reference.state_dict()[name])
    with torch.no_grad():
        expected = reference.eval().forward_features(images)[:, 0]
    torch.testing.assert_close(vit(images), expected, rtol=0, atol=2e-5)


def test_heads_are_read_off_the_file(vit: VisionTransformer, tmp_path: Path) -> None:
    vit.arch = replace(vit.arch, num_heads=8)
    file = store(augreg(vit), tmp_path)
    assert load_backbone(file).vit.arch.num_heads == 8
    with pytest.raises(OvorError, match=r"B_16.npz has 8 heads, not 2; leave num_heads out"):
        load_backbone(file, num_heads=2)


def test_another_layout(arrays: Arrays, tmp_path: Path) -> None:
    file = store({f"params/{name}": array for name, array in arrays.items()}, tmp_path)
    with pytest.raises(OvorError, match=r"B_16.npz is not in the AugReg layout .*safetensors"):
        load_backbone(file)


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_missing_part_of_attention(part: str, arrays: Arrays, tmp_path: Path) -> None:
    del arrays[f"Transformer/encoderblock_1/{ATTENTION}/{part}/kernel"]
    with pytest.raises(OvorError, match=r"B_16.npz .*(/kernel|blocks.1.attn.qkv.weight)"):
        load_backbone(store(arrays, tmp_path))


def test_foreign_array_is_named_as_in_the_file(arrays: Arrays, tmp_path: Path) -> None:
    arrays["conv_root/kernel"] = np.zeros(3, np.float32)  # of the hybrids with a ResNet stem
    with pytest.raises(OvorError, match=r"B_16.npz has 1 tensor.* \(conv_root/kernel\)"):
        load_backbone(store(arrays, tmp_path))


def test_arrays_of_the_wrong_rank(arrays: Arrays, tmp_path: Path) -> None:
    arrays["embedding/kernel"] = arrays["embedding/kernel"][0]
    with pytest.raises(OvorError, match=r"B_16.npz is not in the AugReg layout"):
        load_backbone(store(arrays, tmp_path))


def test_pickled_arrays_are_refused(arrays: Arrays, tmp_path: Path) -> None:
    arrays["cls"] = np.array([{"any": "object"}], dtype=object)
    with pytest.raises(OvorError, match=r"B_16.npz is truncated or not a NumPy .npz file"):
        load_backbone(store(arrays, tmp_path))
