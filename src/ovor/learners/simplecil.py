"""SimpleCIL: class means of the frozen network's features, compared by cosine (Zhou et al., 2023).

Nothing is trained, so the order of the tasks does not matter.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.config import Run
from ovor.data.batches import Batches
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast, Learner, NoOptions
from ovor.learners.buffers import BufferList


class Prototypes(nn.Module):
    """A head of one mean feature a class; logits are cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = BufferList()  # per task: classes, D

    def begin_task(self, classes: int, dim: int) -> None:
        self.tasks.append(torch.zeros(classes, dim))

    def current(self, features: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(self.tasks[-1]).T

    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(torch.cat(list(self.tasks))).T

    def forget(self, task: int, row: int) -> None:
        means = self.tasks[task]
        self.tasks.register_buffer(str(task), torch.cat([means[:row], means[row + 1 :]]))


class SimpleCil(Learner):
    Options: ClassVar[type] = NoOptions
    settled = True

    def __init__(self, options: Any, backbone: VisionTransformer, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.head = Prototypes()

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.head.begin_task(classes, self.backbone.arch.embed_dim)
        self.to(self.device)

    def epochs(self, run: Run, task: int) -> int:
        return 0

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        set_means(self.head, self, images)

    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.backbone, images)

    def forget(self, task: int, row: int) -> None:
        self.head.forget(task, row)


def set_means(head: Prototypes, learner: Learner, images: Batches) -> None:
    """Compute the mean feature of each class of the current task, in one pass."""
    means = head.tasks[-1]
    sums, counts = torch.zeros_like(means), torch.zeros(len(means), device=means.device)
    for features, labels in images.encoded(learner.features):
        sums.index_add_(0, labels, features)
        counts += torch.bincount(labels, minlength=len(means))
    means.copy_(sums / counts.clamp(min=1)[:, None])
