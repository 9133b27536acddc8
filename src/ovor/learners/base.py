"""The contract of every learner: what the training loop (Alg. 1) asks of a method."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Run
from ovor.data.batches import Batches
from ovor.encoders.base import Encoder
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError

Autocast = Callable[[], AbstractContextManager[None]]
# No more than an encoder's features; a transformer, which takes prefixes and whose weights can be
# trained; or a vision transformer, of which parts are known.
Needs = Literal["features", "blocks", "vit"]


@dataclass(frozen=True, config=STRICT)
class NoOptions:
    """The options of a method that has none."""


class Learner(nn.Module):
    """A classifier that grows by tasks on a pre-trained encoder.

    The encoder stays as it is; a method that tunes the network tunes a copy of it.
    """

    Options: ClassVar[type]  # frozen, every field with a default
    takes_vor: ClassVar[bool] = False  # has it a linear head per task, for VOR to tighten?
    separable: bool = True  # is the loss of a batch the mean of its images' losses?
    settled: bool = False  # do later tasks leave the features of the first unchanged?
    at_once: ClassVar[bool] = False  # does it learn all classes as one task?
    returning: ClassVar[bool] = False  # can it take more images of classes of earlier tasks?
    untuned: ClassVar[str] = ""  # the flag, if there is one, by which it needs features alone
    head: Any  # a module: features to logits of all classes; its `current`: of the last task's

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__()
        self.backbone = backbone
        self.autocast = autocast

    @classmethod
    def needs(cls, options: Any) -> Needs:
        """Say which networks it can learn with."""
        return "vit"

    @classmethod
    def looks_again(cls, options: Any) -> bool:
        """Tell whether `end_task` goes through images that the epochs have trained on."""
        return False

    def expect_returning(self) -> None:
        """Prepare, before the first task, for more images of classes of earlier tasks.

        Their labels in `end_task` are negative: labels count from the task's first class.
        """

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        """Make room for `classes` more classes, initialised by `seed` alone."""
        raise NotImplementedError

    def epochs(self, run: Run, task: int) -> int:
        """Return the epochs of gradient descent in a task: 0 for what has a closed form."""
        return run.epochs

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        """Return a new optimiser of what the current task may change."""
        return torch.optim.Adam(self.learnable() or nothing(), lr=run.lr)

    def begin_epoch(self, epoch: int) -> None:
        """Be told which epoch of the task comes next, where a loss depends on it."""

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the training loss of a batch; labels count from the task's first class."""
        raise NotImplementedError

    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        """Compute what follows the epochs from the training images, unaugmented as in a test.

        `images.encoded(self.features)` divides the work among the processes of a run; what goes
        through all `images` is done by each. A run that was stopped in the middle of it does all of
        it again.
        """

    def features(self, images: Tensor) -> Tensor:
        """Return what the head sees of images (B, D), as at inference."""
        raise NotImplementedError

    def query(self, images: Tensor) -> Tensor | None:
        """Return what chooses the images' prompts, which no task changes; None if nothing does."""
        return None

    def features_given(self, query: Tensor | None, images: Tensor) -> Tensor:
        """Return the features of images whose query is known."""
        return self.features(images)

    def encode(self, network: Encoder, images: Tensor) -> Tensor:
        """Return the features that a network gives, in the precision of the run."""
        with self.autocast():
            return network(images)  # type: ignore[no-any-return]

    def current_logits(self, features: Tensor) -> Tensor:
        """Return the logits of the current task's classes alone."""
        return self.head.current(features)  # type: ignore[no-any-return]

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits of all classes seen so far."""
        return self.head(features)  # type: ignore[no-any-return]

    def forget(self, task: int, row: int) -> None:
        """Remove a class from the head, given as a row of its task."""
        raise OvorError(
            f"{type(self).__name__} cannot forget one class, as its weights mix all of them: learn "
            "the others anew."
        )

    def learnable(self) -> list[nn.Parameter]:
        """Return the parameters that the current task may change."""
        return [p for p in self.parameters() if p.requires_grad]

    @property
    def device(self) -> torch.device:
        return self.backbone.device

    @property
    def vit(self) -> VisionTransformer:
        """The backbone of a method that needs a ViT, which `build_learner` has seen to."""
        assert isinstance(self.backbone, VisionTransformer)
        return self.backbone

    def learned_state(self) -> dict[str, Tensor]:
        """Return all that was learned or kept, without what is shared with the backbone."""
        shared = self.shared_names()
        return {k: v for k, v in self.state_dict().items() if k not in shared}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        """Restore a `learned_state`, after as many calls of `begin_task` as it had seen."""
        shared = self.shared_names()
        own = {k: v for k, v in self.state_dict().items() if k in shared}
        self.load_state_dict({**own, **state})

    def shared_names(self) -> set[str]:
        """Return the names of the backbone's tensors, and the second names of what has two."""
        theirs = {id(x) for x in (*self.backbone.parameters(), *self.backbone.buffers())}
        first = {name for name, p in self.named_parameters() if id(p) not in theirs}
        second = {name for name, _ in self.named_parameters(remove_duplicate=False)} - first
        buffers = self.named_buffers(remove_duplicate=False)
        return second | {name for name, x in buffers if id(x) in theirs}

    def learned_parameters(self) -> int:
        """Count the numbers that training may change, over all tasks."""
        frozen = {id(p) for p in self.backbone.parameters()}
        return sum(p.numel() for p in self.parameters() if id(p) not in frozen)


def nothing() -> list[nn.Parameter]:
    """Return a parameter for the optimiser of a task without gradients: torch refuses none."""
    return [nn.Parameter(torch.zeros(()))]
