"""A lesson, in a process of its own: the server goes on answering, and a crash stays here.

What to learn comes as a line of JSON on standard input, which the server then keeps open: when it
ends, the server is gone, and so is this process. What happens goes out as lines of JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

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

OFTEN = 0.1  # seconds between reports


class Reports:
    def __init__(self, pipe: BinaryIO) -> None:
        self.pipe = pipe

    def __call__(self, **report: Any) -> None:
        self.pipe.write(json.dumps(report).encode() + b"\n")
        self.pipe.flush()


class Meter:
    """Listens to a lesson; reports which part of the work is done, not too often."""

    def __init__(self, report: Reports, run: Any) -> None:
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
        if time.monotonic() - self.last < OFTEN:
            return
        self.last = time.monotonic()
        doing = "measuring" if isinstance(event, ImagesTested) else "learning"
        if isinstance(event, TrainStep | HeadStep | FeaturesExtracted):
            doing += f", epoch {event.epoch + 1} of {self.run.epochs}"
        self.report(progress=round(min(1.0, self.done / self.total), 4), doing=doing)


def main() -> None:
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no report
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=follow, daemon=True).start()
    report = Reports(pipe)
    try:
        learn(order, report)
    except Exception as error:
        report(error=in_words(error))
        if order["debug"]:
            raise
        sys.exit(1)


def follow() -> None:
    # Not through sys.stdin, whose lock processes that load images would inherit, held.
    while os.read(0, 4096):
        pass
    os.killpg(os.getpid(), signal.SIGKILL)  # with those processes


def learn(order: dict[str, Any], report: Reports) -> None:
    import torch

    from ovor.classifier.file import alone, check_finished
    from ovor.classifier.fit import parted
    from ovor.classifier.model import Classifier
    from ovor.data.task_data import read_lesson

    torch.set_num_threads(order["threads"])
    path, images = Path(order["model"]), [Path(image) for image in order["images"]]
    with alone(path):
        check_finished(path)
        model = Classifier.load(path, backbone=order["backbone"], device=order["device"])
        usual = {"epochs": model.epochs, "workers": model.workers}
        # Its images are few and near: processes that load them would only be more to end.
        model.set_params(epochs=order["epochs"] or model.epochs, workers=0)
        lesson = read_lesson(
            images, order["labels"], model.classes_.tolist(), rename={}, skip_known=False
        )
        report(state="learning", doing="learning", notes=list(lesson.notes))
        model.learn_lesson(lesson, Path(order["checkpoint"]), Meter(report, model.run()))
        number = len(model.tasks_) - 1
        train, held = parted(lesson, model.hold_out, (model.run().seed, number), 0)
        aside = [] if held is train else [lesson.images.items[i] for i in held.indices]
        report(state="saving", doing="saving", progress=1.0)
        model.set_params(**usual)
        model.save(path)
        report(saved=number + 1, accuracy=model.tasks_[-1].accuracy, aside=names(aside))


def names(images: list[Path]) -> list[int]:
    """The server numbers its files."""
    return [int(image.name) for image in images]


if __name__ == "__main__":
    main()
