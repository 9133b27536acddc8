"""The released code's computation, written plainly: what ours is measured against.

What it computes is in docs/methods.md: every weight of the ViT collects a gradient that
nobody uses, attention maps are kept for the backward pass, the last block runs for all tokens, a
query costs a second pass in training and in testing, and the two accuracies have a pass each.
Nothing is made slower than it is there. It takes ours' prompts as they are, so both have one loss
and the same prompt gradients (tests/parity/test_released.py).
"""

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.vit import Architecture
from ovor.prompts.base import Prompt
from ovor.prompts.coda import CodaP
from ovor.prompts.dualprompt import DualPrompt
from ovor.prompts.l2p import L2P
from ovor.prompts.oneprompt import OnePrompt


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, prefix: tuple[Tensor, Tensor] | None) -> Tensor:
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        if prefix is not None:
            pk, pv = (
                p.reshape(batch, -1, self.heads, dim // self.heads).permute(0, 2, 1, 3)
                for p in prefix
            )
            k, v = torch.cat([pk, k], dim=2), torch.cat([pv, v], dim=2)
        maps = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)  # B, H, N, P + N
        return self.proj((maps @ v).transpose(1, 2).reshape(batch, tokens, dim))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        dim = arch.embed_dim
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, arch.num_heads)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(dim, arch.mlp_dim), "fc2": nn.Linear(arch.mlp_dim, dim)}
        )

    def forward(self, x: Tensor, prefix: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attn(self.norm1(x), prefix)
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))  # type: ignore[no-any-return]


Prompted = tuple[tuple[Tensor, Tensor] | None, Tensor]  # keys and values, if any, and a loss
Prompting = Callable[[int, Tensor | None, int], Prompted]  # of layer, query and batch size


class VisionTransformer(nn.Module):
    """With the parameter names of ours, so that it takes the same weights."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        dim, size = arch.embed_dim, arch.patch_size
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, size, stride=size)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + arch.grid[0] * arch.grid[1], dim))
        self.blocks = nn.ModuleList(Block(arch) for _ in range(arch.depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(
        self, images: Tensor, prompting: Prompting | None, query: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """All tokens after the final norm, and the sum of the prompts' losses."""
        x = self.patch_embed["proj"](images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        loss = torch.zeros(())
        for layer, block in enumerate(self.blocks):
            prefix = None
            if prompting is not None:
                prefix, extra = prompting(layer, query, len(x))
                loss = loss + extra
            x = block(x, prefix)
        return self.norm(x), loss


class Released(nn.Module):
    """A prompt method on that ViT: one head for all classes, masked to the task's."""

    def __init__(self, arch: Architecture, prompt: Prompt, head: nn.Linear, start: int) -> None:
        super().__init__()
        self.vit = VisionTransformer(arch)  # requires_grad everywhere, as released
        self.prompt, self.head, self.start = prompt, head, start
        self.prompting = PROMPTING[type(prompt)](prompt)

    def logits(self, images: Tensor) -> tuple[Tensor, Tensor]:
        query = None
        if self.prompt.needs_query:
            with torch.no_grad():
                query = self.vit(images, None, None)[0][:, 0]
        tokens, loss = self.vit(images, self.prompting, query)
        return self.head(tokens[:, 0]), loss

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        logits, loss = self.logits(images)
        logits = logits.clone()
        logits[:, : self.start] = -torch.inf
        return F.cross_entropy(logits, labels) + loss

    def optimizer(self) -> torch.optim.Optimizer:
        learned = [p for p in self.prompt.parameters() if p.requires_grad]
        return torch.optim.Adam([*learned, *self.head.parameters()], lr=1e-3)

    @torch.no_grad()
    def accuracies(self, images: Tensor, labels: Tensor, classes: range) -> tuple[float, float]:
        """Class-incremental, then with the task given: a pass each."""
        incremental = self.logits(images)[0].argmax(1)
        given = self.logits(images)[0]
        given[:, : classes.start] = -torch.inf
        given = given[:, : classes.stop].argmax(1)
        return tuple(float((guess == labels).float().mean()) for guess in (incremental, given))  # type: ignore[return-value]


def one_prompt(prompt: Prompt) -> Prompting:
    ours = cast(OnePrompt, prompt)

    def prefix(layer: int, _: Tensor | None, batch: int) -> Prompted:
        if layer not in ours.lengths:
            return None, torch.zeros(())
        tokens = ours.prompts[list(ours.lengths).index(layer)].expand(batch, -1, -1, -1)
        return (tokens[:, 0], tokens[:, 1]), torch.zeros(())

    return prefix


def l2p(prompt: Prompt) -> Prompting:
    ours = cast(L2P, prompt)

    def prefix(layer: int, query: Tensor | None, batch: int) -> Prompted:
        if layer not in ours.options.layers:
            return None, torch.zeros(())
        assert query is not None
        row = ours.options.layers.index(layer)
        cosines = F.normalize(query, dim=1) @ F.normalize(ours.keys[0][row], dim=1).T
        top = cosines.topk(ours.options.top_k, dim=1).indices  # B, k
        loss = (1 - cosines[:, top]).mean() / len(ours.options.layers)  # of B, B, k
        taken = ours.prompts[0][row][top]  # B, k, 2, P, D
        return (taken[:, :, 0].flatten(1, 2), taken[:, :, 1].flatten(1, 2)), loss

    return prefix


def dual_prompt(prompt: Prompt) -> Prompting:
    ours = cast(DualPrompt, prompt)
    general = one_prompt(ours.general)

    def prefix(layer: int, query: Tensor | None, batch: int) -> Prompted:
        if layer not in ours.options.expert_layers:
            return general(layer, None, batch)
        assert query is not None
        row = ours.options.expert_layers.index(layer)
        keys = torch.stack([key[row] for key in ours.keys])
        experts = torch.stack([expert[row] for expert in ours.experts])
        cosines = F.normalize(query, dim=1) @ F.normalize(keys, dim=1).T  # B, tasks
        if ours.training:
            loss = (1 - cosines[:, ours.tasks - 1]).mean() / len(ours.options.expert_layers)
            chosen = experts[ours.tasks - 1].expand(batch, -1, -1, -1)
        else:
            loss = torch.zeros(())
            chosen = experts[cosines.argmax(1)]
        return (chosen[:, 0], chosen[:, 1]), loss

    return prefix


def coda_p(prompt: Prompt) -> Prompting:
    ours = cast(CodaP, prompt)

    def prefix(layer: int, query: Tensor | None, batch: int) -> Prompted:
        if layer not in ours.options.layers:
            return None, torch.zeros(())
        assert query is not None
        row = ours.options.layers.index(layer)
        pools = (ours.keys, ours.attention, ours.components)
        keys, attention, components = (torch.cat([p[row] for p in pool]) for pool in pools)
        attended = F.normalize(torch.einsum("bd,kd->bkd", query, attention), dim=2)
        weights = torch.einsum("bkd,kd->bk", attended, F.normalize(keys, dim=1))
        tokens = components.view(len(components), -1, ours.dim)
        composed = torch.einsum("bk,kld->bld", weights, tokens)
        length = ours.options.length
        return (composed[:, :length], composed[:, length:]), torch.zeros(())

    return prefix


PROMPTING: dict[type[Prompt], Callable[[Prompt], Prompting]] = {
    OnePrompt: one_prompt,
    L2P: l2p,
    DualPrompt: dual_prompt,
    CodaP: coda_p,
}
