"""A-Prompt: class prototypes that follow the network by analogy (Ma et al., 2023). EXPERIMENTAL.

Written from the paper's description, since its authors released no code: what that leaves open (the
analogy's loss, the form of the prompts, how the network is tuned) was chosen here. Prompts make the
old network see an old class in new images; how far the same prompted images are moved by the new
network is how far the prototype of that class has moved.
"""

import copy
from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.func import functional_call

from ovor.config import STRICT, Count, Positive, Run
from ovor.data.batches import Batches
from ovor.encoders.prefixed import Prefixes
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast, Learner
from ovor.learners.buffers import BufferList
from ovor.learners.head import GrowingHead
from ovor.learners.simplecil import Prototypes, set_means
from ovor.learners.slca import slow_sgd
from ovor.seeds import WEIGHTS, generator

INITIAL = 0.02  # standard deviation of new prompts: next to nothing, so that images start as seen


@dataclass(frozen=True, config=STRICT)
class APromptOptions:
    """EXPERIMENTAL: written from the paper's description, as its authors released no code."""

    slowdown: Positive = 0.01
    """learning rate of the network over that of the head"""
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    """of SGD"""
    length: Count = 10
    """prefix tokens of an old class, for keys and for values each, at each layer that has them"""
    layers: Count = 2
    """how many layers, from the first, have them; in many they outweigh the image, and then the
    prototypes hardly move, however good the analogy"""
    analogy_epochs: Count = 2
    """passes over a task's images in which the old classes' prompts learn, all together"""
    analogy_lr: Positive = 0.1
    """of Adam, on those prompts"""
    samples: Count = 16
    """images, at least, by which the movement of an old class is measured"""


class APrompt(Learner):
    Options: ClassVar[type] = APromptOptions

    def __init__(
        self, options: APromptOptions, backbone: VisionTransformer, autocast: Autocast
    ) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.tuned = copy.deepcopy(backbone).requires_grad_(True)
        self.old = BufferList()  # the weights of `tuned` as they were when the task began
        for parameter in self.tuned.parameters():
            self.old.append(parameter.detach().clone())
        self.linear = GrowingHead(backbone.arch.embed_dim)  # for the training loss alone
        self.head = Prototypes()

    @classmethod
    def looks_again(cls, options: APromptOptions) -> bool:
        return True

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        with torch.no_grad():
            for kept, parameter in zip(self.old, self.tuned.parameters(), strict=True):
                kept.copy_(parameter)
        self.linear.begin_task(classes, generator(*seed, WEIGHTS))
        self.head.begin_task(classes, self.vit.arch.embed_dim)
        self.to(self.device)

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        options = self.options
        head = self.linear.tasks[-1]
        return slow_sgd(run, head, self.tuned, options.slowdown, options.weight_decay)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.linear.current(self.features(images)), labels)

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.eval()
        set_means(self.head, self, images)
        *earlier, _ = self.head.tasks
        if earlier:
            draw = generator(*seed, WEIGHTS, 1)
            prompts = self.analogies(torch.cat(earlier), images, draw)
            moved = torch.split(self.movement(prompts, images, draw), [*map(len, earlier)])
            for prototypes, movement in zip(earlier, moved, strict=True):
                prototypes += movement

    @torch.enable_grad()
    def analogies(self, prototypes: Tensor, images: Batches, draw: torch.Generator) -> Tensor:
        """Train a prompt per old class by which the old network sees that class in new images."""
        arch, options = self.vit.arch, self.options
        layers = min(options.layers, arch.depth)
        shape = (len(prototypes), layers, 2, options.length, arch.embed_dim)
        prompts = (INITIAL * torch.randn(shape, generator=draw)).to(self.device).requires_grad_()
        optimizer = torch.optim.Adam([prompts], lr=options.analogy_lr)
        for _ in range(options.analogy_epochs):
            for batch, target in paired(images, len(prototypes), draw):
                seen = self.old_features(batch, prefixes(prompts[target]))
                optimizer.zero_grad()
                F.mse_loss(seen, prototypes[target]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return prompts.detach()

    def movement(self, prompts: Tensor, images: Batches, draw: torch.Generator) -> Tensor:
        """Return how far the new network moves each class: the mean over prompted new images."""
        moved = torch.zeros(len(prompts), prompts.shape[-1], device=prompts.device)
        counts = torch.zeros(len(prompts), device=prompts.device)
        while counts.min() < self.options.samples:
            for batch, target in paired(images, len(prompts), draw):
                prompt = prefixes(prompts[target])
                after, before = self.features(batch, prompt), self.old_features(batch, prompt)
                moved.index_add_(0, target, after - before)
                counts += torch.bincount(target, minlength=len(prompts))
        return moved / counts[:, None]

    def features(self, images: Tensor, prompt: Prefixes | None = None) -> Tensor:
        with self.autocast():
            return self.tuned(images, prompt)  # type: ignore[no-any-return]

    def old_features(self, images: Tensor, prompt: Prefixes) -> Tensor:
        """Return the features of the network as it was when the task began, without gradient."""
        names = (name for name, _ in self.tuned.named_parameters())
        weights = dict(zip(names, self.old, strict=True))
        with self.autocast():
            return functional_call(self.tuned, weights, (images, prompt))  # type: ignore[no-any-return]


def prefixes(prompts: Tensor) -> Prefixes:
    """Split the prompts of a batch (B, layers, 2, P, D) into keys and values by layer."""
    return {layer: (part[:, 0], part[:, 1]) for layer, part in enumerate(prompts.unbind(1))}


def paired(images: Batches, classes: int, draw: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all images once, each with an old class by chance, all classes equally often."""
    waiting = torch.empty(0, dtype=torch.long)
    for batch, _ in images:
        while len(waiting) < len(batch):
            waiting = torch.cat([waiting, torch.randperm(classes, generator=draw)])
        yield batch, waiting[: len(batch)].to(batch.device)
        waiting = waiting[len(batch) :]
