"""SimpleCIL: class means of the frozen network's features, compared by cosine (Zhou et al., 2023).

Nothing is trained, so the order of the tasks does not matter.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.config import Run
from ovor.data.batches import Batches
from ovor.encoders.base import Encoder
from ovor.learners.base import Autocast, Learner, Needs, NoOptions
from ovor.learners.buffers import BufferList


class Prototypes(nn.Module):
    """A head of one mean feature a class; logits are cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks = BufferList()  # per task: classes, D
        self.counts: BufferList | None = None  # per task: images of each class, if they may return

    def keep_counts(self) -> None:
        """Remember how many images each mean is of, so that more can be added to it."""
        self.counts = BufferList()

    def begin_task(self, classes: int, dim: int) -> None:
        self.tasks.append(torch.zeros(classes, dim))
        if self.counts is not None:
            self.counts.append(torch.zeros(classes))

    def current(self, features: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(self.tasks[-1]).T

    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(features) @ F.normalize(torch.cat(list(self.tasks))).T

    def forget(self, task: int, row: int) -> None:
        for kept in (self.tasks, self.counts):
            if kept is not None:
                rows = kept[task]
                kept.register_buffer(str(task), torch.cat([rows[:row], rows[row + 1 :]]))


class SimpleCil(Learner):
    Options: ClassVar[type] = NoOptions
    settled = True
    returning = True

    @classmethod
    def needs(cls, options: Any) -> Needs:
        return "features"

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.head = Prototypes()

    def expect_returning(self) -> None:
        self.head.keep_counts()

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.head.begin_task(classes, self.backbone.width)
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
    """Compute the mean feature of each class of the current task, in one pass.

    If the head keeps counts, images of older classes move the means of those as well.
    """
    *_, means = tasks = list(head.tasks)
    if head.counts is None:
        tasks = [means]
    first = sum(map(len, tasks)) - len(means)  # the row of the current task's first class
    sums = torch.zeros(first + len(means), means.shape[1], device=means.device)
    counts = torch.zeros(len(sums), device=means.device)
    for features, labels in images.encoded(learner.features):
        sums.index_add_(0, labels + first, features)
        counts += torch.bincount(labels + first, minlength=len(sums))
    had = head.counts or [torch.zeros_like(counts)]
    sizes = [*map(len, tasks)]
    parts = zip(tasks, had, torch.split(sums, sizes), torch.split(counts, sizes), strict=True)
    for mean, before, added, of_them in parts:
        add(mean, before, added, of_them)


def add(means: Tensor, counts: Tensor, sums: Tensor, of_them: Tensor) -> None:
    """Take the sums of more features into means of so many; what gets none stays, to the bit."""
    total = (counts + of_them).clamp(min=1)[:, None]
    means.copy_(torch.where(of_them[:, None] > 0, (means * counts[:, None] + sums) / total, means))
    counts += of_them
