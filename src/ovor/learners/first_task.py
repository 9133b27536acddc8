"""What the first task may do to the network: tune a copy of it, which is frozen from then on.

As ADAM's authors do it, with a cosine head that is left behind; RanPAC's tune in the same way.
"""

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count, Run
from ovor.encoders import pet
from ovor.encoders.base import Encoder
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError
from ovor.learners.base import Autocast, Learner, Needs, nothing
from ovor.seeds import WEIGHTS, generator

Decay = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=STRICT)
class TunedOptions:
    """Options of a method that tunes in one way or another, or not at all."""

    tuning: pet.Tunings = "none"
    """how the first task tunes the network, by the run's rate, schedule and epochs: RanPAC's are
    --lr 0.01 --schedule cosine --epochs 20"""
    bottleneck: Count = 64
    """width of the adapters"""
    tokens: Count = 5
    """learned tokens of vpt-deep"""
    weight_decay: Decay = 5e-4
    """of SGD on the first task"""


class FirstTaskTuning(Learner):
    """Tunes a copy of the network on the first task, with a cosine head, and freezes it then."""

    settled = True
    returning = True

    @classmethod
    def looks_again(cls, options: Any) -> bool:
        return True

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.tuned: VisionTransformer | None = None
        self.tasks = 0

    def draw(self, seed: tuple[int, ...]) -> torch.Generator:
        """Return what draws the parameters that learn."""
        return generator(*seed, WEIGHTS)

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        """Add to the copy the parameters that learn."""
        raise NotImplementedError

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.tasks += 1
        if self.tasks == 1:
            draw = self.draw(seed)
            self.tuned = pet.tuned_copy(self.vit, self.tuning, draw)
            first = torch.empty(classes, self.vit.arch.embed_dim)
            bound = first.shape[1] ** -0.5
            self.first_head = nn.Parameter(first.uniform_(-bound, bound, generator=draw))
            self.scale = nn.Parameter(torch.ones(()))
        else:
            self.requires_grad_(False)
        self.make_room(classes, seed)
        self.to(self.device)

    def make_room(self, classes: int, seed: tuple[int, ...]) -> None:
        """Make room for the classes of a task in what classifies after the first."""
        raise NotImplementedError

    def epochs(self, run: Run, task: int) -> int:
        return run.epochs if task == 0 else 0

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        decay = self.options.weight_decay
        return torch.optim.SGD(
            self.learnable() or nothing(), lr=run.lr, momentum=0.9, weight_decay=decay
        )

    def tuned_features(self, images: Tensor) -> Tensor:
        assert self.tuned is not None
        return self.encode(self.tuned, images)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        cosines = F.normalize(self.tuned_features(images)) @ F.normalize(self.first_head).T
        return F.cross_entropy(self.scale * cosines, labels)


def check_finite(features: Tensor) -> None:
    """Refuse features of a network whose tuning went out of bounds."""
    if not features.isfinite().all():
        raise OvorError(
            "Tuning the network on the first task ran out of bounds, and its features are no "
            "numbers any more: choose a smaller --lr, and begin anew."
        )


class MayTune(FirstTaskTuning):
    """Tunes as its options say, or reads the network as it is."""

    untuned = "--method.tuning none"

    @classmethod
    def needs(cls, options: Any) -> Needs:
        return "features" if options.tuning == "none" else "vit"

    @classmethod
    def looks_again(cls, options: Any) -> bool:
        return bool(options.tuning != "none")

    @property
    def network(self) -> Encoder:
        """What is read: the tuned copy, where there is one."""
        return self.tuned or self.backbone

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.tune(vit, self.options.tuning, self.options.bottleneck, self.options.tokens, draw)

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        if self.options.tuning == "none":  # no copy of the network, no head to tune it with
            self.tasks += 1
            self.make_room(classes, seed)
        else:
            super().begin_task(classes, seed)

    def epochs(self, run: Run, task: int) -> int:
        return 0 if self.options.tuning == "none" else super().epochs(run, task)
