"""What the loop asks of a method: the contract of every learner."""

from typing import Any

from torch import Tensor, nn


class Learner(nn.Module):
    """A classifier that grows by tasks; `head` is its classifier, `backbone` the shared ViT."""

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        """Make room for `classes` more classes, initialised by `seed` alone."""
        raise NotImplementedError

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The training loss of one batch of the current task (labels counted within it)."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """What the head sees (B, D), as at inference."""
        raise NotImplementedError

    def current_logits(self, features: Tensor) -> Tensor:
        """Logits of the current task's classes alone."""
        raise NotImplementedError

    def logits(self, features: Tensor) -> Tensor:
        """Logits of all classes seen so far."""
        raise NotImplementedError

    def learnable(self) -> list[nn.Parameter]:
        """What the current task may change."""
        return [p for p in self.parameters() if p.requires_grad]

    def learned_state(self) -> dict[str, Tensor]:
        """All that was learned, without the backbone."""
        return {k: v for k, v in self.state_dict().items() if not k.startswith("backbone.")}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        """Put `learned_state` back, after as many `begin_task` as it had."""
        backbone: dict[str, Any] = {
            k: v for k, v in self.state_dict().items() if k.startswith("backbone.")
        }
        self.load_state_dict({**backbone, **state})
