"""What cannot be done with exact sums, each in a sentence, before anything is changed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ovor.classifier.digests import Digests
from ovor.config import Run, Transform
from ovor.encoders import Backbone
from ovor.errors import OvorError
from ovor.learners import parse_options
from ovor.learners.analytic import AnalyticOptions, depths_read
from ovor.learners.moments import FEATURE_STEPS, Moments


class Settings(Protocol):
    """What must be the same in models whose sums are to be added."""

    def network(self) -> Backbone: ...

    def run(self) -> Run: ...

    def transform(self) -> Transform: ...


def check_enough(rows: Any, counts: Tensor, names: Any, many: str = "images") -> None:
    """Refuse to take back more images of a class than it has, or all that there are."""
    taken = torch.bincount(torch.from_numpy(rows), minlength=len(counts)).double()
    over = (taken > counts).nonzero()[:, 0].tolist()
    if over:
        raise OvorError(
            f"{names[over[0]]!r} was learned from {counts[over[0]]:g} {many}, so "
            f"{taken[over[0]]:g} cannot be taken back: give only {many} that were learned."
        )
    if bool((taken == counts).all()):
        raise OvorError("No class would be left: delete the model instead.")


def check_learned(
    kept: Digests | None, digests: Sequence[bytes], rows: Any, where: Sequence[str], names: Any
) -> None:
    """Refuse images that were not learned as these classes, where digests are kept."""
    if kept is None:
        return
    for key, row, image in zip(digests, rows.tolist(), where, strict=True):
        if kept.get(key) != row:
            raise OvorError(
                f"{image} was not learned as {names[row]!r} since digests are kept (once=True): "
                "give only what was."
            )


def check_unknown(
    kept: Digests, digests: Sequence[bytes], where: Sequence[str], names: Any
) -> None:
    """Refuse images as new that were learned before, where digests are kept."""
    for key, image in zip(digests, where, strict=True):
        if key in kept:
            raise OvorError(
                f"{image} was learned before, as {names[kept[key]]!r}: say so (from_=...), or "
                "leave it out."
            )


def check_alike(one: Settings, other: Settings) -> None:
    """Refuse to merge with a model whose sums mean something else."""
    if one.network().sha256 != other.network().sha256:
        raise OvorError(
            f"The models have different backbones ({one.network().name} and "
            f"{other.network().name}), so their sums cannot be added: merge models that were made "
            "with the same one."
        )
    if meaning(one) != meaning(other):
        raise OvorError(
            "The models were made with different settings, so their sums cannot be added: merge "
            "models that were made with the same."
        )


def meaning(model: Settings) -> tuple[Any, list[int], Transform]:
    """Return what the numbers of a model's features depend on besides its backbone."""
    run = model.run()
    options: AnalyticOptions = parse_options(run.method, run.options)
    read = depths_read(options, model.network().encoder.widths)
    return replace(options, depths=1, widest=0), read, model.transform()


def check_left(moments: Moments, most: float, many: str = "images") -> None:
    """Refuse what is left if it cannot be of images: then others were learned.

    On another processor features may differ by a step, so that `most` images leave as many steps.
    """
    limit = most / FEATURE_STEPS
    empty = moments.counts == 0
    left = float(moments.sums[empty].abs().amax()) if bool(empty.any()) else 0.0
    squares = (moments.sums.square().T / moments.counts.clamp(min=1)).sum(1)
    scatter = moments.second.diagonal() - squares
    if left > limit or float(scatter.min()) < -limit:
        raise OvorError(
            f"These are not the {many} that were learned: give those, or forget the class without "
            f"{many}."
        )
