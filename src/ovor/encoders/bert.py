"""The BERT-shaped text transformer: token ids in, features of several depths out, in one pass.

Post-norm, with learned positions, in the style of `vit.py`. Texts of about the same length go
through it together: a long one in the company of short ones would make them as long.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.config import Transform
from ovor.data.tokens import TextModality
from ovor.encoders.prefixed import Prefix, Prefixed, Prefixes, with_prefix
from ovor.errors import OvorError

SHORTEST = 8  # tokens of a window
OWN = 128  # tokens of a window, unless others are asked for, or half of what it has positions for
# Tokens that a text is filled up to. Where these lie is part of a feature's last bits.
LENGTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512)
TOKENS = 512  # that go through the network together, if there are as many: more are hardly faster
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
            k, v = with_prefix(k, v, prefix, x.shape[0], self.heads)
            mask = F.pad(mask, (k.shape[2] - x.shape[1], 0), value=True)
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
    """Windows of token ids in, means over their tokens out.

    In a view, 0 is no token, and any other number a token's id and one (`data/tokens.py`).
    """

    arch: BertArchitecture
    free = (0, 1, 2)

    reads: TextModality

    def __init__(self, arch: BertArchitecture, reads: TextModality, config: bytes) -> None:
        super().__init__()
        self.arch, self.reads, self.padding = arch, reads, reads.padding
        self.config = config
        self.tried: dict[tuple[int, ...], bool] = {}  # see `few`
        self.widths = (arch.embed_dim,) * arch.depth
        self.image_size = min(OWN, max(SHORTEST, arch.positions // 2))
        self.word_embed = nn.Embedding(arch.vocabulary, arch.embed_dim)
        self.pos_embed = nn.Parameter(torch.zeros(arch.positions, arch.embed_dim))
        self.norm = nn.LayerNorm(arch.embed_dim, eps=arch.eps)
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.depth))

    def input_size(self, wanted: int) -> int:
        size = wanted or self.image_size
        if not SHORTEST <= size <= self.arch.positions:
            raise OvorError(
                f"Windows of {size} tokens do not fit this backbone, which reads {SHORTEST} to "
                f"{self.arch.positions} at once: use {self.image_size}, its own."
            )
        return size

    def batch(self, size: int) -> int:
        return AT_ONCE

    def bundled(self) -> dict[str, Tensor]:
        """Return its weights, and its config.json and tokenizer.json as bytes."""
        files = {"config": self.config, "tokenizer": self.reads.content}
        return self.state_dict() | {
            name: torch.frombuffer(bytearray(content), dtype=torch.uint8)
            for name, content in files.items()
        }

    def tensor(self, views: Tensor, transform: Transform) -> Tensor:
        return views.long()

    def example(self, transform: Transform, count: int, draw: torch.Generator) -> Tensor:
        """Return ids of texts of any length, in up to as many windows as there are texts."""
        ids = torch.randint(self.arch.vocabulary, (count, count, 4 * count + 1), generator=draw)
        ids[ids == self.padding] += 1
        ids[0, 0, 3:] = self.padding
        ids[-1, 1:] = self.padding
        return ids

    def of_export(self, given: Tensor, transform: Transform) -> Tensor:
        return torch.where(given == self.padding, 0, given + 1)

    def hidden(self, tokens: Tensor, last: int, prefixes: Prefixes | None = None) -> list[Tensor]:
        """Return the tokens after each block up to this one (B, N, D)."""
        prefixes = prefixes or {}
        mask = (tokens > 0)[:, None, None, :]
        words = self.word_embed((tokens - 1).clamp(min=0))
        x, found = self.norm(words + self.pos_embed[: tokens.shape[1]]), []
        for layer, block in enumerate(self.blocks[: last + 1]):
            x = block(x, mask, prefixes.get(layer))
            found.append(x)
        return found

    def pooled(
        self, tokens: Tensor, which: Collection[int], prefixes: Prefixes | None = None
    ) -> Tensor:
        """Return the mean over the tokens after each of these blocks (B, blocks, D)."""
        there = (tokens > 0)[..., None]
        hidden = self.hidden(tokens, max(which), prefixes)
        many = there.sum(1).clamp(min=1)
        means = [(hidden[at] * there).sum(1) / many for at in sorted(which)]
        return torch.stack(means, dim=1).float()

    def depths(self, inputs: Tensor, which: Collection[int]) -> Tensor:
        return self.averaged(inputs, which, {})

    def embed(self, inputs: Tensor) -> Tensor:
        """Return the tokens themselves: what they become depends on which go together."""
        return inputs

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        return self.averaged(tokens, (self.arch.depth - 1,), prefixes or {})

    def averaged(self, inputs: Tensor, which: Collection[int], prefixes: Prefixes) -> Tensor:
        """Return the features of texts, given as windows of tokens (B, windows, N).

        A window counts by its tokens, so that a short rest of a text counts little, and the less
        the later it comes, as texts say first what they are about (chosen on development texts).
        The mean is normalised.
        """
        texts, windows, _ = inputs.shape
        rows = inputs.long().flatten(0, 1)
        own = of_windows(prefixes, windows)
        # What is exported cannot sort: a graph has one way for all.
        way = self.pooled if torch.compiler.is_exporting() else self.sorted
        found = way(rows, which, own)
        tokens = (rows > 0).sum(1).view(texts, windows, 1, 1)
        places = torch.arange(1, windows + 1, device=rows.device).view(1, windows, 1, 1)
        weights = tokens / places
        both = found.view(texts, windows, *found.shape[1:])
        mean = torch.where(tokens > 0, both * weights, 0.0).sum(1) / weights.sum(1).clamp(min=1)
        return F.layer_norm(mean, mean.shape[-1:]).flatten(1)

    def sorted(
        self, rows: Tensor, which: Collection[int], prefixes: Prefixes | None = None
    ) -> Tensor:
        """Return what `pooled` does, for windows of about the same length together."""
        lengths = (rows > 0).sum(1)
        places, parts = [lengths[:0]], [self.pos_embed.new_zeros(0, len(which), self.width)]
        shortest = 0
        for length in (*LENGTHS, self.arch.positions):
            here = ((lengths > shortest) & (lengths <= length)).nonzero()[:, 0]
            shortest = max(shortest, length)
            at_once = max(1, TOKENS // length)
            for some in torch.split(here, at_once) if len(here) else ():
                window = F.pad(rows[some, :length], (0, max(0, length - rows.shape[1])))
                if torch.is_grad_enabled():  # what learns has no use for the same bits
                    found = self.pooled(window, which, chosen(prefixes or {}, some))
                elif prefixes or window.is_cuda:
                    found = self.filled(window, which, at_once, chosen(prefixes or {}, some))
                else:
                    found = self.few(window, which, at_once)
                parts.append(found.to(parts[0].dtype))
                places.append(some)
        found = parts[0].new_zeros(len(rows), len(which), self.width)
        return found.index_copy(0, torch.cat(places), torch.cat(parts))

    def filled(
        self, rows: Tensor, which: Collection[int], size: int, prefixes: Prefixes | None = None
    ) -> Tensor:
        """Return what `pooled` does among so many rows: in every company it has the same bits."""
        places = torch.arange(size, device=rows.device)
        places = torch.where(places < len(rows), places, 0)
        return self.pooled(rows[places], which, chosen(prefixes or {}, places))[: len(rows)]

    def few(self, rows: Tensor, which: Collection[int], size: int) -> Tensor:
        """Return what `filled` does, among fewer rows where that has the same bits.

        Whether it has depends on how this processor multiplies matrices of that size, and is tried
        once: any other order of adding would show in some of so many numbers.
        """
        fewer = 1 << (len(rows) - 1).bit_length()
        if fewer >= size:
            return self.filled(rows, which, size)
        case = (rows.shape[1], fewer, torch.get_num_threads(), torch.is_autocast_enabled("cpu"))
        if case not in self.tried:
            found = self.filled(rows, which, size)
            self.tried[case] = torch.equal(self.filled(rows, which, fewer), found)
            return found
        return self.filled(rows, which, fewer if self.tried[case] else size)


def of_windows(prefixes: Prefixes, windows: int) -> Prefixes:
    """Give every window its text's prefixes; those that are the same for all stay single."""
    return {
        layer: (keys, values)
        if len(keys) == 1
        else (keys.repeat_interleave(windows, dim=0), values.repeat_interleave(windows, dim=0))
        for layer, (keys, values) in prefixes.items()
    }


def chosen(prefixes: Prefixes, rows: Tensor) -> Prefixes:
    """Return the prefixes of these windows."""
    return {
        layer: (keys, values) if len(keys) == 1 else (keys[rows], values[rows])
        for layer, (keys, values) in prefixes.items()
    }
