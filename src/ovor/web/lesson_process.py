"""A lesson, in a process of its own: the server goes on predicting, and a crash stays here.

What to learn comes as a line of JSON on standard input, which the server then keeps open: when it
is closed, the server is gone, and this process ends. Reports go to standard output, as JSON lines.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ovor.config import Run
from ovor.errors import in_words
from ovor.events import (
    Event,
    FeaturesExtracted,
    HeadStep,
    ImagesTested,
    MeansUpdated,
    RunBegins,
    TrainStep,
)
from ovor.experiments.progress import WORK, work_per_image
from ovor.web.words import for_clients

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier
    from ovor.data.task_data import Lesson

REPORT_SECONDS = 0.1  # between two of them


class Reporter:
    """Writes reports to the server: the fields of a lesson that have changed."""

    def __init__(self, pipe: BinaryIO) -> None:
        self.pipe = pipe

    def __call__(self, **report: Any) -> None:
        self.pipe.write(json.dumps(report).encode() + b"\n")
        self.pipe.flush()


class Meter:
    """Listens to a lesson, and reports which share of the work is done, not too often."""

    def __init__(self, report: Reporter, run: Run) -> None:
        self.report, self.run = report, run
        self.done, self.total = 0, 1
        self.last = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunBegins):
            task = event.task
            passes = work_per_image(self.run) if event.epochs[task] else WORK[MeansUpdated]
            self.total = event.train_images[task] * passes + event.test_images[task]
        if not isinstance(
            event, TrainStep | HeadStep | FeaturesExtracted | MeansUpdated | ImagesTested
        ):
            return
        self.done += WORK[type(event)] * event.images
        if time.monotonic() - self.last < REPORT_SECONDS:
            return
        self.last = time.monotonic()
        doing = "measuring" if isinstance(event, ImagesTested) else "learning"
        if isinstance(event, TrainStep | HeadStep | FeaturesExtracted):
            doing += f", epoch {event.epoch + 1} of {self.run.epochs}"
        self.report(progress=round(min(1.0, self.done / self.total), 4), doing=doing)


def main() -> None:
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that what libraries print is no report
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_server, daemon=True).start()
    report = Reporter(pipe)
    try:
        learn(order, report)
    except Exception as error:
        report(error=for_clients(error, Path(order["model"])), detail=in_words(error))
        if order["debug"]:
            raise
        sys.exit(1)


def end_with_server() -> None:
    """Wait until standard input is closed; then kill this process and its children."""
    # Not by sys.stdin: processes that load images would inherit its lock, and it would be held.
    while os.read(0, 4096):
        pass
    os.killpg(os.getpid(), signal.SIGKILL)


def learn(order: dict[str, Any], report: Reporter) -> None:
    """Teach the model that an order names, and save it; the file changes at once or not at all."""
    import torch

    from ovor.classifier.lock import check_finished, locked
    from ovor.data.task_data import read_lesson

    torch.set_num_threads(order["threads"])
    path, images = Path(order["model"]), [Path(image) for image in order["images"]]
    with locked(path):
        check_finished(path)
        model = opened(order, path)
        usual = {"epochs": model.epochs, "workers": model.workers}
        # Its images are few and near: processes that load them would only be more to end.
        model.set_params(epochs=order["epochs"] or model.epochs, workers=0)
        exact = model.run().method == "analytic"
        before, known = model.tasks_, model.classes_.tolist()
        lesson = read_lesson(
            images,
            order["labels"],
            known,
            rename={},
            skip_known=False,
            more=exact,
            yes=order["yes"],
            reads=model.reads,
        )
        report(state="learning", doing="learning", notes=list(lesson.notes))
        model.learn_task(lesson, Path(order["checkpoint"]), Meter(report, model.run()))
        more = len(model.tasks_) == len(before)  # of known classes alone: no lesson of its own
        # All of it before saving: who is killed after that has learned, and cannot say so.
        report(
            state="saving",
            doing="saving",
            progress=1.0,
            lesson=None if more else len(model.tasks_),
            accuracy=model.report_["expected"] if model.report_ else model.tasks_[-1].accuracy,
            report=model.report_,
            validation=[] if exact else held_out(model, lesson),
            mark=model.about().lesson,
        )
        model.set_params(**usual)
        model.save(path)


def opened(order: dict[str, Any], path: Path) -> "Classifier":
    """Return the model of the file, or a new one where the server began without."""
    from ovor.classifier.model import Classifier
    from ovor.classifier.new import new_classifier

    if order["new"] and not path.exists():
        return new_classifier(order["backbone"], device=order["device"]).at(path)
    return Classifier.load(path, backbone=order["backbone"], device=order["device"])


def held_out(model: "Classifier", lesson: "Lesson") -> list[int]:
    """Return the numbers of the images that the model's last lesson was not learned from."""
    from ovor.classifier.fit import split_validation  # brings Fabric, which is slow to import

    seed = (model.run().seed, len(model.tasks_) - 1)
    train, held = split_validation(lesson, model.hold_out, seed, 0)
    return [] if held is train else [int(lesson.images.items[i].name) for i in held.indices]


if __name__ == "__main__":
    main()
