import pytest
import torch
from torch import Tensor

from ovor.encoders import VisionTransformer


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_feature_is_float32_under_bfloat16(vit: VisionTransformer, images: Tensor) -> None:
    prefixes = {1: (torch.rand(1, 3, 128), torch.rand(1, 3, 128))}
    # Without oneDNN: on some virtual machines its bfloat16 kernels are illegal instructions.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        feature = vit(images, prefixes)
    assert feature.dtype == torch.float32
    torch.testing.assert_close(feature, vit(images, prefixes), rtol=0, atol=0.1)


def test_a_prefix_is_shared_or_each_image_has_its_own(
    vit: VisionTransformer, images: Tensor
) -> None:
    keys, values = torch.randn(2, 1, 3, 128)
    shared = vit(images, {0: (keys, values)})
    repeated = vit(images, {0: (keys.repeat(2, 1, 1), values.repeat(2, 1, 1))})
    assert torch.equal(shared, repeated)
    keys, values = torch.randn(2, 2, 3, 128)
    together = vit(images, {1: (keys, values)})
    for i in range(2):
        alone = vit(images[i : i + 1], {1: (keys[i : i + 1], values[i : i + 1])})
        torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e-5)


def test_tokens_are_embedded_once_for_both_passes(vit: VisionTransformer, images: Tensor) -> None:
    prefixes = {0: (torch.rand(1, 3, 128), torch.rand(1, 3, 128))}
    tokens = vit.embed(images)
    assert torch.equal(vit.encode(tokens), vit(images))
    assert torch.equal(vit.encode(tokens, prefixes), vit(images, prefixes))
    assert not torch.equal(vit.encode(tokens, prefixes), vit.encode(tokens))


@torch.no_grad()
def test_the_feature_does_not_tell_whether_the_weights_may_learn(
    vit: VisionTransformer, images: Tensor
) -> None:
    """Bit for bit: a model that was just trained predicts what it predicts when it is loaded."""
    many = torch.rand(8, *images.shape[1:], generator=torch.Generator().manual_seed(1))
    for some in (images[:1], images, many):
        frozen, learning = (vit.requires_grad_(may)(some) for may in (False, True))
        assert torch.equal(frozen, learning)


@pytest.mark.parametrize("layers", [[0], [1], [0, 1]])
def test_training_a_prefix_leaves_the_backbone_as_it_was(
    vit: VisionTransformer, images: Tensor, layers: list[int]
) -> None:
    before = {name: tensor.clone() for name, tensor in vit.state_dict().items()}
    prefixes = {
        layer: (torch.rand(1, 2, 128).requires_grad_(), torch.rand(1, 2, 128).requires_grad_())
        for layer in layers
    }
    learned = [tensor for pair in prefixes.values() for tensor in pair]
    start = [tensor.detach().clone() for tensor in learned]
    optimiser = torch.optim.Adam([*learned, *vit.parameters()], lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        vit(images, prefixes)[:, 0].square().sum().backward()
        optimiser.step()
    assert all(parameter.grad is None for parameter in vit.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in vit.state_dict().items())
    assert not any(torch.equal(a, b) for a, b in zip(start, learned, strict=True))


@torch.no_grad()
def test_spreads_are_class_token_mean_and_deviation_of_patches(
    vit: VisionTransformer, images: Tensor
) -> None:
    tokens = vit.embed(images)
    for block in vit.blocks:
        tokens = block(tokens)
    patches = tokens[:, 1 + vit.arch.registers :].double()
    mean = patches.mean(1)
    deviation = (patches - mean[:, None]).square().mean(1).sqrt()
    found = vit.spreads(images, [len(vit.blocks) - 1])
    parts = found.split(vit.arch.embed_dim, dim=1)
    for part, plain in zip(parts, (tokens[:, 0].double(), mean, deviation), strict=True):
        expected = torch.nn.functional.layer_norm(plain, plain.shape[-1:])
        # 1e-4: deviations of some 0.1 times rounding of single precision, divided by their spread.
        torch.testing.assert_close(part.double(), expected, rtol=1e-4, atol=1e-4)
