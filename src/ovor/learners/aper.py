"""The paper's ADAM, elsewhere APER: tune a copy on the first task, then take means (Zhou 2023).

Features are those of the frozen and of the tuned network side by side, compared by cosine. In a
file of this name because the optimiser owns the other.
"""

from typing import Any, ClassVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT, Count
from ovor.data.batches import Batches
from ovor.encoders import pet
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast
from ovor.learners.first_task import Decay, FirstTaskTuning
from ovor.learners.simplecil import Prototypes, set_means


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
