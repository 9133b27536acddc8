"""What a model of exact sums says beyond its classes: the unknown, and how sure it is."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ovor.classifier.calibration import Calibration, calibrated
from ovor.classifier.collect import Collected
from ovor.classifier.digests import Digests
from ovor.classifier.lesson_report import lesson_report
from ovor.classifier.rejection import DistanceJudge
from ovor.data.task_data import Lesson
from ovor.errors import OvorError
from ovor.learners.analytic import Analytic
from ovor.learners.discriminant import Discriminant, Mixture
from ovor.learners.moments import AT_ONCE, FEATURE_STEPS, Moments
from ovor.learners.novelty import DOUBT, Novelty, halved, whole

HALVED = ("novelty.weights", "novelty.axes")  # in half precision in files, with scales
PARTS = {"novelty": Novelty, "calibration": Calibration}
DOUBTS = ("gains", "constants", "claimed", "doubt")  # what older models lack of distances


@dataclass(frozen=True, eq=False)
class Exact:
    """What judges the answers of a model of exact sums."""

    novelty: Novelty
    calibration: Calibration
    digests: Digests | None = None

    @property
    def doubts(self) -> bool:
        """Whether it counts how little the classes claim an image, as all do but older models."""
        return bool(self.novelty.doubt > 0)

    def judge(self, false_alarms: float) -> DistanceJudge:
        """Return the judge that calls that share of images of known classes unknown."""
        return DistanceJudge(self.novelty, self.calibration, false_alarms)

    def state(self) -> dict[str, Tensor]:
        """Return all numbers by name."""
        kept = vars(self.novelty).items()
        own = {f"novelty.{n}": x for n, x in kept if self.doubts or n not in DOUBTS}
        for name in HALVED:
            own[name], own[f"{name}.scales"] = halved(own[name])
        own |= {f"calibration.{name}": x for name, x in vars(self.calibration).items()}
        if self.digests is not None:
            own |= {f"digests.{name}": x for name, x in self.digests.state().items()}
        return own

    @classmethod
    def of_state(cls, state: dict[str, Tensor], width: int, classes: int) -> "Exact":
        """Return what `state` was made from; raise ValueError if it does not fit the model."""
        found: dict[str, Any] = {}
        if any(f"{name}.scales" not in state or name not in state for name in HALVED):
            raise ValueError("the distances are missing")
        state = state | {name: whole(state[name], state[f"{name}.scales"]) for name in HALVED}
        if not {"novelty.leading", "novelty.others"} & state.keys():
            # Before they were kept apart, the axes had them in them.
            axes = state["novelty.axes"]
            state |= {
                "novelty.leading": torch.ones(axes.shape[-1]),
                "novelty.others": torch.zeros(()),
            }
        if not {f"novelty.{name}" for name in DOUBTS} & state.keys():
            nothing = (torch.zeros(2), torch.zeros(classes), torch.zeros(()), torch.zeros(()))
            state |= {f"novelty.{n}": x for n, x in zip(DOUBTS, nothing, strict=True)}
        for part, kind in PARTS.items():
            names = [f"{part}.{field.name}" for field in fields(kind)]
            if any(name not in state for name in names):
                raise ValueError(f"{part} is missing")
            found[part] = kind(*(state[name].double() for name in names))
        novelty = found["novelty"]
        shapes = [tuple(x.shape) for x in vars(novelty).values()]
        axes = novelty.axes.shape[-1]
        if shapes != [
            (width, classes),
            (width,),
            (classes,),
            (classes,) * 2,
            (width, axes),
            (axes,),
            (),
            (),
            (),
            (2,),
            (classes,),
            (),
            (),
        ]:
            raise ValueError("the distances do not fit")
        empty = Calibration.empty().state()
        if {n: x.shape for n, x in vars(found["calibration"]).items()} != {
            n: x.shape for n, x in empty.items()
        }:
            raise ValueError("the histograms do not fit")
        parts = [f"digests.{name}" for name in ("digests", "rows")]
        if any(name in state for name in parts):
            if any(name not in state for name in parts):
                raise ValueError("half of the digests is missing")
            kept = {name.removeprefix("digests."): state[name] for name in parts}
            found["digests"] = Digests.of_state(kept)
        return cls(**found)


@dataclass(frozen=True, eq=False)
class Solved:
    """A head solved from sums, with what judging by leave-one-out takes."""

    mixture: Mixture
    plain: Discriminant
    """with the ridge of classes of one size, by which the unknown is told"""
    novelty: Novelty


def for_distances(head: Discriminant) -> Discriminant:
    """Return the discriminants that distances are measured by.

    Their ridge does not grow with the smallest class, as that of the head does: one image of a new
    class would change all distances, and those of earlier images would no longer say what is far.
    """
    unequal = head.scatter.inequality
    if unequal < 1 + 1e-9:
        return head
    return Discriminant.of(head.scatter, head.spectrum, head.ridge / unequal)


def solved(learner: Analytic, moments: Moments, memory: Exact | None = None) -> Solved:
    """Give the learner these sums and the head that follows from them, or leave it as it was.

    What is unknown goes on to be told as before, `memory`, whose histogram is of that.
    """
    doubt = DOUBT if memory is None or memory.doubts else 0.0
    before = learner.moments, learner.weights, learner.bias
    try:
        learner.moments = moments
        mixture = learner.solve()
        plain = for_distances(mixture.discriminant)
        return Solved(mixture, plain, Novelty.of(plain, doubt))
    except BaseException as error:
        learner.moments = before[0]
        learner.set_head(*before[1:])
        if type(error).__name__ == "_LinAlgError":  # torch's name for it
            raise OvorError(
                "The sums do not add up any more, as some of these were never learned: give those "
                "that were."
            ) from error
        raise


def judged(
    now: Solved,
    found: Collected,
    lesson: Lesson,
    rows: Tensor,
    names: list[str],
    past: Calibration,
    again: list[int],
) -> tuple[Calibration, dict[str, Any]]:
    """Return the calibration after a lesson, and what the lesson says of itself.

    `again` are the numbers of images that are learned more than once: their copies would judge.
    """
    counts = now.mixture.discriminant.scatter.counts
    numbers = torch.tensor(found.numbers, dtype=torch.int64)
    able = counts[rows[numbers]] > 1  # a class of one image has no mean without it
    numbers, features = numbers[able], found.kept()[able]
    of_them = rows[numbers]
    shares = torch.zeros(0, len(names), dtype=torch.double)
    calibration = past
    if len(numbers):
        logits, distances = without_each(now, features, of_them)
        alike = 1 / counts[of_them]  # every class counts the same
        old = 1 - float(found.moments.counts.sum()) / float(counts.sum())
        calibration = past.with_lesson(
            distances, logits, of_them, alike / alike.mean(), max(old, 0.0)
        )
        shares = calibrated(logits, *calibration.confidence()).exp()
    single = torch.isin(numbers, torch.tensor(again, dtype=torch.int64), invert=True)
    numbers, of_them, shares = numbers[single], of_them[single], shares[single]
    where = [lesson.images.called(i) for i in numbers.tolist()]
    learned = torch.ones(len(rows), dtype=torch.bool)
    learned[found.left_out] = False  # whose classes are as they were
    taught = torch.unique(rows[learned]).tolist()
    report = lesson_report(shares, of_them, names, counts.tolist(), where, taught)
    report["reads"] = lesson.images.reads.many
    return calibration, report | ({"repeated": len(again)} if again else {})


def without_each(now: Solved, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and distances of learned images as if each had not been learned."""
    logits, distances, head = [], [], now.mixture.discriminant
    for steps, of_them in zip(
        torch.split(features, AT_ONCE), torch.split(labels, AT_ONCE), strict=True
    ):
        some = steps.double() / FEATURE_STEPS
        squares = head.spectrum.squares(head.apart(some, of_them))
        logits.append(now.mixture.without(some, of_them, squares))
        distances.append(now.novelty.without(now.plain, some, of_them, squares))
    return torch.cat(logits), torch.cat(distances)
