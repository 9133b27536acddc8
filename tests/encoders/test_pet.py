"""Tuned copies: equal to the original at first where they should be, and never touching it."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from ovor.encoders import load_backbone, pet
from ovor.encoders.vit import VisionTransformer

IMAGES = torch.rand(3, 3, 14, 14, generator=torch.Generator().manual_seed(0))
TUNINGS: dict[str, Callable[[VisionTransformer, torch.Generator], None]] = {
    "all": lambda vit, draw: pet.with_all_weights(vit),
    "shallow": lambda vit, draw: pet.with_tokens(vit, 3, deep=False),
    "deep": lambda vit, draw: pet.with_tokens(vit, 3, deep=True),
    "adapter": lambda vit, draw: pet.with_adapters(vit, 4, draw),
    "ssf": pet.with_scale_and_shift,
}


@pytest.fixture
def vit(tiny_backbone: str) -> VisionTransformer:
    return load_backbone(tiny_backbone).vit


def tuned(vit: VisionTransformer, name: str) -> VisionTransformer:
    return pet.tuned_copy(vit, TUNINGS[name], torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", TUNINGS)
def test_training_the_copy_leaves_the_original(name: str, vit: VisionTransformer) -> None:
    before = {k: v.clone() for k, v in vit.state_dict().items()}
    copy = tuned(vit, name)
    start = copy(IMAGES)
    learnable = [p for p in copy.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learnable, lr=0.1)
    copy(IMAGES).square().mul(torch.arange(64)).mean().backward()
    optimizer.step()
    assert not torch.allclose(copy(IMAGES), start)
    assert not any(p.requires_grad for p in vit.parameters())
    assert all(torch.equal(before[k], v) for k, v in vit.state_dict().items())


@pytest.mark.parametrize("name", ["all", "adapter"])
def test_the_copy_starts_as_the_original(name: str, vit: VisionTransformer) -> None:
    torch.testing.assert_close(tuned(vit, name)(IMAGES), vit(IMAGES))


def count(vit: VisionTransformer, name: str) -> int:
    return sum(p.numel() for p in tuned(vit, name).parameters() if p.requires_grad)


def test_what_learns_is_what_the_methods_say(vit: VisionTransformer) -> None:
    dim, depth = 64, 5
    assert count(vit, "shallow") == 3 * dim
    assert count(vit, "deep") == 3 * dim * depth
    assert count(vit, "adapter") == depth * (2 * 4 * dim + 4 + dim)
    block = dim + 3 * dim + dim + dim + 64 + dim  # norm1, qkv, proj, norm2, fc1, fc2
    assert count(vit, "ssf") == 2 * (dim + depth * block + dim)  # patches and the last norm too
    assert count(vit, "all") == sum(p.numel() for p in vit.parameters())


def test_ssf_scales_and_shifts_the_output(vit: VisionTransformer) -> None:
    copy = tuned(vit, "ssf")
    x = torch.rand(2, 64)
    fc1, original = copy.blocks[0].mlp.fc1, vit.blocks[0].mlp.fc1  # type: ignore[union-attr]
    lists = fc1.parametrizations  # type: ignore[union-attr]
    gamma, beta = lists.bias[0].gamma, lists.bias[0].beta  # type: ignore[union-attr]
    expected = F.linear(x, original.weight, original.bias) * gamma + beta  # type: ignore
    torch.testing.assert_close(fc1(x), expected)  # type: ignore[operator]


def test_adapter_by_hand(vit: VisionTransformer) -> None:
    copy = tuned(vit, "adapter")
    block = copy.blocks[1]
    assert isinstance(block, pet.AdapterBlock)
    torch.nn.init.normal_(block.up)
    x = torch.randn(2, 5, 64)
    middle = x + block.block.attn(block.block.norm1(x), None, None)
    narrow = (middle @ block.down.T + block.down_bias).relu()
    expected = middle + block.block.mlp(block.block.norm2(middle)) + 0.1 * narrow @ block.up.T
    torch.testing.assert_close(block(x), expected)


def test_deep_tokens_leave_after_each_block(vit: VisionTransformer) -> None:
    copy = tuned(vit, "deep")
    tokens = copy.embed(IMAGES)
    assert copy.blocks[0](tokens).shape == tokens.shape
    shallow = tuned(vit, "shallow")
    assert shallow.blocks[0](tokens).shape[1] == tokens.shape[1] + 3
