"""What result.json does not have of a finished run, measured on its last weights.

Which tasks it takes for which, and the head of its middle task from near: energies of images and
virtual outliers (Sec. 4.1), and where these lie among the features.
"""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.analysis.cost import grown, inference_macs
from ovor.classifier.rejection import energies
from ovor.config import Npos
from ovor.data.views import Pair
from ovor.encoders.vit import VisionTransformer
from ovor.experiments.folder import Folder, read_run
from ovor.experiments.runner import prepare
from ovor.learners.base import Learner
from ovor.outliers import synthesize
from ovor.outliers.boundary import farthest_from_others
from ovor.presets import SETTINGS
from ovor.seeds import NOISE, generator
from ovor.tensor_file import load_tensors, write_atomically
from ovor.training.checkpointing import grow
from ovor.training.context import Session, features_of, still_images
from ovor.training.loop import tested

SCHEMA = 1
BINS = 60
POINTS = 300  # of a kind, at most, in the plane


def read_closeup(folder: Folder) -> dict[str, Any] | None:
    """What an earlier look left, if this version can use it."""
    try:
        found = json.loads(folder.closeup_file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("schema") == SCHEMA else None


def measure_closeup(folder: Folder) -> dict[str, Any]:
    found = read_closeup(folder)
    if found is None:
        found = look_closely(folder)
        with suppress(OSError):  # a folder that is only to be read: it is measured again next time
            write_atomically(folder.closeup_file, json.dumps(found).encode() + b"\n")
    return found


@torch.no_grad()
def look_closely(folder: Folder) -> dict[str, Any]:
    session, learner = rebuild(folder)
    pairs = [tested(session, learner, len(session.tasks) - 1, t) for t in range(len(session.tasks))]
    logits = [all_logits(session, learner, features) for features, _ in pairs]
    middle = len(session.tasks) // 2
    features, labels = trained_on(session, learner, middle)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        **confusion(session, logits, [labels for _, labels in pairs]),
        "macs": macs(session),
        "middle_task": middle,
        "energies": None,
        "plane": None,
    }
    if features.isfinite().all() and all(part.isfinite().all() for part in logits):
        outliers = outliers_of(session, middle, features)
        found["energies"] = histograms(
            middle_energies(session, middle, logits, all_logits(session, learner, outliers))
        )
        found["plane"] = plane(session, middle, features, labels, outliers)
    return found


def rebuild(folder: Folder) -> tuple[Session, Learner]:
    """The learner as it was at the end of the run."""
    session, learner = prepare(read_run(folder.run_file), folder.checkpoint)
    learner.to(session.fabric.device)
    grow(learner, [len(task.classes) for task in session.tasks], session.run.seed)
    learner.load_learned_state(load_tensors(folder.weights)[0])
    return session, learner.eval()


def all_logits(session: Session, learner: Learner, features: Tensor) -> Tensor:
    """In the batches of the run, so that not even rounding differs from its own test."""
    parts = torch.split(features, session.run.batch_size)
    return torch.cat([learner.logits(part) for part in parts])


def trained_on(session: Session, learner: Learner, task: int) -> Pair:
    event = {"event": "features", "task": task, "loss": None}
    return features_of(session, learner.features, still_images(session, task), event)


def confusion(session: Session, logits: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
    """Counts of test images by true (row) and predicted (column) task, and of right answers."""
    starts = torch.tensor([task.start for task in session.tasks])
    rows, right = [], []
    for part, truth in zip(logits, labels, strict=True):
        answers = part.argmax(1).cpu()
        tasks = torch.searchsorted(starts, answers, right=True) - 1
        rows.append(torch.bincount(tasks, minlength=len(starts)).tolist())
        right.append(int((answers == truth.cpu()).sum()))
    return {"confusion": rows, "right": right}


def npos_of(session: Session) -> Npos:
    """The run's own way to make outliers; without VOR, what its data set would have with it."""
    kind = session.run.data.partition(":")[0]
    return (session.run.vor or SETTINGS[kind][1]).npos


def outliers_of(session: Session, task: int, features: Tensor) -> Tensor:
    noise = generator(session.run.seed, task, session.run.epochs, NOISE)  # no epoch has this number
    classes = len(session.tasks[task].classes)
    return synthesize(features, classes, npos_of(session), noise)


def boundary_of(session: Session, task: int, features: Tensor) -> Tensor:
    """The numbers of the features that outliers start from (Alg. 2)."""
    npos = npos_of(session)
    index = features.float() if npos.space == "raw" else F.normalize(features.float())
    count = max(1, round(npos.alpha * len(session.tasks[task].classes)))
    return farthest_from_others(index, npos.k - npos.self_neighbor, count)


def middle_energies(
    session: Session, middle: int, logits: list[Tensor], of_outliers: Tensor
) -> dict[str, Tensor]:
    """Of one task's head, by whose features it sees."""
    sizes = [len(task.classes) for task in session.tasks]

    def of(parts: list[Tensor]) -> Tensor:
        return energies(torch.cat(parts), sizes)[:, middle].cpu()

    kinds = {
        "own": logits[middle : middle + 1],
        "outliers": [of_outliers],
        "earlier": logits[:middle],
        "later": logits[middle + 1 :],
    }
    return {name: of(parts) for name, parts in kinds.items() if parts}


def histograms(found: dict[str, Tensor]) -> dict[str, Any]:
    """Counts in bins that all kinds share, and the mean of each kind."""
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
    session: Session, task: int, features: Tensor, labels: Tensor, outliers: Tensor
) -> dict[str, Any]:
    """Features, boundary and outliers on the first two principal components of the features."""
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
        "boundary": place(features[boundary_of(session, task, features)[:POINTS]]),
        "outliers": place(outliers[spread(len(outliers))]),
    }


def principal_axes(centered: Tensor) -> tuple[Tensor, list[float]]:
    """D, 2 directions of largest variance, and their shares of it."""
    _, values, rows = torch.linalg.svd(centered, full_matrices=False)
    axes = F.pad(rows[:2], (0, 0, 0, max(0, 2 - len(rows)))).T
    # A direction and its opposite are the same axis: let the largest part be positive.
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    squares = F.pad(values.double().square(), (0, 2))
    shares = squares[:2] / squares.sum().clamp(min=1e-30)
    return axes * largest.sign(), [round(float(share), 4) for share in shares]


def spread(count: int) -> Tensor:
    """At most POINTS numbers below `count`, evenly spread."""
    return torch.linspace(0, max(0, count - 1), min(count, POINTS)).long()


def macs(session: Session) -> int:
    """Multiply-accumulates of one image, as the learner computes."""
    run, arch = session.run, session.backbone.vit.arch
    side = run.transform.size // arch.patch_size
    seen = replace(arch, grid=(side, side))
    sizes = [len(task.classes) for task in session.tasks]
    learner, _ = grown(run.method, run.options, sizes, VisionTransformer, seen)
    return inference_macs(learner, seen)
