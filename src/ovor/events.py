"""What happens in a run or a lesson, as typed values. Whoever listens matches on their type.

A result folder keeps those of `RECORDED`, one line of JSON each, whose "event" names the type. An
older version may have recorded less of one: what is missing has the default given here.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import nan
from typing import Any


@dataclass(frozen=True)
class RunBegins:
    """A run, or what is left of it, begins at this task and epoch."""

    task: int = 0
    epoch: int = 0
    train_images: tuple[int, ...] = ()  # by task
    test_images: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    reads: str = "images"
    """what is learned, in the words of people"""


@dataclass(frozen=True)
class TrainStep:
    """One batch has trained what the method learns (Alg. 1, line 2)."""

    task: int
    epoch: int
    images: int
    loss: float


@dataclass(frozen=True)
class HeadStep:
    """One batch of features and outliers has tightened the head (Alg. 1, line 4)."""

    task: int
    epoch: int
    images: int
    loss: float


@dataclass(frozen=True)
class FeaturesExtracted:
    """Features of training images were computed, for outliers (Alg. 1, line 3)."""

    task: int
    epoch: int
    images: int


@dataclass(frozen=True)
class MeansUpdated:
    """Training images were seen once more after the epochs, for class means and the like."""

    task: int
    images: int


@dataclass(frozen=True)
class ImagesTested:
    """Features of test images were computed, after a task."""

    task: int
    images: int


@dataclass(frozen=True)
class EpochEnds:
    task: int = 0
    epoch: int = 0
    loss: float = nan
    seconds: float = nan  # of the run so far


@dataclass(frozen=True)
class TaskEnds:
    task: int = 0
    accuracy: tuple[float, ...] = ()  # on every task so far
    accuracy_task_id_given: tuple[float, ...] = ()
    seconds: float = nan  # of the run so far


@dataclass(frozen=True)
class RunEnds:
    metrics: dict[str, float]


@dataclass(frozen=True)
class WorkerStarts:
    """A run of a grid has come to a machine."""

    node: str = ""
    pid: int = 0


@dataclass(frozen=True)
class ImageChecked:
    """One image of a lesson was opened, to see whether it can be."""

    total: int


@dataclass(frozen=True)
class ImagesPredicted:
    images: int
    total: int


@dataclass(frozen=True)
class Note:
    """A sentence for whoever watches."""

    text: str


Event = (
    RunBegins
    | TrainStep
    | HeadStep
    | FeaturesExtracted
    | MeansUpdated
    | ImagesTested
    | EpochEnds
    | TaskEnds
    | RunEnds
    | WorkerStarts
    | ImageChecked
    | ImagesPredicted
    | Note
)
Recorded = RunBegins | EpochEnds | TaskEnds | RunEnds | WorkerStarts
Listener = Callable[[Event], None]

RECORDED: dict[str, type[Recorded]] = {
    "begin": RunBegins,
    "epoch": EpochEnds,
    "task": TaskEnds,
    "finished": RunEnds,
    "worker": WorkerStarts,
}


def silent(event: Event) -> None:
    """Ignore an event."""


def as_json(event: Recorded) -> dict[str, Any]:
    """Return an event as the object that a result folder keeps of it."""
    name = next(name for name, kind in RECORDED.items() if isinstance(event, kind))
    return {"event": name, **(event.metrics if isinstance(event, RunEnds) else asdict(event))}


def from_json(value: Any) -> Recorded | None:
    """Return what `as_json` wrote as an event; None for anything else."""
    if not isinstance(value, dict) or value.get("event") not in RECORDED:
        return None
    kind = RECORDED[value["event"]]
    if kind is RunEnds:
        return RunEnds({name: number for name, number in value.items() if name != "event"})
    known: dict[str, Any] = {
        field.name: tuple(own) if isinstance(own, list) else own
        for field in fields(kind)
        if (own := value.get(field.name)) is not None
    }
    return kind(**known)
