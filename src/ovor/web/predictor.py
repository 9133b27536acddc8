"""The model that is served, a bounded queue of images, and the one thread that predicts them.

All images of a request are predicted by the same model, also where another takes over between the
two batches that they are in.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ovor.classifier.model import Classifier
from ovor.classifier.new import new_classifier
from ovor.classifier.prediction import Prediction, predict_views
from ovor.data.modality import Modality, View
from ovor.errors import OvorError
from ovor.web.errors import Refused
from ovor.web.settings import Settings

SLACK = 1e-6  # for sums of shares that are rounded
EVALUATION_BATCH = 8  # images of an evaluation predicted together: a request waits for few
FileStamp = tuple[int, int, int]  # changes when the file is replaced


@dataclass(frozen=True, eq=False)
class ServedModel:
    """What the model's file held at some time; versions count up in a server's life."""

    model: Classifier
    version: int
    stamp: FileStamp
    can_undo: bool = False
    """is the file as it was before its last change kept beside it?"""

    @property
    def empty(self) -> bool:
        """is nothing taught yet, as there was no file?"""
        return not self.model.tasks_

    @property
    def classes(self) -> list[str]:
        return [name for names in self.tasks for name in names]

    @property
    def tasks(self) -> list[tuple[str, ...]]:
        """the classes of every task"""
        return [task.classes for task in self.model.tasks_]

    @property
    def exact(self) -> bool:
        """can known classes get more images? Then no image of a lesson is set aside either"""
        return self.model.run().method == "analytic"


NO_FILE: FileStamp = (0, 0, 0)


def file_stamp(path: Path) -> FileStamp:
    """Return what tells a file from the one that takes its place, or that there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return NO_FILE
    return found.st_mtime_ns, found.st_size, found.st_ino


def load(settings: Settings, version: int, like: Classifier | None = None) -> ServedModel:
    """Load the model's file, or begin a model if there is none.

    A network that is the same in `like` is not loaded again.
    """
    stamp = file_stamp(settings.model)
    if stamp == NO_FILE:
        model = new_classifier(settings.backbone, device=settings.device)
        model.transform()
        return ServedModel(model, version, stamp)
    model = Classifier.load(
        settings.model, backbone=settings.backbone, device=settings.device, like=like
    )
    if like is not None:
        check_kind(model, like)
    return ready(model, version, stamp)


def check_kind(model: Classifier, old: Classifier) -> None:
    """Refuse a model of texts in the place of one of images: clients would not know."""
    if model.reads.many != old.reads.many:
        raise OvorError(
            f"The file is now of a model that reads {model.reads.many}, and this server is for "
            f"{old.reads.many}: start another for it."
        )


def ready(model: Classifier, version: int, stamp: FileStamp) -> ServedModel:
    """Predict once, so that no client waits for what that sets up."""
    predict_views(model, [model.reads.blank(model.transform())])
    return ServedModel(model, version, stamp, model.can_undo)


@dataclass(frozen=True, eq=False)
class Answer:
    """What the model says of an image, and the features that it says it by."""

    prediction: Prediction
    features: Tensor  # p


Predicted = Future[tuple[ServedModel, list[Answer]]]


@dataclass(eq=False)
class Ticket:
    """The images of one request in the queue, and their answers as they are found."""

    views: Sequence[View]
    made_for: ServedModel
    """the model whose input size the views have"""
    served: ServedModel | None = None
    """the model that predicts them, chosen when the first image is taken up"""
    answers: list[Answer] = field(default_factory=list)
    """of the first images: one thread takes them in their order"""
    future: Predicted = field(default_factory=Future)

    def put(self, answer: Answer) -> None:
        assert self.served is not None
        self.answers.append(answer)
        if len(self.answers) == len(self.views):
            self.future.set_result((self.served, self.answers))

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


Item = tuple[Ticket, View]  # one image


class Predictor:
    def __init__(self, served: ServedModel, limit: int) -> None:
        self.served = served
        self.limit = limit
        self.waiting = 0  # images with a place in the queue, decoded or not yet
        self.aside = 0  # images of requests that wait for a large one to be decoded
        self.threads = cores()
        self.requests: deque[Item] = deque()
        self.evaluations: deque[Item] = deque()
        self.changed = threading.Condition()
        self.ending = False
        self.thread = threading.Thread(target=self.work, name="predictor", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Predict what is in the queue, then end the thread."""
        with self.changed:
            self.ending = True
            self.changed.notify()
        if self.thread.is_alive():
            self.thread.join()

    def reserve(self, images: int) -> None:
        """Take places in the queue, before any work is done for the images."""
        with self.changed:
            if self.waiting + images > self.limit:
                many = self.served.model.reads.many
                sentence = f"Too many {many} wait to be predicted: try again in a moment."
                raise Refused(429, sentence, retry_after=1)
            self.waiting += images

    def release(self, images: int) -> None:
        with self.changed:
            self.waiting -= images

    def set_aside(self, images: int) -> None:
        """Give the places back to others, while the request waits for what takes long."""
        with self.changed:
            if self.aside + images > self.limit:
                sentence = "Too many large images wait to be decoded: try again in a moment."
                raise Refused(429, sentence, retry_after=5)
            self.waiting -= images
            self.aside += images

    def return_to_queue(self, images: int) -> None:
        with self.changed:
            self.waiting += images
            self.aside -= images

    def predict(self, views: Sequence[View], made_for: ServedModel) -> Predicted:
        """Queue images that have their places."""
        return self.enter(self.requests, views, made_for)

    def predict_when_idle(self, views: Sequence[View], made_for: ServedModel) -> Predicted:
        """Queue images behind those of all requests; they need no places."""
        return self.enter(self.evaluations, views, made_for)

    def enter(self, queue: deque[Item], views: Sequence[View], made_for: ServedModel) -> Predicted:
        ticket = Ticket(views, made_for)
        ticket.future.set_running_or_notify_cancel()  # a client that gives up stops nobody else
        with self.changed:
            if self.ending:
                ticket.fail(RuntimeError("the server is stopping"))
            else:
                queue.extend((ticket, view) for view in views)
                self.changed.notify()
        return ticket.future

    def swap(self, served: ServedModel) -> None:
        """Let another model predict what is taken up from now on; requests begun keep theirs."""
        self.served = served

    def work(self) -> None:
        while batch := self.next_batch():
            if torch.get_num_threads() != self.threads:
                torch.set_num_threads(self.threads)
            groups: dict[ServedModel, list[Item]] = {}
            for ticket, view in batch:
                ticket.served = ticket.served or self.choose(ticket)
                groups.setdefault(ticket.served, []).append((ticket, view))
            for served, items in groups.items():
                predict_batch(served, items)

    def choose(self, ticket: Ticket) -> ServedModel:
        """Return the newest model, unless it would have seen other views.

        That happens where somebody puts a file of another backbone in the model's place.
        """
        now, then = self.served, ticket.made_for
        return now if now is then or seen_by(now.model) == seen_by(then.model) else then

    def next_batch(self) -> list[Item]:
        """Wait for images; return none when the server stops and all are predicted."""
        with self.changed:
            self.changed.wait_for(lambda: self.requests or self.evaluations or self.ending)
            if self.requests:
                batch = take(self.requests, self.served.model.reads)
                self.waiting -= len(batch)
                return batch
            return take(self.evaluations, self.served.model.reads, EVALUATION_BATCH)


def take(queue: deque[Item], reads: Modality, at_most: int | None = None) -> list[Item]:
    """Take as many items as go through the network together: one, or more that are short."""
    batch: list[Item] = []
    room = 1.0
    while queue and len(batch) < (at_most or reads.at_once):
        room -= reads.share(queue[0][1])
        if batch and room < -SLACK:
            break
        batch.append(queue.popleft())
    return batch


def seen_by(model: Classifier) -> dict[str, Any]:
    """Return all that a view depends on, but for the item."""
    return model.reads.described(model.transform())


def predict_batch(served: ServedModel, items: list[Item]) -> None:
    """Predict images of one or several requests in one pass through the network."""
    try:
        views = [view for _, view in items]
        features = served.model.features(np.stack(views)).cpu()
        short = list(map(served.model.reads.shortened, views))
        found = answers(served.model, features, short)
    except Exception as error:  # such as a full memory: these fail, the next may not
        for ticket, _ in items:
            ticket.fail(error)
        return
    for (ticket, _), answer in zip(items, found, strict=True):
        ticket.put(answer)


def answers(model: Classifier, features: Tensor, shortened: Sequence[bool]) -> list[Answer]:
    """Return what a model says of items by their features (n, p); which it saw in part is told."""
    classes, scores = model.classes_, model.judged(features.to(model.learner().device))
    return [
        Answer(Prediction(classes, probabilities, float(margin), short), own)
        for probabilities, margin, own, short in zip(
            *scores, features.clone(), shortened, strict=True
        )
    ]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lesson_threads() -> int:
    """Return how many threads a lesson gets; the rest predicts meanwhile."""
    return max(1, cores() // 2)
