"""What the loop asks of a method: the contract of every learner."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ovor.config import Run
from ovor.data.batches import Batches
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError

Autocast = Callable[[], AbstractContextManager[None]]


class Learner(nn.Module):
    """A classifier that grows by tasks on a pre-trained ViT, which stays as it is.

    A method that tunes the network tunes a copy of it.
    """

    Options: ClassVar[type]  # frozen, every field with a default
    takes_vor: ClassVar[bool] = False  # has it a linear head per task, for VOR to tighten?
    separable: bool = True  # is the loss of a batch the mean of its images' losses?
    settled: ClassVar[bool] = False  # do features stay as they are once the first task is learned?
    at_once: ClassVar[bool] = False  # does it learn all classes as one task?
    head: Any  # a module that classifies: over all classes, and by `current` over the task's

    def __init__(self, options: Any, backbone: VisionTransformer, autocast: Autocast) -> None:
        super().__init__()
        self.backbone = backbone
        self.autocast = autocast

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        """Make room for `classes` more classes, initialised by `seed` alone."""
        raise NotImplementedError

    def epochs(self, run: Run, task: int) -> int:
        """Epochs of gradient descent in this task; none for what is computed in closed form."""
        return run.epochs

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        """A new one for every task."""
        return torch.optim.Adam(self.learnable() or nothing(), lr=run.lr)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The training loss of one batch of the current task (labels counted within it)."""
        raise NotImplementedError

    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        """What follows the epochs, with the training images as they are tested.

        `images.encoded(self.features)` divides the work among the processes of a run; what goes
        through all `images` is done by each. A run that was stopped in the middle of it does all of
        it again.
        """

    def features(self, images: Tensor) -> Tensor:
        """What the head sees (B, D), as at inference."""
        raise NotImplementedError

    def query(self, images: Tensor) -> Tensor | None:
        """What chooses the prompts of these images, which no task changes; None: nothing does."""
        return None

    def features_given(self, query: Tensor | None, images: Tensor) -> Tensor:
        """The features of images whose query is known."""
        return self.features(images)

    def current_logits(self, features: Tensor) -> Tensor:
        """Logits of the current task's classes alone."""
        return self.head.current(features)  # type: ignore[no-any-return]

    def logits(self, features: Tensor) -> Tensor:
        """Logits of all classes seen so far."""
        return self.head(features)  # type: ignore[no-any-return]

    def forget(self, task: int, row: int) -> None:
        """Take a class out of what classifies, counted within its task."""
        raise OvorError(
            f"{type(self).__name__} cannot forget one class, as its weights mix all of them: learn "
            "the others anew."
        )

    def learnable(self) -> list[nn.Parameter]:
        """What the current task may change."""
        return [p for p in self.parameters() if p.requires_grad]

    @property
    def device(self) -> torch.device:
        return self.backbone.cls_token.device

    def learned_state(self) -> dict[str, Tensor]:
        """All that was learned or kept, without the backbone and what a copy shares with it."""
        shared = self.shared_names()
        return {k: v for k, v in self.state_dict().items() if k not in shared}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        """Put `learned_state` back, after as many `begin_task` as it had."""
        shared = self.shared_names()
        own = {k: v for k, v in self.state_dict().items() if k in shared}
        self.load_state_dict({**own, **state})

    def shared_names(self) -> set[str]:
        """Names of the backbone's weights, and second names of what has two."""
        weights = {id(p) for p in self.backbone.parameters()}
        first = {name for name, p in self.named_parameters() if id(p) not in weights}
        return {name for name, _ in self.named_parameters(remove_duplicate=False)} - first

    def learned_parameters(self) -> int:
        """How many numbers training may change, over all tasks; what is only kept is left out."""
        frozen = {id(p) for p in self.backbone.parameters()}
        return sum(p.numel() for p in self.parameters() if id(p) not in frozen)


def nothing() -> list[nn.Parameter]:
    """For the optimiser of a task that learns nothing by gradients: torch refuses an empty one."""
    return [nn.Parameter(torch.zeros(()))]
