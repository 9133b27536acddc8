"""SLCA: slow learning of all weights, and heads aligned on class Gaussians (Zhang et al., 2023).

Each class leaves a mean and a covariance; after each task all heads are trained on samples of them.
"""

import copy
import math
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count, Positive, Run
from ovor.data.batches import Batches
from ovor.encoders.base import Encoder
from ovor.learners.base import Autocast, Learner, Needs
from ovor.learners.buffers import BufferList
from ovor.learners.head import GrowingHead
from ovor.seeds import WEIGHTS, generator

BATCH = 256
RIDGE = 1e-4


@dataclass(frozen=True, config=STRICT)
class SlcaOptions:
    slowdown: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """learning rate of the network over that of the head; 0 leaves it as it is, and the alignment
    works on features of any network"""
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    """of SGD"""
    align_epochs: Count = 5
    """epochs of classifier alignment after each task but the first"""
    align_lr: Positive = 0.01
    """learning rate of the alignment, with a cosine to zero"""
    samples: Count = 256
    """samples a class and epoch of the alignment"""
    temperature: Positive = 0.1
    """of the normalised logits in the alignment"""


class Slca(Learner):
    Options: ClassVar[type] = SlcaOptions
    takes_vor = True
    untuned = "--method.slowdown 0"

    def __init__(self, options: SlcaOptions, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.settled = not options.slowdown
        self.tuned = None if self.settled else copy.deepcopy(backbone).requires_grad_(True)
        self.head = GrowingHead(backbone.width)  # what the tasks left
        self.aligned = GrowingHead(backbone.width)  # what classifies
        self.means = BufferList()  # per task: classes, D
        self.roots = BufferList()  # per task: classes, D, D; Cholesky factors of covariances

    @classmethod
    def needs(cls, options: SlcaOptions) -> Needs:
        return "blocks" if options.slowdown else "features"

    @classmethod
    def looks_again(cls, options: SlcaOptions) -> bool:
        return True

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        dim = self.backbone.width
        for head in (self.head, self.aligned):
            head.begin_task(classes, generator(*seed, WEIGHTS))
        self.aligned.requires_grad_(False)
        self.means.append(torch.zeros(classes, dim))
        self.roots.append(torch.zeros(classes, dim, dim))
        self.to(self.device)

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        options = self.options
        head = self.head.tasks[-1]
        return slow_sgd(
            run, head, self.tuned or nn.Module(), options.slowdown, options.weight_decay
        )

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.head.current(self.features(images)), labels)

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.eval()
        pairs = list(images.encoded(self.features))
        features = torch.cat([part for part, _ in pairs])
        labels = torch.cat([part for _, part in pairs])
        for number in range(len(self.means[-1])):
            mean, root = gaussian(features[labels == number])
            self.means[-1][number].copy_(mean)
            self.roots[-1][number].copy_(root)
        self.aligned.load_state_dict(self.head.state_dict())
        if len(self.means) > 1:
            self.align(generator(*seed, WEIGHTS, 1))

    @torch.enable_grad()
    def align(self, draw: torch.Generator) -> None:
        """Train a copy of all heads on samples of all classes; the heads themselves stay."""
        self.aligned.requires_grad_(True)
        optimizer = torch.optim.SGD(
            self.aligned.parameters(),
            lr=self.options.align_lr,
            momentum=0.9,
            weight_decay=self.options.weight_decay,
        )
        for epoch in range(self.options.align_epochs):
            factor = 0.5 + 0.5 * math.cos(math.pi * epoch / self.options.align_epochs)
            for group in optimizer.param_groups:
                group["lr"] = self.options.align_lr * factor
            features, labels = self.sample(draw)
            order = torch.randperm(len(features), generator=draw).to(features.device)
            for index in torch.split(order, BATCH):
                loss = F.cross_entropy(self.normalized(features[index]), labels[index])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        self.aligned.requires_grad_(False)

    def sample(self, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw features of every class seen, older ones around means moved to the origin."""
        tasks = len(self.means)
        shrink = [0.9 + 0.1 * (t + 1) / tasks for t in range(tasks)]
        means = torch.cat([s * m for s, m in zip(shrink, self.means, strict=True)])
        roots = torch.cat(list(self.roots))
        noise = torch.randn(len(means), self.options.samples, means.shape[1], generator=draw)
        features = means[:, None] + noise.to(means.device) @ roots.mT
        labels = torch.arange(len(means), device=means.device)
        return features.flatten(0, 1), labels.repeat_interleave(self.options.samples)

    def normalized(self, features: Tensor) -> Tensor:
        """Divide logits by the mean of the tasks' logit norms, so that no task dominates."""
        parts = [part(features) for part in self.aligned.tasks]
        norms = torch.stack([part.norm(dim=1) for part in parts], dim=1).mean(1, keepdim=True)
        return torch.cat(parts, dim=1) / (norms + 1e-7) / self.options.temperature

    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.tuned or self.backbone, images)

    def logits(self, features: Tensor) -> Tensor:
        return self.aligned(features)  # type: ignore[no-any-return]


def slow_sgd(
    run: Run, head: nn.Module, network: nn.Module, slowdown: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Return an SGD that moves the network by a fraction of the head's learning rate."""
    groups = [
        {"params": list(head.parameters()), "factor": 1.0},
        {"params": list(network.parameters()), "factor": slowdown},
    ]
    return torch.optim.SGD(groups, lr=run.lr, momentum=0.9, weight_decay=weight_decay)


def gaussian(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of a class and the Cholesky factor of its covariance, for one image too."""
    mean = features.mean(0)
    centered = features - mean
    covariance = centered.T @ centered / max(1, len(features) - 1)
    covariance += RIDGE * torch.eye(len(mean), device=mean.device)
    return mean, torch.linalg.cholesky(covariance.double()).to(mean.dtype)
