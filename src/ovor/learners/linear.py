"""A linear probe: the frozen network's features and a head per task, nothing else.

What prompts add to a head, and VOR to a head without prompts, is measured against it.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.encoders.base import Encoder
from ovor.learners.base import Autocast, Learner, Needs, NoOptions
from ovor.learners.head import GrowingHead
from ovor.seeds import WEIGHTS, generator


class LinearProbe(Learner):
    Options: ClassVar[type] = NoOptions
    takes_vor = True
    settled = True

    @classmethod
    def needs(cls, options: Any) -> Needs:
        return "features"

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.head = GrowingHead(backbone.width)

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.head.begin_task(classes, generator(*seed, WEIGHTS))
        self.to(self.device)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.head.current(self.features(images)), labels)

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.backbone, images)

    def forget(self, task: int, row: int) -> None:
        self.head.forget(task, row)
