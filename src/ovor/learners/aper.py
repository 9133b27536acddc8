"""The paper's ADAM, elsewhere APER: tune a copy on the first task, then take means (Zhou 2023).

Features are those of the frozen and of the tuned network side by side, compared by cosine. In a
file of this name because the optimiser owns the other.
"""

from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count, Run
from ovor.data.batches import Batches
from ovor.encoders import pet
from ovor.encoders.base import Encoder
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast, Learner, nothing
from ovor.learners.simplecil import Prototypes, set_means
from ovor.seeds import WEIGHTS, generator

Decay = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=STRICT)
class TuningOptions:
    weight_decay: Decay = 5e-4
    """of SGD on the first task"""


@dataclass(frozen=True, config=STRICT)
class TokenOptions(TuningOptions):
    tokens: Count = 5
    """learned tokens"""


@dataclass(frozen=True, config=STRICT)
class AdapterOptions(TuningOptions):
    bottleneck: Count = 64
    """width of the adapters"""


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

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        """Add to the copy the parameters that learn."""
        raise NotImplementedError

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.tasks += 1
        if self.tasks == 1:
            draw = generator(*seed, WEIGHTS)
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


class Aper(FirstTaskTuning):
    """Classifies by class means of the frozen and the tuned network's features side by side."""

    def __init__(self, options: Any, backbone: VisionTransformer, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.head = Prototypes()

    def expect_returning(self) -> None:
        self.head.keep_counts()

    def make_room(self, classes: int, seed: tuple[int, ...]) -> None:
        self.head.begin_task(classes, 2 * self.vit.arch.embed_dim)

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.requires_grad_(False)
        set_means(self.head, self, images)

    def features(self, images: Tensor) -> Tensor:
        plain = self.encode(self.vit, images)
        return torch.cat([plain, self.tuned_features(images)], dim=1)


class AperFinetune(Aper):
    Options: ClassVar[type] = TuningOptions

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_all_weights(vit)


class AperShallow(Aper):
    Options: ClassVar[type] = TokenOptions

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_tokens(vit, self.options.tokens, deep=False)


class AperDeep(Aper):
    Options: ClassVar[type] = TokenOptions

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_tokens(vit, self.options.tokens, deep=True)


class AperAdapter(Aper):
    Options: ClassVar[type] = AdapterOptions

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_adapters(vit, self.options.bottleneck, draw)


class AperSsf(Aper):
    Options: ClassVar[type] = TuningOptions

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_scale_and_shift(vit, draw)
