"""EASE: an adapter a task, and class means in the features of every adapter (Zhou et al., 2024).

What an old class's mean would be in the features of a later adapter is put together from the means
of that adapter's own classes, by how alike they are in the old one's features. An image goes
through the network as often as there were tasks.
"""

from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Positive, Run
from ovor.data.batches import Batches
from ovor.encoders import pet
from ovor.encoders.vit import VisionTransformer
from ovor.learners.aper import AdapterOptions
from ovor.learners.base import Autocast, Learner
from ovor.learners.buffers import BufferList
from ovor.learners.cosine import cosines
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class EaseOptions(AdapterOptions):
    adapter_rate: Positive = 1.0
    """learning rate of the adapters over that of the head; in few steps on a small network they
    hardly move at the same one"""
    others: Annotated[float, Field(ge=0)] = 0.1
    """the paper's alpha: weight of the other adapters' cosines beside those of a class's own"""
    among: Literal["each", "all"] = "each"
    """whether each of the others has that weight, as in the paper, or all of them share it, as
    released"""


class Ease(Learner):
    Options: ClassVar[type] = EaseOptions

    def __init__(
        self, options: EaseOptions, backbone: VisionTransformer, autocast: Autocast
    ) -> None:
        super().__init__(options, backbone, autocast)
        self.options = options
        self.networks = nn.ModuleList()  # per task, all with the same frozen weights
        self.means = BufferList()  # per task: its classes, networks, D

    @classmethod
    def looks_again(cls, options: EaseOptions) -> bool:
        return True

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        self.requires_grad_(False)
        draw, dim = generator(*seed, WEIGHTS), self.vit.arch.embed_dim
        self.networks.append(pet.tuned_copy(self.vit, self.tuning, draw))
        self.means.append(torch.zeros(classes, len(self.networks) - 1, dim))
        for number, means in enumerate(list(self.means)):
            room = means.new_zeros(len(means), 1, dim)
            self.means.register_buffer(str(number), torch.cat([means, room], dim=1))
        bound = dim**-0.5
        first = torch.empty(classes, dim).uniform_(-bound, bound, generator=draw)
        self.task_head = nn.Parameter(first)  # for the training loss alone
        self.scale = nn.Parameter(torch.ones(()))
        self.to(self.device)

    def tuning(self, vit: VisionTransformer, draw: torch.Generator) -> None:
        pet.with_adapters(vit, self.options.bottleneck, draw)

    def optimizer(self, run: Run) -> torch.optim.Optimizer:
        head = [self.task_head, self.scale]
        adapters = [p for p in self.networks[-1].parameters() if p.requires_grad]
        groups = [
            {"params": head, "factor": 1.0},
            {"params": adapters, "factor": self.options.adapter_rate},
        ]
        decay = self.options.weight_decay
        return torch.optim.SGD(groups, lr=run.lr, momentum=0.9, weight_decay=decay)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        network = self.networks[-1]
        assert isinstance(network, VisionTransformer)
        features = self.encode(network, images)
        return F.cross_entropy(self.scale * cosines(features, self.task_head), labels)

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.eval()
        *earlier, own = self.means
        own.zero_()
        counts = torch.zeros(len(own), device=own.device)
        for features, labels in images.encoded(self.features):
            own.index_add_(0, labels, features.view(-1, *own.shape[1:]))
            counts += torch.bincount(labels, minlength=len(own))
        own /= counts.clamp(min=1)[:, None, None]
        for number, means in enumerate(earlier):
            alike = means[:, number], own[:, number]  # in the features of the old task's adapter
            means[:, -1] = complement(*alike, own[:, -1])

    def features(self, images: Tensor) -> Tensor:
        """Return the features of images by every adapter, side by side."""
        with self.autocast():
            tokens = self.vit.embed(images)
            return torch.cat([network.encode(tokens) for network in self.networks], dim=1)  # type: ignore[operator]

    def logits(self, features: Tensor) -> Tensor:
        return torch.cat([self.of_task(number, features) for number in range(len(self.means))], 1)

    def current_logits(self, features: Tensor) -> Tensor:
        return self.of_task(len(self.means) - 1, features)

    def of_task(self, number: int, features: Tensor) -> Tensor:
        """Return the logits of a task's classes: cosines, most of all by its own adapter."""
        means = F.normalize(self.means[number], dim=-1)  # classes, networks, D
        seen = F.normalize(features.view(-1, *means.shape[1:]), dim=-1)
        others = self.options.others
        if self.options.among == "all":
            others /= max(1, means.shape[1] - 1)
        weights = torch.full((means.shape[1], 1), others, device=means.device)
        weights[number] = 1
        return (weights * seen).flatten(1) @ means.flatten(1).T


def complement(old: Tensor, new: Tensor, target: Tensor) -> Tensor:
    """Return old classes' means in the features of the new adapter.

    Each is the sum of the new classes' means there (target), weighted by the softmax of its cosines
    with them in the features of the old adapter, in which both were seen.
    """
    return torch.softmax(cosines(old, new), dim=1) @ target
