"""APT against its paper's formulas: the class token's attention by hand, the average over tasks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ovor.encoders.prefixed import Added
from ovor.encoders.vit import Attention, VisionTransformer
from ovor.prompts.apt import Apt
from ovor.prompts.oneprompt import OnePromptDeep

from .small import ARCH, begin


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def network(arch=ARCH):
    vit = VisionTransformer(arch).requires_grad_(False)
    for number, p in enumerate(vit.parameters()):
        p.copy_(0.3 * draw(*p.shape, seed=number))
    return vit


def by_hand(attention, x, key, value):
    """Softmax attention in numpy, head by head, the vectors added to the first key and value."""
    weight, bias = attention.qkv.weight.double().numpy(), attention.qkv.bias.double().numpy()
    q, k, v = np.split(x.double().numpy() @ weight.T + bias, 3, axis=-1)
    k[:, 0] += key.double().numpy().reshape(-1, k.shape[-1])
    v[:, 0] += value.double().numpy().reshape(-1, v.shape[-1])
    heads = []
    width = k.shape[-1] // attention.num_heads
    for start in range(0, k.shape[-1], width):
        part = slice(start, start + width)
        scores = q[..., part] @ k[..., part].swapaxes(1, 2) / width**0.5
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(scores / scores.sum(-1, keepdims=True) @ v[..., part])
    weight, bias = attention.proj.weight.double().numpy(), attention.proj.bias.double().numpy()
    return np.concatenate(heads, axis=-1) @ weight.T + bias


@pytest.mark.parametrize("queries", [None, 1])
@pytest.mark.parametrize("batch", [1, 3])
def test_attention_is_plain_attention_with_another_key_and_value_of_the_class_token(queries, batch):
    attention = network().blocks[0].attn
    assert isinstance(attention, Attention)
    x, key, value = draw(3, 5, 16), draw(batch, 1, 16, seed=1), draw(batch, 1, 16, seed=2)
    found = attention(x, Added(key, value), queries)
    expected = by_hand(attention, x, key, value)[:, :queries]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    plain = by_hand(attention, x, 0 * key, 0 * value)
    np.testing.assert_allclose(attention(x, None, None), plain, rtol=1e-4, atol=1e-5)
    assert np.abs(plain[:, :queries] - expected).max() > 0.1


def test_vectors_of_zero_leave_the_network_as_it_is_and_a_prefix_of_zeros_does_not():
    vit, images = network(), draw(4, 3, 8, 8).sigmoid()
    prompt = begin(Apt(Apt.Options(), ARCH))
    prefix = begin(OnePromptDeep(OnePromptDeep.Options(length=1), ARCH))
    for p in (*prompt.parameters(), *prefix.parameters()):
        p.requires_grad_(False).zero_()
    torch.testing.assert_close(vit(images, prompt(None)[0]), vit(images))
    assert (vit(images, prefix(None)[0]) - vit(images)).abs().max() > 1e-3


def test_every_layer_has_two_vectors_and_no_token():
    arch = replace(ARCH, embed_dim=768, depth=12)
    prompt = begin(Apt(Apt.Options(), arch))
    assert sum(p.numel() for p in prompt.parameters()) == 24 * 768  # the paper's 0.02 M
    prefixes, loss = prompt(None)
    assert all(isinstance(both, Added) for both in prefixes.values())
    assert list(prefixes) == list(range(12))
    assert loss == 0


def test_starts_near_zero():
    (values,) = begin(Apt(Apt.Options(), replace(ARCH, embed_dim=768))).parameters()
    assert abs(values.mean()) < 1e-3
    assert abs(values.std() - 0.02) < 1e-3


def values(prompt):
    return torch.stack([torch.stack(list(both)) for both in prompt(None)[0].values()])


def test_training_has_the_tasks_own_vectors_and_inference_their_moving_average():
    prompt, keep = Apt(Apt.Options(keep=0.7), ARCH), 0.7
    generator = torch.Generator().manual_seed(0)
    average = None
    for task in range(4):
        before = values(prompt.train()).clone() if task else None
        prompt.begin_task(generator)
        if before is not None:  # a task goes on from the last one's
            assert torch.equal(values(prompt.train()), before)
        with torch.no_grad():
            prompt.prompts[0].copy_(draw(*prompt.shape, seed=task))
        own = values(prompt.train()).detach().numpy().copy()
        average = own if average is None else keep * average + (1 - keep) * own
        np.testing.assert_allclose(values(prompt.eval()).detach(), average, rtol=1e-5, atol=1e-6)
        assert (task == 0) == np.allclose(own, average)


@pytest.mark.parametrize(("keep", "same"), [(0.0, "last"), (1.0, "first")])
def test_the_ends_of_the_average(keep, same):
    prompt = begin(Apt(Apt.Options(keep=keep), ARCH))
    first = values(prompt).detach().clone()
    begin(prompt)
    with torch.no_grad():
        prompt.prompts[0].add_(1)
    expected = first if same == "first" else first + 1
    torch.testing.assert_close(values(prompt.eval()), expected)
