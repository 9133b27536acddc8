"""All that a running server has: the model that answers, the lesson that goes on, the exams."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ovor.errors import in_words
from ovor.web.exams import Exams
from ovor.web.failures import Refused
from ovor.web.lessons import Lessons
from ovor.web.metrics import Metrics
from ovor.web.predicting import Predictor
from ovor.web.scratch import Scratch
from ovor.web.served import Mark, Served, load, mark_of
from ovor.web.settings import Settings
from ovor.web.uploads import Budget

WATCH = 2  # seconds between looks at the model's file
log = logging.getLogger("ovor.web")


class Service:
    def __init__(self, settings: Settings) -> None:
        """With the model loaded, or an error that says why not."""
        limits = settings.limits
        fitting = min(limits.images_per_prediction, settings.queue)  # more could never be taken
        self.limits = replace(limits, images_per_prediction=fitting)
        self.settings = settings
        self.predictor = Predictor(load(settings, 1), settings.queue)
        self.decoders = ThreadPoolExecutor(2, thread_name_prefix="decoder")
        self.exams = Exams(settings.exam, self.predictor, self.decoders, limits)
        self.metrics = Metrics()
        self.lessons = Lessons(
            settings,
            self.predictor,
            self.take_over,
            self.exams.keep,
            lambda state: self.metrics.lessons.labels(state).inc(),
        )
        self.budget = Budget(limits.request_bytes)
        self.scratch = Scratch()
        self.stopping = False
        self.loading = asyncio.Lock()
        self.failed: Mark | None = None  # a file that could not be loaded
        self.watching: asyncio.Task[None] | None = None
        self.show_gauges()

    def show_gauges(self) -> None:
        gauge, predictor = self.metrics.gauge, self.predictor
        gauge("ovor_queue_images", "Images that wait", lambda: predictor.waiting)
        gauge("ovor_model_version", "Which model answers", lambda: predictor.served.version)
        gauge("ovor_classes", "Classes that it knows", lambda: len(predictor.served.classes))

    async def start(self) -> None:
        self.predictor.start()
        self.exams.begin()
        self.watching = asyncio.create_task(self.watch())

    async def close(self) -> None:
        for task in (self.watching, self.exams.running):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self.lessons.finish()
        await asyncio.to_thread(self.predictor.stop)
        self.decoders.shutdown()
        self.scratch.close()

    def check_running(self) -> None:
        if self.stopping:
            raise Refused(503, "The server is stopping: try again when it is back.", retry_after=30)

    async def take_over(self) -> Served:
        """Load the file as it is now; it answers from the next batch on."""
        async with self.loading:
            old = self.predictor.served
            if mark_of(self.settings.model) == old.mark:
                return old
            new = await asyncio.to_thread(load, self.settings, old.version + 1)
            self.predictor.swap(new)
            if new.tasks[: len(old.tasks)] != old.tasks:  # another model: its history is not known
                self.exams.results.clear()
            self.exams.begin()
            log.info("version %d: %d classes", new.version, len(new.classes))
            return new

    async def watch(self) -> None:
        """Another process, such as `ovor learn`, may change the file."""
        while True:
            await asyncio.sleep(WATCH)
            if self.lessons.current:  # it will see to that
                continue
            try:
                mark = mark_of(self.settings.model)
                if mark not in (self.predictor.served.mark, self.failed):
                    self.failed = mark  # said once
                    await self.take_over()
            except FileNotFoundError:  # what is loaded goes on
                continue
            except Exception as error:
                log.error("the new model is not taken over: %s", in_words(error))

    def model(self) -> dict[str, Any]:
        """What GET /model says."""
        served = self.predictor.served
        model, limits = served.model, self.limits
        return {
            "name": self.settings.model.name,
            "method": model.run().name,
            "backbone": model.network().name,
            "drawing": model.network().name == "embedded",
            "image_size": model.transform().size,
            "megabytes": round(served.mark[1] / 1e6, 3),
            "version": served.version,
            "tasks": [
                {
                    "task": number,
                    "held_out": task.held_out,
                    "held_out_accuracy": task.accuracy,
                    "classes": [
                        {"name": name, "images": images}
                        for name, images in zip(task.classes, task.images, strict=True)
                    ],
                }
                for number, task in enumerate(model.tasks_, 1)
            ],
            "exams": self.exams.results,
            "limits": {
                "image_bytes": limits.image_bytes,
                "pixels": limits.pixels,
                "images_per_prediction": limits.images_per_prediction,
                "images_per_task": limits.images_per_task,
                "request_bytes": limits.request_bytes,
            },
            "learning": self.lessons.current.id if self.lessons.current else None,
        }
