"""RanPAC: ridge regression on a random projection of the features (McDonnell et al., 2023).

The first task may tune the network; then sums over all images, and a solve after each task, are
the same as a regression on all classes at once, whatever the order of the tasks.
"""

from typing import Any, ClassVar

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ovor.config import STRICT, Count
from ovor.data.batches import Batches
from ovor.encoders import pet
from ovor.encoders.base import Encoder
from ovor.encoders.vit import VisionTransformer
from ovor.learners.base import Autocast
from ovor.learners.first_task import FirstTaskTuning, MayTune, TunedOptions, check_finite
from ovor.seeds import WEIGHTS, generator

RIDGES = [10.0**power for power in range(-8, 9)]


@dataclass(frozen=True, config=STRICT)
class RanPacOptions(TunedOptions):
    tuning: pet.Tunings = "adapter"
    """how the first task tunes the network"""
    projection: Count = 10_000
    """width of the random projection (the paper's M)"""


class RanPac(MayTune):
    Options: ClassVar[type] = RanPacOptions
    gram: Tensor  # M, M: sum of h h^T
    sums: Tensor  # M, classes: sum of h y^T
    weights: Tensor  # M, classes
    projection: Tensor  # D, M

    def __init__(self, options: Any, backbone: Encoder, autocast: Autocast) -> None:
        super().__init__(options, backbone, autocast)
        width = options.projection
        for name in ("sums", "weights"):
            self.register_buffer(name, torch.zeros(width, 0, dtype=torch.double))
        # In double precision: with small ridges the solution hangs on the last digits of the sums.
        self.register_buffer("gram", torch.zeros(width, width, dtype=torch.double))
        self.classes = 0

    def begin_task(self, classes: int, seed: tuple[int, ...]) -> None:
        if isinstance(self.backbone, VisionTransformer):  # a copy of it even if nothing is tuned
            FirstTaskTuning.begin_task(self, classes, seed)
        else:
            self.tasks += 1
            self.make_room(classes, seed)
            self.to(self.device)

    def make_room(self, classes: int, seed: tuple[int, ...]) -> None:
        self.classes = classes
        if self.tasks == 1:
            size = (self.backbone.width, self.options.projection)
            draw = generator(*seed, WEIGHTS, 1)
            self.register_buffer("projection", torch.randn(size, generator=draw))
        for name in ("sums", "weights"):
            old = getattr(self, name)
            setattr(self, name, torch.cat([old, old.new_zeros(len(old), classes)], dim=1))

    @torch.no_grad()
    def end_task(self, images: Batches, seed: tuple[int, ...]) -> None:
        self.requires_grad_(False)
        pairs = [(self.project(seen), labels) for seen, labels in images.encoded(self.features)]
        h = torch.cat([projected for projected, _ in pairs])  # n, M
        check_finite(h)
        labels = torch.cat([labels for _, labels in pairs])
        # Columns from the oldest class that returns: for those before, all targets are zero, and so
        # are all predictions, with any ridge.
        oldest = min(0, int(labels.min()))
        y = nn.functional.one_hot(labels - oldest, self.classes - oldest).float()
        order = torch.randperm(len(h), generator=generator(*seed, WEIGHTS, 2)).to(h.device)
        ridge = choose_ridge(h[order], y[order])
        h, y = h.double(), y.double()
        self.gram += h.T @ h
        self.sums[:, oldest - self.classes :] += h.T @ y
        # A solve returns its columns one after another, a file has rows: the last bits of a product
        # depend on that, and a model must predict the same after it was saved.
        solution = ridge_solution(self.gram, self.sums, ridge)
        self.weights = solution.clone(memory_format=torch.contiguous_format)

    def features(self, images: Tensor) -> Tensor:
        return self.encode(self.network, images)

    def project(self, features: Tensor) -> Tensor:
        return torch.relu(features @ self.projection)

    def current_logits(self, features: Tensor) -> Tensor:
        return self.project(features) @ self.weights[:, -self.classes :].float()

    def logits(self, features: Tensor) -> Tensor:
        return self.project(features) @ self.weights.float()


def choose_ridge(h: Tensor, y: Tensor) -> float:
    """Return the ridge with the least square error on the last fifth, fitted on the rest.

    One eigendecomposition and one product serve all 17, instead of 17 solves of M x M: of n x n, in
    the dual problem, or of M x M where that is less.
    """
    cut = max(1, int(0.8 * len(h)))
    fit, test = h[:cut].double(), h[cut:].double()
    if not len(test):
        return 1.0
    targets = y[:cut].double()
    if len(fit) > fit.shape[1]:
        values, vectors = torch.linalg.eigh(fit.T @ fit)
        towards, across = vectors.T @ (fit.T @ targets), test @ vectors
    else:
        values, vectors = torch.linalg.eigh(fit @ fit.T)
        towards, across = vectors.T @ targets, (test @ fit.T) @ vectors
    ridges = torch.tensor(RIDGES, device=h.device, dtype=torch.double)
    weights = towards.unsqueeze(1) / (values.clamp(min=0)[:, None] + ridges).unsqueeze(-1)
    found = (across @ weights.flatten(1)).unflatten(1, weights.shape[1:])  # test, 17, classes
    return RIDGES[int((found - y[cut:, None]).square().mean((0, 2)).argmin())]


def ridge_solution(gram: Tensor, sums: Tensor, ridge: float) -> Tensor:
    """Return (G + ridge I)^-1 Q."""
    system = gram.clone()
    system.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed:  # a ridge below the rounding of G
        solution: Tensor = torch.linalg.lstsq(system, sums).solution
        return solution
    return torch.cholesky_solve(sums, factor)
