"""Prefixes of the BERT-shaped network, against attention computed by hand."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from ovor.data.tokens import TextModality
from ovor.encoders.bert import LENGTHS, Bert, BertArchitecture
from ovor.encoders.prefixed import Prefix
from ovor.learners import build_learner
from ovor.prompts import PROMPTS
from rounding import rounding
from small_texts import tokenizer

TINY = BertArchitecture(
    vocabulary=50, positions=64, embed_dim=16, depth=5, num_heads=2, mlp_dim=24, eps=1e-12
)


@pytest.fixture
def network() -> Bert:
    reads = TextModality(tokenizer().to_str().encode())
    network = Bert(TINY, reads, b"").requires_grad_(False).eval()
    draw = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=draw)
    return network


def texts(*lengths: tuple[int, ...]) -> Tensor:
    """Return tokens of texts, each of windows that are so long."""
    found = torch.zeros(len(lengths), max(map(len, lengths)), TINY.positions, dtype=torch.int64)
    draw = torch.Generator().manual_seed(1)
    for text, windows in zip(found, lengths, strict=True):
        for window, length in zip(text, windows, strict=False):
            window[:length] = torch.randint(1, TINY.vocabulary, (length,), generator=draw)
    return found


def prefixes(batch: int, length: int, layers: tuple[int, ...] = (0, 3)) -> dict[int, Prefix]:
    draw = torch.Generator().manual_seed(2)
    shape = (batch, length, TINY.embed_dim)
    return {
        at: (torch.randn(shape, generator=draw), torch.randn(shape, generator=draw))
        for at in layers
    }


def assert_same(network: Bert, found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=rounding(network, expected))


def by_hand(network: Bert, block: int, x: Tensor, prefix: Prefix) -> Tensor:
    """Return a block's tokens of one text (N, D), head by head: softmax(q [pk; k]^T) [pv; v]."""
    own = network.blocks[block]
    weights = own.attn.qkv.weight.split(TINY.embed_dim)
    biases = own.attn.qkv.bias.split(TINY.embed_dim)
    q, k, v = (x @ w.T + b for w, b in zip(weights, biases, strict=True))
    k, v = torch.cat([prefix[0][0], k]), torch.cat([prefix[1][0], v])
    size = TINY.embed_dim // TINY.num_heads
    heads = []
    for head in range(TINY.num_heads):
        at = slice(head * size, (head + 1) * size)
        attention = torch.softmax(q[:, at] @ k[:, at].T / math.sqrt(size), dim=-1)
        heads.append(attention @ v[:, at])
    x = own.norm1(x + own.attn.proj(torch.cat(heads, dim=1)))
    return own.norm2(x + own.fc2(torch.nn.functional.gelu(own.fc1(x))))


def test_a_block_with_a_prefix_is_plain_attention_to_it_and_to_the_tokens(network: Bert) -> None:
    ids = texts((9,))[0]
    given = prefixes(1, 4, (0,))
    found = network.hidden(ids[:, :12], 0, given)[0][0, :9]  # with three places of nothing
    x = network.norm(network.word_embed(ids[0, :9] - 1) + network.pos_embed[:9])
    assert_same(network, found, by_hand(network, 0, x, given[0]))


def test_prefixes_of_no_length_change_nothing(network: Bert) -> None:
    ids = texts((5,), (40, 7))
    plain, with_none = network(ids), network(ids, prefixes(1, 0))
    assert_same(network, with_none, plain)
    assert not torch.allclose(network(ids, prefixes(1, 3)), plain, atol=1e-2)


def test_each_text_has_its_own_prefix_in_all_its_windows(network: Bert) -> None:
    ids, given = texts((5, 0), (40, 7), (6, 3)), prefixes(3, 3)
    together = network(ids, given)
    for row in range(3):
        own = {at: (keys[[row]], values[[row]]) for at, (keys, values) in given.items()}
        assert_same(network, network(ids[[row]], own)[0], together[row])


def test_the_feature_is_the_last_depth_with_and_without_gradients(network: Bert) -> None:
    ids = texts((5,), (40, 7), (max(n for n in LENGTHS if n <= TINY.positions),))
    with torch.no_grad():
        torch.testing.assert_close(network(ids), network.depths(ids, [4]), rtol=0, atol=0)
        quick = network(ids)
    assert_same(network, network(ids), quick)
    assert network(ids).shape == (3, network.width)


@pytest.mark.parametrize("method", [*PROMPTS])
def test_every_prompt_learns_on_texts(network: Bert, method: str) -> None:
    learner = build_learner(method, {}, network, nullcontext)
    learner.begin_task(2, (0, 0))
    ids, labels = texts((5,), (40, 7), (6,), (12,)), torch.tensor([0, 1, 0, 1])
    optimizer = torch.optim.Adam(learner.learnable(), lr=0.01)
    before = {name: x.clone() for name, x in learner.prompt.state_dict().items()}
    losses = []
    for _ in range(20):
        loss = learner.loss(ids, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    after = learner.prompt.state_dict()
    assert any(not torch.equal(after[name], before[name]) for name in before)
