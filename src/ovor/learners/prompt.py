"""Every prompt method: a frozen network, a prompt that makes prefixes, a growing head."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.encoders.prefixed import Prefixed
from ovor.learners.base import Autocast, Learner, Needs
from ovor.learners.head import GrowingHead
from ovor.prompts.base import Prompt
from ovor.seeds import WEIGHTS, generator


class PromptLearner(Learner):
    takes_vor = True

    @classmethod
    def needs(cls, options: Any) -> Needs:
        return "blocks"

    def __init__(self, prompt: Prompt, backbone: Prefixed, autocast: Autocast) -> None:
        super().__init__(None, backbone, autocast)
        self.prompt = prompt
        self.separable = prompt.separable
        self.head = GrowingHead(backbone.width)

    @property
    def network(self) -> Prefixed:
        """The backbone as a network that takes prefixes, which `build_learner` has seen to."""
        assert isinstance(self.backbone, Prefixed)
        return self.backbone

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        draw = generator(*seed, WEIGHTS)
        self.prompt.begin_task(draw)
        self.head.begin_task(classes, draw)
        self.to(self.device)

    def prompted(self, images: Tensor, query: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return features and the auxiliary loss; only the network runs in low precision."""
        with self.autocast():
            tokens = self.network.embed(images)
            if self.prompt.needs_query and query is None:
                with torch.no_grad():
                    query = self.network.encode(tokens)
        prefixes, auxiliary = self.prompt(query)
        with self.autocast():
            return self.network.encode(tokens, prefixes), auxiliary

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        features, auxiliary = self.prompted(images)
        return F.cross_entropy(self.head.current(features), labels) + auxiliary

    def features(self, images: Tensor) -> Tensor:
        return self.prompted(images)[0]

    @torch.no_grad()
    def query(self, images: Tensor) -> Tensor | None:
        return self.encode(self.network, images) if self.prompt.needs_query else None

    def features_given(self, query: Tensor | None, images: Tensor) -> Tensor:
        return self.prompted(images, query)[0]

    def forget(self, task: int, row: int) -> None:
        self.head.forget(task, row)
