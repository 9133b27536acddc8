"""What closed-form methods share: frozen features, one pass over the images, a solve afterwards.

Nothing is trained, unless the first task tunes the network. What is kept of the images are sums, in
double precision on the CPU.
"""

from typing import Any, ClassVar

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ovor.config import STRICT
from ovor.data.batches import Batches
from ovor.encoders.base import Encoder
from ovor.learners.analytic import depths_at
from ovor.learners.base import Autocast
from ovor.learners.first_task import MayTune, TunedOptions, check_finite
from ovor.learners.moments import MOMENTS, Moments
from ovor.seeds import WEIGHTS, generator


@dataclass(frozen=True, config=STRICT)
class FrozenOptions(TunedOptions):
    depths: NonNegativeInt = 0
    """depths of the network that are read, as analytic reads them; 0 reads its output alone, as the
    method's authors do"""


class ClosedForm(MayTune):
    """Turns features of a task into sums when it ends, and these into what classifies."""

    kept: ClassVar[tuple[str, ...]]  # attributes with what was learned, all tensors

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        self.read = depths_at(options.depths, len(backbone.widths)) if options.depths else []
        self.width = sum(backbone.widths[depth] for depth in self.read) or backbone.width
        self.start = self.classes = 0

    def make_room(self, classes: int, seed: tuple[int, ...]) -> None:
        self.start, self.classes = self.classes, self.classes + classes
        if self.tasks == 1:
            self.begin(seed)
        self.widen(classes)

    def draw(self, seed: tuple[int, ...]) -> torch.Generator:
        return generator(*seed, WEIGHTS, 1)  # `begin` draws by the key without the 1

    def begin(self, seed: tuple[int, ...]) -> None:
        """Draw what stays the same from the first task on."""

    def widen(self, classes: int) -> None:
        """Make room for the classes of a task in all that inference reads."""
        raise NotImplementedError

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.requires_grad_(False)
        pairs = list(images.encoded(self.features))
        features = torch.cat([some for some, _ in pairs]).cpu().double()
        check_finite(features)
        labels = torch.cat([of_them for _, of_them in pairs]).cpu() + self.start
        self.learn(features, labels, seed)

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        """Take in a task's features (n, D); labels count all classes, and older ones may return."""
        raise NotImplementedError

    def outputs(self, features: Tensor) -> Tensor:
        """Return the logits of all classes, for features in double precision."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        if not self.read:
            return self.encode(self.network, images)
        with self.autocast():
            return self.network.depths(images, self.read)

    def logits(self, features: Tensor) -> Tensor:
        place = getattr(self, self.kept[0]).device
        found = self.outputs(features.to(place, torch.double))
        if features.device.type == "mps":  # which has no double precision
            found = found.float()
        return found.to(features.device)

    def current_logits(self, features: Tensor) -> Tensor:
        return self.logits(features)[:, self.start :]

    def learned_state(self) -> dict[str, Tensor]:
        return super().learned_state() | {name: getattr(self, name) for name in self.kept}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        rest = dict(state)
        for name in self.kept:
            setattr(self, name, rest.pop(name))
        super().load_learned_state(rest)


class LiftedMoments(ClosedForm):
    """Keeps class sums and one second moment of lifted features, and a linear head from them."""

    weights: Tensor  # M, classes
    bias: Tensor  # classes

    def begin(self, seed: tuple[int, ...]) -> None:
        width = self.lifted_width()
        self.moments = Moments.empty(width)
        self.weights = torch.zeros(width, 0, dtype=torch.double)
        self.bias = torch.zeros(0, dtype=torch.double)

    def lifted_width(self) -> int:
        """Return how many numbers `lift` makes of an image."""
        raise NotImplementedError

    def lift(self, features: Tensor) -> Tensor:
        """Return what the sums are of, for features in double precision (n, D)."""
        raise NotImplementedError

    def solve(self) -> tuple[Tensor, Tensor]:
        """Return the head's weights (M, classes) and bias, from the moments."""
        raise NotImplementedError

    def widen(self, classes: int) -> None:
        self.moments = self.moments.grown(classes)
        new = self.weights.new_zeros(len(self.weights), classes)
        self.weights = torch.cat([self.weights, new], 1)
        self.bias = torch.cat([self.bias, new[0]])

    def learn(self, features: Tensor, labels: Tensor, seed: tuple[int, ...]) -> None:
        self.moments.add(self.lift(features), labels)
        weights, self.bias = self.solve()
        self.weights = by_rows(weights)

    def outputs(self, features: Tensor) -> Tensor:
        return self.lift(features) @ self.weights + self.bias

    def learned_state(self) -> dict[str, Tensor]:
        return super().learned_state() | self.moments.state()

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        rest = dict(state)
        self.moments = Moments.of_state({name: rest.pop(name) for name in MOMENTS})
        super().load_learned_state(rest)


def by_rows(matrix: Tensor) -> Tensor:
    """Return a matrix row after row, as files have it.

    A solve returns columns. The last bits of a product depend on that, and a model must predict the
    same after it was saved.
    """
    return matrix.clone(memory_format=torch.contiguous_format)
