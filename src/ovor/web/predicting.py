"""Predictions: a bounded queue of images, and one thread that answers them, many at a time.

A request is answered by one model, whichever takes over while its images are in two batches.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ovor.classifier.prediction import BATCH, Answers
from ovor.web.served import Served

LOW = 8  # images of an exam that are looked at together: a request then waits for few
View = NDArray[np.uint8]


class Full(Exception):  # noqa: N818
    """More images than may wait."""


@dataclass(eq=False)
class Ask:
    """The images of a request, and the answers as they come."""

    views: Sequence[View]
    made_for: Served
    """whose size of input the views have"""
    served: Served | None = None
    """who answers, once the first image is taken up"""
    future: Future[tuple[Served, Answers]] = field(default_factory=Future)
    answers: dict[int, tuple[NDArray[np.float64], float]] = field(default_factory=dict)

    def put(self, position: int, chances: NDArray[np.float64], margin: float) -> None:
        assert self.served is not None
        self.answers[position] = chances, margin
        if len(self.answers) == len(self.views):
            rows = [self.answers[i] for i in range(len(self.views))]
            found = Answers(np.stack([row for row, _ in rows]), np.array([m for _, m in rows]))
            self.future.set_result((self.served, found))

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


Item = tuple[Ask, int]  # one image


class Predictor:
    def __init__(self, served: Served, limit: int) -> None:
        self.served = served
        self.limit = limit
        self.waiting = 0  # images with a place in the queue, decoded or not yet
        self.threads = cores()
        self.urgent: deque[Item] = deque()
        self.patient: deque[Item] = deque()
        self.changed = threading.Condition()
        self.ending = False
        self.thread = threading.Thread(target=self.work, name="predictor", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """What is in the queue is answered; returns when the thread is gone."""
        with self.changed:
            self.ending = True
            self.changed.notify()
        if self.thread.is_alive():
            self.thread.join()

    def reserve(self, images: int) -> None:
        """Places in the queue, before any work is done for them."""
        with self.changed:
            if self.waiting + images > self.limit:
                raise Full
            self.waiting += images

    def release(self, images: int) -> None:
        with self.changed:
            self.waiting -= images

    def ask(self, views: Sequence[View], made_for: Served) -> Future[tuple[Served, Answers]]:
        """For images that have their places."""
        return self.enter(self.urgent, views, made_for)

    def ask_later(self, views: Sequence[View], made_for: Served) -> Future[tuple[Served, Answers]]:
        """When nobody else asks; takes no place."""
        return self.enter(self.patient, views, made_for)

    def enter(
        self, queue: deque[Item], views: Sequence[View], made_for: Served
    ) -> Future[tuple[Served, Answers]]:
        ask = Ask(views, made_for)
        ask.future.set_running_or_notify_cancel()  # who gives up waiting stops nobody else
        with self.changed:
            if self.ending:
                ask.fail(RuntimeError("the server is stopping"))
            else:
                queue.extend((ask, position) for position in range(len(views)))
                self.changed.notify()
        return ask.future

    def swap(self, served: Served) -> None:
        """Requests from now on are answered by this one; those begun keep theirs."""
        self.served = served

    def work(self) -> None:
        while batch := self.next_batch():
            if torch.get_num_threads() != self.threads:
                torch.set_num_threads(self.threads)
            groups: dict[Served, list[Item]] = {}
            for ask, position in batch:
                ask.served = ask.served or self.choose(ask)
                groups.setdefault(ask.served, []).append((ask, position))
            for served, items in groups.items():
                answer(served, items)

    def choose(self, ask: Ask) -> Served:
        """The newest; unless it takes another size of input, as another's file in its place may."""
        now = self.served
        return now if now.model.transform() == ask.made_for.model.transform() else ask.made_for

    def next_batch(self) -> list[Item]:
        """Empty at the end."""
        with self.changed:
            self.changed.wait_for(lambda: self.urgent or self.patient or self.ending)
            if self.urgent:
                batch = [self.urgent.popleft() for _ in range(min(BATCH, len(self.urgent)))]
                self.waiting -= len(batch)
                return batch
            return [self.patient.popleft() for _ in range(min(LOW, len(self.patient)))]


def answer(served: Served, items: list[Item]) -> None:
    try:
        found = served.model.answer_views(np.stack([ask.views[i] for ask, i in items]))
    except Exception as error:  # such as a full memory: these fail, the next may not
        for ask, _ in items:
            ask.fail(error)
        return
    for (ask, position), chances, margin in zip(items, *found, strict=True):
        if not ask.future.done():
            ask.put(position, chances, float(margin))


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_for_learning() -> int:
    """Threads of a lesson; the rest answers meanwhile."""
    return max(1, cores() // 2)
