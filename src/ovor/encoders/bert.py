"""The BERT-shaped text transformer: token ids in, features of several depths out, in one pass.

Post-norm, with learned positions. Texts of a kind of length go through it together: a long one in
the company of short ones would make them as long.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.base import Encoder
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

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        shape = (*x.shape[:2], self.num_heads, -1)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
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

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attn(x, mask))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))  # type: ignore[no-any-return]


class Bert(Encoder):
    """Token ids of texts in, means over their tokens out."""

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

    def hidden(self, ids: Tensor, last: int) -> list[Tensor]:
        """Return the tokens after each block up to this one, of texts filled up with PAD."""
        there = ids != PAD
        mask = there[:, None, None, :]
        x, found = self.norm(self.word_embed(ids) + self.pos_embed[: ids.shape[1]]), []
        for block in self.blocks[: last + 1]:
            x = block(x, mask)
            found.append(x)
        return found

    def pooled(self, ids: Tensor, which: Collection[int]) -> Tensor:
        """Return the mean over the tokens after each of these blocks, normalised (B, blocks, D)."""
        there = (ids != PAD)[..., None]
        hidden = self.hidden(ids, max(which))
        means = [(hidden[at] * there).sum(1) / there.sum(1) for at in sorted(which)]
        pooled = torch.stack(means, dim=1).float()
        return F.layer_norm(pooled, pooled.shape[-1:])

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        """Return the features of texts, given as windows of token ids (B, windows, N).

        A window without tokens counts for nothing; the others are averaged, and normalised again.
        """
        texts, windows, _ = images.shape
        rows = images.flatten(0, 1)
        lengths = (rows != PAD).sum(1)
        found = rows.new_zeros(len(rows), len(which), self.arch.embed_dim, dtype=torch.float32)
        for number, length in enumerate(LENGTHS):
            shortest = LENGTHS[number - 1] if number else 0
            here = ((lengths > shortest) & (lengths <= length)).nonzero()[:, 0]
            for some in here.split(max(1, TOKENS // length)) if len(here) else ():
                # Filled up with the first: in every company a text has the same bits.
                full = torch.cat([some, some[:1].expand(max(1, TOKENS // length) - len(some))])
                found[some] = self.pooled(rows[full, :length], which)[: len(some)]
        used = (lengths > 0).view(texts, windows, 1, 1)
        mean = (found.view(texts, windows, *found.shape[1:]) * used).sum(1) / used.sum(1)
        return F.layer_norm(mean, mean.shape[-1:]).flatten(1)
