"""SSIAT: one adapter tuned on every task, old means moved along with it (Tan et al., 2024).

How far an old class's mean has moved is estimated by how far the new task's features have, nearer
ones counting more; then one head for all classes is trained on samples of the classes' Gaussians.
"""

import math
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.func import functional_call

from ovor.config import STRICT, Count, Positive, Run
from ovor.data.batches import Batches
from ovor.encoders import pet
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast, Learner
from ovor.learners.buffers import BufferList
from ovor.learners.cosine import CosineHead, margin_loss
from ovor.learners.slca import BATCH, gaussian
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class SsiatOptions:
    bottleneck: Count = 64
    """width of the adapters"""
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    """of SGD"""
    adapter_rate: Positive = 1.0
    """learning rate of the adapters over that of the head; in few steps on a small network they
    hardly move at the same one"""
    later: Annotated[float, Field(gt=0)] = 0.5
    """epochs of later tasks over those of the first"""
    scale: Positive = 20.0
    """of the cosines in the loss"""
    margin: Annotated[float, Field(ge=0)] = 0.0
    """by how much the cosine of the true class must be larger"""
    sigma: Annotated[float, Field(ge=0)] = 4.0
    """how near an image counts as near to an old class, as a distance of features; 0: old means
    stay where they were"""
    floor: Annotated[float, Field(ge=0)] = 0.0
    """weight of an image however far it is (released: 1e-5, by which what has no image near moves
    as the average image)"""
    align_epochs: Annotated[int, Field(ge=0)] = 5
    """epochs on samples of all classes after each task but the first"""
    align_lr: Positive = 0.01
    """learning rate on them, with a cosine to zero"""
    samples: Count = 256
    """samples a class and epoch"""


class Ssiat(Learner):
    """Trains adapters and the new classes' cosine head, then moves old means and aligns all heads.

    The adapters as they were before the task are kept until the next, to measure the movement.
    """

    Options: ClassVar[type] = SsiatOptions

    def __init__(self, options: Any, backbone: VisionTransformer, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.tuned: VisionTransformer | None = None
        self.old = BufferList()  # what is tuned, as it was when the task began
        self.head = CosineHead(backbone.arch.embed_dim)
        self.means = BufferList()  # per task: classes, D
        self.roots = BufferList()  # per task: classes, D, D; Cholesky factors of covariances

    @classmethod
    def looks_again(cls, options: Any) -> bool:
        return True

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        draw, dim = generator(*seed, WEIGHTS), self.vit.arch.embed_dim
        if self.tuned is None:
            self.tuned = pet.tuned_copy(self.vit, self.tuning, draw)
            for parameter in self.adapters().values():
                self.old.append(parameter.detach().clone())
        else:
            with torch.no_grad():
                for kept, parameter in zip(self.old, self.adapters().values(), strict=True):
                    kept.copy_(parameter)
        self.head.begin_task(classes, draw)
        self.means.append(torch.zeros(classes, dim))
        self.roots.append(torch.zeros(classes, dim, dim))
        self.to(self.device)

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_adapters(vit, self.options.bottleneck, draw)

    def adapters(self) -> dict[str, Tensor]:
        """Return what is tuned of the network, by name."""
        assert self.tuned is not None
        frozen = {id(p) for p in self.vit.parameters()}
        return {name: p for name, p in self.tuned.named_parameters() if id(p) not in frozen}

    def epochs(self, run: Run, task: int) -> int:
        return run.epochs if task == 0 else max(1, round(self.options.later * run.epochs))

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        decay = self.options.weight_decay
        return torch.optim.SGD(self.groups(), lr=run.lr, momentum=0.9, weight_decay=decay)

    def groups(self) -> list[dict[str, Any]]:
        """Return what the task trains, the adapters at a rate of their own."""
        return [
            {"params": [self.head.tasks[-1]], "factor": 1.0},
            {"params": [*self.adapters().values()], "factor": self.options.adapter_rate},
        ]

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.class_loss(self.features(images), labels)

    def class_loss(self, features: Tensor, labels: Tensor) -> Tensor:
        options = self.options
        return margin_loss(self.head.current(features), labels, options.scale, options.margin)

    def features(self, images: Tensor) -> Tensor:
        assert self.tuned is not None
        return self.encode(self.tuned, images)

    @torch.no_grad()
    def old_features(self, images: Tensor) -> Tensor:
        """Return the features of the network as it was when the task began."""
        assert self.tuned is not None
        weights = dict(zip(self.adapters(), self.old, strict=True))
        with self.autocast():
            return functional_call(self.tuned, weights, (images,))  # type: ignore[no-any-return]

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.eval()
        first = len(self.means) == 1
        both = self.both if not first and self.options.sigma else self.features
        pairs = list(images.encoded(both))
        labels = torch.cat([part for _, part in pairs])
        found = torch.cat([part for part, _ in pairs])
        new, *before = torch.split(found, self.vit.arch.embed_dim, dim=1)
        for old in before:
            for means in list(self.means)[:-1]:
                means += shift(old, new, means, self.options.sigma, self.options.floor)
        for number in range(len(self.means[-1])):
            mean, root = gaussian(new[labels == number])
            self.means[-1][number].copy_(mean)
            self.roots[-1][number].copy_(root)
        if not first:
            self.align(generator(*seed, WEIGHTS, 1))

    def both(self, images: Tensor) -> Tensor:
        """Return the features of images by the network as it is and as it was, side by side."""
        return torch.cat([self.features(images), self.old_features(images)], dim=1)

    @torch.enable_grad()
    def align(self, draw: torch.Generator) -> None:
        """Train the heads of all tasks on samples of all classes."""
        options = self.options
        self.head.requires_grad_(True)
        optimizer = torch.optim.SGD(
            self.head.parameters(),
            lr=options.align_lr,
            momentum=0.9,
            weight_decay=options.weight_decay,
        )
        for epoch in range(options.align_epochs):
            factor = 0.5 + 0.5 * math.cos(math.pi * epoch / options.align_epochs)
            for group in optimizer.param_groups:
                group["lr"] = options.align_lr * factor
            features, labels = self.sample(draw)
            order = torch.randperm(len(features), generator=draw).to(features.device)
            for index in torch.split(order, BATCH):
                loss = F.cross_entropy(options.scale * self.head(features[index]), labels[index])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        self.head.requires_grad_(False)

    def sample(self, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw features of every class seen, and return them with their classes."""
        means, roots = torch.cat(list(self.means)), torch.cat(list(self.roots))
        noise = torch.randn(len(means), self.options.samples, means.shape[1], generator=draw)
        features = means[:, None] + noise.to(means.device) @ roots.mT
        labels = torch.arange(len(means), device=means.device)
        return features.flatten(0, 1), labels.repeat_interleave(self.options.samples)


def shift(old: Tensor, new: Tensor, means: Tensor, sigma: float, floor: float = 0.0) -> Tensor:
    """Return how far means (C, D) have moved, by images before (n, D) and after.

    Each image's movement counts by exp(-d^2 / (2 sigma^2)), d being its distance to the mean before
    the task, plus the floor. Without one only ratios of weights matter, and the nearest image has
    the weight 1, however far it is: from far enough away, all would be zero.
    """
    exponents = -torch.cdist(means, old).square() / (2 * sigma**2)
    if not floor:
        return torch.softmax(exponents, dim=1) @ (new - old)
    weights = exponents.exp() + floor
    return weights / weights.sum(1, keepdim=True) @ (new - old)
