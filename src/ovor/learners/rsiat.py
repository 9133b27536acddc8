"""RSIAT: SSIAT with features steered apart, and held by a projector (Zhao et al., 2026).

In the first task, pairs of one class are pulled together and others pushed apart. In later ones a
residual autoencoder follows how features move: they may move as far as it can tell where from, and
should be orthogonal to where it puts the means of old classes.
"""

from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count, Positive, Run
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast
from ovor.learners.cosine import cosines
from ovor.learners.ssiat import Ssiat, SsiatOptions
from ovor.seeds import WEIGHTS, generator

NARROW = 64  # numbers at the projector's two waists

Weight = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=STRICT)
class RsiatOptions(SsiatOptions):
    weight_decay: Weight = 1e-6
    """of SGD"""
    later: Annotated[float, Field(gt=0)] = 1.0
    """epochs of later tasks over those of the first"""
    scale: Positive = 50.0
    """of the cosines in the loss"""
    margin: Weight = 0.2
    """by how much the cosine of the true class must be larger"""
    first_lr: Weight = 0.0
    """learning rate of the first task (released: 0.01); 0: that of the others"""
    align_epochs: Annotated[int, Field(ge=0)] = 10
    """epochs on samples of all classes after each task but the first"""
    steer: Weight = 0.5
    """weight of what steers the first task's features"""
    apart: Weight = 1.5
    """alpha: how much pushing classes apart weighs beside pulling one together"""
    warm_up: Annotated[int, Field(ge=0)] = 4
    """epochs in which `steer` grows to its weight"""
    hold: Weight = 3.0
    """beta: weight of the distance between features and their projection from before the task"""
    orthogonal: Weight = 1.5
    """gamma: weight of the cosines between new features and old means"""
    code: Count = 384
    """width of the projector's middle"""
    projector_slowdown: Positive = 0.025
    """learning rate of the projector over that of the head"""
    projector_decay: Weight = 4e-3
    """weight decay of the projector"""


class Rsiat(Ssiat):
    Options: ClassVar[type] = RsiatOptions

    def __init__(
        self, options: RsiatOptions, backbone: VisionTransformer, autocast: Autocast
    ) -> None:
        super().__init__(options, backbone, autocast)
        self.options: RsiatOptions = options
        self.projector: Projector | None = None  # from the second task on
        self.warmth = 1.0  # how much of its weight the steering has in this epoch

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.separable = self.tuned is not None  # in the first task, pairs are of the whole batch
        if self.tuned is not None:
            if self.projector is None:
                self.projector = Projector(self.vit.arch.embed_dim, self.options.code)
            self.projector.restart(generator(*seed, WEIGHTS, 2))
        super().begin_task(classes, seed)

    def begin_epoch(self, epoch: int) -> None:
        self.warmth = min(1.0, epoch / self.options.warm_up) if self.options.warm_up else 1.0

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        optimizer = super().optimizer(run)
        if self.projector is None and self.options.first_lr:
            for group in optimizer.param_groups:
                group["factor"] *= self.options.first_lr / run.lr
        return optimizer

    def groups(self) -> list[dict[str, Any]]:
        if self.projector is None:
            return super().groups()
        projecting = {
            "params": [*self.projector.parameters()],
            "factor": self.options.projector_slowdown,
            "weight_decay": self.options.projector_decay,
        }
        return [*super().groups(), projecting]

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        options, features = self.options, self.features(images)
        loss = self.class_loss(features, labels)
        if self.projector is None:
            weight = options.steer * self.warmth
            return loss + weight * steering(features, labels, options.apart)
        projected = self.projector(self.old_features(images))
        old_classes = self.projector(torch.cat(list(self.means)[:-1]))
        held = F.mse_loss(features, projected)
        overlap = cosines(projected, old_classes).abs().mean()
        return loss + options.hold * held + options.orthogonal * overlap


class Projector(nn.Module):
    """A residual autoencoder, from features before a task to features after: at first, the same."""

    def __init__(self, dim: int, code: int) -> None:
        super().__init__()
        widths = (dim, NARROW, code, NARROW, dim)
        self.weights = nn.ParameterList(map(torch.empty, widths[1:], widths))
        self.biases = nn.ParameterList(map(torch.empty, widths[1:]))

    @torch.no_grad()
    def restart(self, draw: torch.Generator) -> None:
        """Begin anew: as torch begins a Linear, but for the last layer, which gives zero."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = weight.shape[1] ** -0.5
            for parameter in (weight, bias):
                start = torch.empty(parameter.shape).uniform_(-bound, bound, generator=draw)
                parameter.copy_(start)
        self.weights[-1].zero_()
        self.biases[-1].zero_()

    def forward(self, features: Tensor) -> Tensor:
        x = features
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = F.linear(F.gelu(x) if number else x, weight, bias)
        return features + x


def steering(features: Tensor, labels: Tensor, apart: float) -> Tensor:
    """Return the mean of 1 - cosine of pairs of one class, and of 1 + cosine of the others."""
    cosine = cosines(features, features)
    one_class = labels[:, None] == labels
    pairs = one_class & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    pulled = ((1 - cosine) * pairs).sum() / pairs.sum().clamp(min=1)
    pushed = ((1 + cosine) * ~one_class).sum() / (~one_class).sum().clamp(min=1)
    return pulled + apart * pushed
