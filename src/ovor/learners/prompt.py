"""Every prompt method: a frozen ViT, a prompt that turns queries into prefixes, a growing head."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.backbones.vit import VisionTransformer
from ovor.learners.base import Learner
from ovor.learners.head import GrowingHead
from ovor.prompts.base import Prompt
from ovor.seeds import WEIGHTS, generator


class PromptLearner(Learner):
    def __init__(
        self,
        backbone: VisionTransformer,
        prompt: Prompt,
        autocast: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.prompt = prompt
        self.head = GrowingHead(backbone.arch.embed_dim)
        self.autocast = autocast

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        device = self.backbone.cls_token.device
        draw = generator(*seed, WEIGHTS)
        self.prompt.begin_task(draw)
        self.head.begin_task(classes, draw)
        self.to(device)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Prompted features and the prompt's auxiliary loss; only the ViT runs in low precision."""
        with self.autocast():
            tokens = self.backbone.embed(images)
            query = None
            if self.prompt.needs_query:
                with torch.no_grad():
                    query = self.backbone.encode(tokens)
        prefixes, auxiliary = self.prompt(query)
        with self.autocast():
            return self.backbone.encode(tokens, prefixes), auxiliary

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        features, auxiliary = self.encode(images)
        return F.cross_entropy(self.head.current(features), labels) + auxiliary

    def features(self, images: Tensor) -> Tensor:
        return self.encode(images)[0]

    def current_logits(self, features: Tensor) -> Tensor:
        return self.head.current(features)

    def logits(self, features: Tensor) -> Tensor:
        return self.head(features)  # type: ignore[no-any-return]
