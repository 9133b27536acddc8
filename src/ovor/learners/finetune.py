"""Methods that train the network itself: sequential fine-tuning, and L2 (Smith et al., 2023).

Fine-tuning without protection is the lower bound; on all classes at once it is the upper bound,
joint training. L2 tunes attention alone, held near the weights of the task before.
"""

import copy
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Positive, Run
from ovor.encoders import pet
from ovor.encoders.prefixed import Prefixed
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast, Learner, Needs
from ovor.learners.buffers import BufferList
from ovor.learners.head import GrowingHead
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class FinetuneOptions:
    slowdown: Positive = 1.0
    """learning rate of the network over that of the head; a new head is in more of a hurry"""


@dataclass(frozen=True, config=STRICT)
class L2Options(FinetuneOptions):
    weight: Annotated[float, Field(ge=0)] = 1.0
    """how strongly attention is held at the weights of the task before"""


class Finetune(Learner):
    """Trains all weights, and one head over all classes whose old part learns on."""

    Options: ClassVar[type] = FinetuneOptions

    @classmethod
    def needs(cls, options: Any) -> Needs:
        return "blocks"

    def __init__(self, options: FinetuneOptions, backbone: Prefixed, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.tuned = copy.deepcopy(backbone).requires_grad_(True)
        self.head = GrowingHead(backbone.width)

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.head.begin_task(classes, generator(*seed, WEIGHTS))
        self.head.requires_grad_(True)
        self.to(self.device)

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        return slow_adam(run, self.head, self.tuned, self.options.slowdown)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        logits = self.head(self.features(images))
        first = logits.shape[1] - len(self.head.tasks[-1].bias)
        return F.cross_entropy(logits, labels + first)

    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.tuned, images)


class Joint(Finetune):
    """Fine-tunes on all data at once: what a learner could reach that kept every image.

    With one task there is no forgetting, and A_T counts every test image the same; a method's A_T
    counts every task the same, which differs where tasks differ in size.
    """

    at_once = True
    returning = True


class L2(Learner):
    """Trains attention held near the last task's weights, and a head per task."""

    Options: ClassVar[type] = L2Options
    takes_vor = True

    def __init__(self, options: L2Options, backbone: VisionTransformer, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.tuned = pet.shared_copy(backbone)
        pet.with_attention(self.tuned)
        self.attention = [p for p in self.tuned.parameters() if p.requires_grad]
        self.anchors = BufferList()
        for parameter in self.attention:
            self.anchors.append(parameter.detach().clone())
        self.head = GrowingHead(backbone.arch.embed_dim)

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        with torch.no_grad():
            for anchor, parameter in zip(self.anchors, self.attention, strict=True):
                anchor.copy_(parameter)
        self.head.begin_task(classes, generator(*seed, WEIGHTS))
        self.to(self.device)

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        return slow_adam(run, self.head, self.tuned, self.options.slowdown)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        pairs = zip(self.attention, self.anchors, strict=True)
        moved = torch.stack([(p - anchor).square().sum() for p, anchor in pairs]).sum()
        logits = self.head.current(self.features(images))
        return F.cross_entropy(logits, labels) + self.options.weight * moved

    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.tuned, images)


def slow_adam(
    run: Run, head: nn.Module, network: nn.Module, slowdown: float
) -> torch.optim.Optimizer:
    """Return an Adam that moves the network by a fraction of the head's learning rate."""
    groups = [
        {"params": [p for p in part.parameters() if p.requires_grad], "factor": factor}
        for part, factor in ((head, 1.0), (network, slowdown))
    ]
    return torch.optim.Adam(groups, lr=run.lr)
