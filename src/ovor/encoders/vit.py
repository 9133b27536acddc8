"""The plain pre-norm vision transformer, with timm's parameter names.

It takes key/value prefixes per layer (prefix tuning, Sec. 3), or vectors to add to the class
token's key and value, and gives the CLS feature after the final norm. The last block is computed
for the CLS query only, since nothing else of it is read.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.base import KEPT_BLOCK
from ovor.encoders.prefixed import Prefix, Prefixed, Prefixes, with_prefix
from ovor.errors import OvorError


@dataclass(frozen=True)
class Architecture:
    """What the tensors of a checkpoint say about the network."""

    embed_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    patch_size: int
    in_chans: int
    grid: tuple[int, int]
    registers: int = 0
    embed_class: bool = True  # has the class token a position of its own?
    layer_scale: bool = False
    qkv_bias: bool = True

    @property
    def image_size(self) -> int:
        """Return the input size at which the position embedding is used as it is."""
        return self.grid[0] * self.patch_size

    def input_size(self, wanted: int) -> int:
        """Return the side of the square input in pixels: the one wanted, or for 0 its own."""
        size = wanted or self.image_size
        if size % self.patch_size:
            smaller = size // self.patch_size * self.patch_size
            near = [n for n in (smaller, smaller + self.patch_size) if n]
            raise OvorError(
                f"An image size of {size} is not a multiple of the backbone's patches of "
                f"{self.patch_size} pixels: use {' or '.join(map(str, near))}, or "
                f"{self.image_size}, its own."
            )
        if self.in_chans != 3:
            raise OvorError(
                f"The backbone takes {self.in_chans} channel(s), but images have 3 (RGB)."
            )
        return size


class LayerScale(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Attention(nn.Module):
    def __init__(self, dim: int, num_heads: int, qkv_bias: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # B, H, N, D/H

    def forward(self, x: Tensor, prefix: Prefix | None, queries: int | None) -> Tensor:
        """Attend from the first `queries` tokens (None: from all) to the prefix and all tokens."""
        if queries is None:
            q, k, v = map(self.heads, self.qkv(x).chunk(3, dim=-1))
        else:
            dim = x.shape[-1]
            w, b = self.qkv.weight, self.qkv.bias
            if not torch.is_grad_enabled():
                # torch adds up the product of a strided input in another order where the weight may
                # learn; whether it still may must not show in the last bits of a prediction.
                w = w.detach()
            q = self.heads(F.linear(x[:, :queries], w[:dim], None if b is None else b[:dim]))
            kv = F.linear(x, w[dim:], None if b is None else b[dim:])
            k, v = map(self.heads, kv.chunk(2, dim=-1))
        if prefix is not None:
            # Already keys and values: no norm, projection or position (docs/methods.md, prefixes).
            # Here and below `x.shape[0]`, not `len(x)`: an export would keep that as a number.
            k, v = with_prefix(k, v, prefix, x.shape[0], self.heads)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        dim = arch.embed_dim
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, arch.num_heads, arch.qkv_bias)
        self.ls1 = LayerScale(dim) if arch.layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, arch.mlp_dim)
        self.ls2 = LayerScale(dim) if arch.layer_scale else nn.Identity()

    def forward(
        self, x: Tensor, prefix: Prefix | None = None, queries: int | None = None
    ) -> Tensor:
        return self.feed(self.attend(x, prefix, queries))

    def attend(self, x: Tensor, prefix: Prefix | None, queries: int | None) -> Tensor:
        return x[:, :queries] + self.ls1(self.attn(self.norm1(x), prefix, queries))  # type: ignore[no-any-return]

    def feed(self, x: Tensor) -> Tensor:
        return x + self.ls2(self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


class PatchEmbed(nn.Module):
    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        size = arch.patch_size
        self.proj = nn.Conv2d(arch.in_chans, arch.embed_dim, size, stride=size)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images)  # type: ignore[no-any-return]  # B, D, rows, cols


class VisionTransformer(Prefixed):
    arch: Architecture

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.widths = (2 * arch.embed_dim,) * arch.depth
        self.image_size = arch.image_size
        self.patch_embed = PatchEmbed(arch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, arch.embed_dim))
        if arch.registers:
            self.reg_token = nn.Parameter(torch.zeros(1, arch.registers, arch.embed_dim))
        positions = arch.grid[0] * arch.grid[1] + arch.embed_class
        self.pos_embed = nn.Parameter(torch.zeros(1, positions, arch.embed_dim))
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.depth))
        self.norm = nn.LayerNorm(arch.embed_dim, eps=1e-6)

    def embed(self, images: Tensor) -> Tensor:
        """Turn images into tokens, before the first block; both passes of a prompt share them."""
        patches = self.patch_embed(images)
        pos = self.positions(patches.shape[2], patches.shape[3])
        x = patches.flatten(2).transpose(1, 2)  # B, N, D
        extra = [self.cls_token.expand(x.shape[0], -1, -1)]
        if self.arch.registers:
            extra.append(self.reg_token.expand(x.shape[0], -1, -1))
        if self.arch.embed_class:
            return torch.cat([extra[0] + pos[:, :1], *extra[1:], x + pos[:, 1:]], dim=1)
        return torch.cat([*extra, x + pos], dim=1)

    def positions(self, rows: int, cols: int) -> Tensor:
        """Return the position embedding, interpolated if the input's grid is another."""
        if (rows, cols) == self.arch.grid:
            return self.pos_embed
        own = int(self.arch.embed_class)
        grid = self.pos_embed[:, own:].reshape(1, *self.arch.grid, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid.float(), (rows, cols), mode="bicubic", antialias=True)
        grid = grid.flatten(2).transpose(1, 2).to(self.pos_embed.dtype)
        return torch.cat([self.pos_embed[:, :own], grid], dim=1)

    def encode(self, tokens: Tensor, prefixes: Prefixes | None = None) -> Tensor:
        """Turn tokens into the CLS feature after the final norm (B, D)."""
        prefixes = prefixes or {}
        last = len(self.blocks) - 1
        for layer, block in enumerate(self.blocks):
            tokens = block(tokens, prefixes.get(layer), 1 if layer == last else None)
        # Under bf16 autocast the feature, and all that follows it, is float32.
        return self.norm(tokens[:, 0].to(self.norm.weight.dtype))  # type: ignore[no-any-return]

    def input_size(self, wanted: int) -> int:
        return self.arch.input_size(wanted)

    def batch(self, size: int) -> int:
        """Return so few that every activation is small enough for the C library to keep its memory.

        A larger one would be paid for anew each time, page by page.
        """
        arch = self.arch
        tokens = (size // arch.patch_size) ** 2 + 1 + arch.registers
        widest = 4 * tokens * max(arch.mlp_dim, 3 * arch.embed_dim)  # bytes of an image
        return max(1, KEPT_BLOCK // widest)

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        """Return the class token and the mean patch token after each of these blocks, side by side.

        Each is normalised without gain or bias (B, 2 x blocks x D).
        """
        return side_by_side(map(self.summary, self.after(images, which)))

    @property
    def spread_widths(self) -> tuple[int, ...]:
        return tuple(3 * self.arch.embed_dim for _ in self.widths)

    def spreads(self, images: Tensor, which: Collection[int]) -> Tensor:
        """Return the same with the deviation of the patch tokens after the other two."""
        return side_by_side(
            torch.cat(
                [self.summary(tokens), self.patches(tokens).std(dim=1, correction=0, keepdim=True)],
                dim=1,
            )
            for tokens in self.after(images, which)
        )

    def summary(self, tokens: Tensor) -> Tensor:
        """Return the class token and the mean patch token (B, 2, D)."""
        return torch.stack([tokens[:, 0], self.patches(tokens).mean(dim=1)], dim=1)

    def after(self, images: Tensor, which: Collection[int]) -> Iterator[Tensor]:
        """Yield all tokens after each of these blocks, in one pass (B, N, D)."""
        tokens = self.embed(images)
        for number, block in enumerate(self.blocks[: max(which) + 1]):
            tokens = block(tokens)
            if number in which:
                yield tokens

    def patches(self, tokens: Tensor) -> Tensor:
        """Return the tokens of patches: neither the class token nor registers."""
        return tokens[:, 1 + self.arch.registers :]


def side_by_side(pooled: Iterable[Tensor]) -> Tensor:
    """Return vectors (B, n, D) of several blocks, each normalised without gain or bias."""
    every = torch.stack(list(pooled), dim=1).float()  # B, blocks, n, D
    return F.layer_norm(every, every.shape[-1:]).flatten(1)
