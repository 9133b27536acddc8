"""The BERT-shaped text transformer: token ids in, features of several depths out, in one pass.

Post-norm, with learned positions. Texts of a kind of length go through it together: a long one in
the company of short ones would make them as long.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.prefixed import Prefix, Prefixed, Prefixes
from ovor.errors import OvorError

PAD = 0  # the id of no token; a text's own ids are never it
# Tokens that a text is filled up to. Where these lie is part of a feature's last bits.
LENGTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
TOKENS = 1024  # that go through the network together
AT_ONCE = 512  # texts that are sorted by length together


@dataclass(frozen=True)
class BertArchitecture:
    """What a config.json says of the network."""

    vocabulary: int
    positions: int
    embed_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    eps: float


class Attention(nn.Module):
    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def heads(self, x: Tensor) -> Tensor:
        size = x.shape[2] // self.num_heads
        return x.view(*x.shape[:2], self.num_heads, size).transpose(1, 2)  # B, H, N, D/H

    def forward(self, x: Tensor, mask: Tensor, prefix: Prefix | None) -> Tensor:
        q, k, v = map(self.heads, self.qkv(x).chunk(3, dim=-1))
        if prefix is not None:  # keys and values already, as in the ViT
            pk, pv = (self.heads(p.to(k.dtype).expand(x.shape[0], -1, -1)) for p in prefix)
            k, v = torch.cat([pk, k], dim=2), torch.cat([pv, v], dim=2)
            mask = F.pad(mask, (pk.shape[2], 0), value=True)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # B, H, N, D/H
        return self.proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, arch: BertArchitecture) -> None:
        super().__init__()
        dim = arch.embed_dim
        self.attn = Attention(dim, arch.num_heads)
        self.norm1 = nn.LayerNorm(dim, eps=arch.eps)
        self.fc1 = nn.Linear(dim, arch.mlp_dim)
        self.fc2 = nn.Linear(arch.mlp_dim, dim)
        self.norm2 = nn.LayerNorm(dim, eps=arch.eps)

    def forward(self, x: Tensor, mask: Tensor, prefix: Prefix | None = None) -> Tensor:
        x = self.norm1(x + self.attn(x, mask, prefix))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))  # type: ignore[no-any-return]


class Bert(Prefixed):
    """Token ids of texts in, means over their tokens out."""

    arch: BertArchitecture

    def __init__(self, arch: BertArchitecture) -> None:
        super().__init__()
        self.arch = arch
        self.widths = (arch.embed_dim,) * arch.depth
        self.image_size = arch.positions
        self.word_embed = nn.Embedding(arch.vocabulary, arch.embed_dim)
        self.pos_embed = nn.Parameter(torch.zeros(arch.positions, arch.embed_dim))
        self.norm = nn.LayerNorm(arch.embed_dim, eps=arch.eps)
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.depth))

    def input_size(self, wanted: int) -> int:
        if wanted > self.arch.positions or wanted < 0:
            raise OvorError(
                f"The network reads {self.arch.positions} tokens at once, not {wanted}: ask for "
                "fewer."
            )
        return wanted or self.arch.positions

    def batch(self, size: int) -> int:
        return AT_ONCE

    def hidden(self, ids: Tensor, last: int, prefixes: Prefixes | None = None) -> list[Tensor]:
        """Return the tokens after each block up to this one, of texts filled up with PAD."""
        prefixes = prefixes or {}
        mask = (ids != PAD)[:, None, None, :]
        x, found = self.norm(self.word_embed(ids) + self.pos_embed[: ids.shape[1]]), []
        for layer, block in enumerate(self.blocks[: last + 1]):
            x = block(x, mask, prefixes.get(layer))
            found.append(x)
        return found

    def pooled(
        self, ids: Tensor, which: Collection[int], prefixes: Prefixes | None = None
    ) -> Tensor:
        """Return the mean over the tokens after each of these blocks, normalised (B, blocks, D)."""
        there = (ids != PAD)[..., None]
        hidden = self.hidden(ids, max(which), prefixes)
        means = [(hidden[at] * there).sum(1) / there.sum(1) for at in sorted(which)]
        pooled = torch.stack(means, dim=1).float()
        return F.layer_norm(pooled, pooled.shape[-1:])

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        return self.read(images, which, {})

    def embed(self, images: Tensor) -> Tensor:
        """Return the ids themselves: what they become depends on which go together."""
        return images

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        return self.read(tokens, (self.arch.depth - 1,), prefixes or {})

    def read(self, ids: Tensor, which: Collection[int], prefixes: Prefixes) -> Tensor:
        """Return the features of texts, given as windows of token ids (B, windows, N).

        A window without tokens counts for nothing; the others are averaged, and normalised again.
        """
        texts, windows, _ = ids.shape
        rows = ids.flatten(0, 1)
        lengths = (rows != PAD).sum(1)
        places, parts = [rows.new_zeros(0)], []
        for some, length in together(lengths):
            # Filled up with the first: in every company a text has the same bits. Where gradients
            # are wanted they would cost more than that is worth.
            missing = 0 if torch.is_grad_enabled() else max(1, TOKENS // length) - len(some)
            full = torch.cat([some, some[:1].expand(missing)])
            own = of_rows(prefixes, full // windows)
            parts.append(self.pooled(rows[full, :length], which, own)[: len(some)])
            places.append(some)
        found = rows.new_zeros(len(rows), len(which), self.arch.embed_dim, dtype=torch.float32)
        if parts:
            found = found.index_copy(0, torch.cat(places), torch.cat(parts))
        used = (lengths > 0).view(texts, windows, 1, 1)
        mean = (found.view(texts, windows, *found.shape[1:]) * used).sum(1) / used.sum(1)
        return F.layer_norm(mean, mean.shape[-1:]).flatten(1)


def together(lengths: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Yield which rows go through the network at once, and the length that they are filled up to.

    Rows without tokens go nowhere.
    """
    for number, length in enumerate(LENGTHS):
        shortest = LENGTHS[number - 1] if number else 0
        here = ((lengths > shortest) & (lengths <= length)).nonzero()[:, 0]
        for some in torch.split(here, max(1, TOKENS // length)) if len(here) else ():
            yield some, length


def of_rows(prefixes: Prefixes, texts: Tensor) -> Prefixes:
    """Return the prefixes of these texts; one that is the same for all stays a single row."""
    return {
        layer: (keys, values) if len(keys) == 1 else (keys[texts], values[texts])
        for layer, (keys, values) in prefixes.items()
    }
