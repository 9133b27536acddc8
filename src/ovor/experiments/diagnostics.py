"""What result.json does not have of a finished run, measured on its last weights.

Which tasks and classes it takes for which, and the head of its middle task from near: energies of
images and virtual outliers (Sec. 4.1), and where these lie among the features.
"""

import copy
import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.analysis.cost import grown, inference_macs
from ovor.atomic import write_atomically
from ovor.config import Npos
from ovor.distributed.ranks import ALONE
from ovor.events import FeaturesExtracted, silent
from ovor.experiments.folder import Folder
from ovor.experiments.mistakes import by_class
from ovor.learners.base import Learner
from ovor.losses import task_energies
from ovor.outliers import synthesize
from ovor.outliers.boundary import farthest_from_others
from ovor.presets import SETTINGS
from ovor.seeds import NOISE, generator
from ovor.training.context import Context
from ovor.training.features import Features, still_images

SCHEMA = 1
BINS = 60
POINTS = 300  # of a kind, at most, in the plane


def read_diagnostics(folder: Folder) -> dict[str, Any] | None:
    """Return what was measured before, if this version can use it."""
    try:
        found = json.loads(folder.closeup_file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA else None


def write_diagnostics(
    folder: Folder, context: Context, learner: Learner, features: Features
) -> None:
    """Measure a run that has just ended, or was reopened, and keep it in its folder.

    Test features that the last evaluation computed are not computed again.
    """
    found = measure(replace(context, ranks=ALONE, listen=silent), learner.eval(), features)
    with suppress(OSError):  # a folder that is only to be read: it is measured again next time
        write_atomically(folder.closeup_file, json.dumps(found).encode() + b"\n")


@torch.no_grad()
def measure(context: Context, learner: Learner, tests: Features) -> dict[str, Any]:
    """Return what closeup.json holds."""
    last, middle = len(context.tasks) - 1, len(context.tasks) // 2
    pairs = [tests.of_test(learner, last, task) for task in range(last + 1)]
    logits = [all_logits(context, learner, features) for features, _ in pairs]
    features, labels = Features(context).extract(
        learner.features, still_images(context, middle), partial(FeaturesExtracted, middle, 0)
    )
    if labels.min() < 0:  # images of older classes, which came again with this task
        features, labels = features[labels >= 0], labels[labels >= 0]
    found: dict[str, Any] = {
        "schema": SCHEMA,
        **confusion(context, logits, [labels for _, labels in pairs]),
        **by_class(context, logits, [labels for _, labels in pairs]),
        "macs": macs(context),
        "middle_task": middle,
        "energies": None,
        "plane": None,
    }
    if features.isfinite().all() and all(part.isfinite().all() for part in logits):
        outliers = outliers_of(context, middle, features)
        found["energies"] = histograms(
            middle_energies(context, middle, logits, all_logits(context, learner, outliers))
        )
        found["plane"] = plane(context, middle, features, labels, outliers)
    return found


def all_logits(context: Context, learner: Learner, features: Tensor) -> Tensor:
    """Return logits computed in the batches of the run, so that not even rounding differs."""
    parts = torch.split(features, context.run.batch_size)
    return torch.cat([learner.logits(part) for part in parts])


def confusion(context: Context, logits: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
    """Count test images by true (row) and predicted (column) task, and right predictions."""
    starts = torch.tensor([task.start for task in context.tasks])
    rows, right = [], []
    for part, truth in zip(logits, labels, strict=True):
        predicted = part.argmax(1).cpu()
        tasks = torch.searchsorted(starts, predicted, right=True) - 1
        rows.append(torch.bincount(tasks, minlength=len(starts)).tolist())
        right.append(int((predicted == truth.cpu()).sum()))
    return {"confusion": rows, "right": right}


def npos_of(context: Context) -> Npos:
    """Return the run's settings of outliers; without VOR, those its data set would have with it."""
    kind = context.run.data.partition(":")[0]
    return (context.run.vor or SETTINGS[kind][1]).npos


def outliers_of(context: Context, task: int, features: Tensor) -> Tensor:
    noise = generator(context.run.seed, task, context.run.epochs, NOISE)  # no epoch has this number
    classes = len(context.tasks[task].classes)
    return synthesize(features, classes, npos_of(context), noise)


def boundary_of(context: Context, task: int, features: Tensor) -> Tensor:
    """Return the indices of the features that outliers start from (Alg. 2)."""
    npos = npos_of(context)
    index = features.float() if npos.space == "raw" else F.normalize(features.float())
    count = max(1, round(npos.alpha * len(context.tasks[task].classes)))
    return farthest_from_others(index, npos.k - npos.self_neighbor, count)


def middle_energies(
    context: Context, middle: int, logits: list[Tensor], of_outliers: Tensor
) -> dict[str, Tensor]:
    """Return the energies of the middle task's head, by whose features it is given."""
    sizes = [len(task.classes) for task in context.tasks]

    def of(parts: list[Tensor]) -> Tensor:
        return task_energies(torch.cat(parts), sizes)[:, middle].cpu()

    kinds = {
        "own": logits[middle : middle + 1],
        "outliers": [of_outliers],
        "earlier": logits[:middle],
        "later": logits[middle + 1 :],
    }
    return {name: of(parts) for name, parts in kinds.items() if parts}


def histograms(found: dict[str, Tensor]) -> dict[str, Any]:
    """Count each kind in bins that all kinds share, and average it."""
    together = torch.cat(list(found.values()))
    low, high = float(together.min()), float(together.max())
    high = max(high, low + 1e-3)  # a width, if all are equal
    return {
        "low": round(low, 4),
        "high": round(high, 4),
        "counts": {
            name: torch.histc(values.float(), BINS, low, high).int().tolist()
            for name, values in found.items()
        },
        "means": {name: round(float(values.mean()), 4) for name, values in found.items()},
    }


def plane(
    context: Context, task: int, features: Tensor, labels: Tensor, outliers: Tensor
) -> dict[str, Any]:
    """Project features, boundary and outliers on the features' first two principal components."""
    center = features.float().mean(0)
    axes, shares = principal_axes(features.float() - center)

    def place(points: Tensor) -> list[list[float]]:
        at: list[list[float]] = ((points.float() - center) @ axes).cpu().double().tolist()
        return [[round(x, 3), round(y, 3)] for x, y in at]

    some = spread(len(features))
    return {
        "shares": shares,
        "features": place(features[some]),
        "labels": labels[some].tolist(),
        "boundary": place(features[boundary_of(context, task, features)[:POINTS]]),
        "outliers": place(outliers[spread(len(outliers))]),
    }


def principal_axes(centered: Tensor) -> tuple[Tensor, list[float]]:
    """Return the two directions of largest variance (D, 2), and their shares of it."""
    _, values, rows = torch.linalg.svd(centered, full_matrices=False)
    axes = F.pad(rows[:2], (0, 0, 0, max(0, 2 - len(rows)))).T
    # A direction and its opposite are the same axis: let the largest part be positive.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    squares = F.pad(values.double().square(), (0, 2))
    shares = squares[:2] / squares.sum().clamp(min=1e-30)
    return axes * largest.sign(), [round(float(share), 4) for share in shares]


def spread(count: int) -> Tensor:
    """Return at most POINTS indices below `count`, evenly spread."""
    return torch.linspace(0, max(0, count - 1), min(count, POINTS)).long()


def macs(context: Context) -> int | None:
    """Count the multiply-accumulates of one image through the learner, if torch computes them.

    Texts differ in length, and have no such number.
    """
    run, encoder = context.run, context.backbone.encoder
    if not encoder.exports or encoder.reads.steady:
        return None
    empty: dict[int, Tensor] = {id(x): x.to("meta") for x in encoder.buffers()}
    empty |= {id(p): nn.Parameter(p.to("meta"), requires_grad=False) for p in encoder.parameters()}
    sizes = [len(task.classes) for task in context.tasks]
    learner, _ = grown(run.method, run.options, sizes, copy.deepcopy(encoder, dict(empty)))
    return inference_macs(learner, run.transform.size)
