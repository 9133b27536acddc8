"""All that a running server holds: the served model, lessons, evaluation and metrics."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ovor.errors import in_words
from ovor.web.decoding import Decoders
from ovor.web.errors import Refused
from ovor.web.evaluation import Evaluation
from ovor.web.lessons import Lessons
from ovor.web.predictor import FileStamp, Predictor, ServedModel, file_stamp, load
from ovor.web.schemas import LimitsShown
from ovor.web.settings import Settings
from ovor.web.upload import MemoryBudget, Scratch

WATCH_SECONDS = 2  # between looks at the model's file
METHODS = ("GET", "POST", "DELETE")  # that are counted by name
log = logging.getLogger("ovor.web")


class Metrics:
    """What Prometheus reads: a registry of our own, labelled by the routes that there are."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter(
            "ovor_requests",
            "Requests by route, method and status",
            ("route", "method", "status"),
            registry=own,
        )
        self.seconds = Histogram(
            "ovor_prediction_seconds",
            "Seconds from a prediction's first byte to its answer",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=own,
        )
        self.images = Counter("ovor_images_predicted", "Images predicted", registry=own)
        self.lessons = Counter(
            "ovor_lessons", "Lessons that have ended, by state", ("state",), registry=own
        )
        for state in ("done", "failed", "cancelled"):
            self.lessons.labels(state)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        Gauge(name, about, registry=self.registry).set_function(read)

    def count(self, route: str | None, method: str, status: int) -> None:
        """Count a request; clients cannot add labels of their own, which would fill the memory."""
        method = method if method in METHODS else "other"
        self.requests.labels(route or "other", method, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Service:
    def __init__(self, settings: Settings) -> None:
        """Load the model, or raise an error that says why it cannot be served."""
        limits = settings.limits
        fitting = min(limits.images_per_prediction, settings.queue)  # more could never be taken
        self.limits = replace(limits, images_per_prediction=fitting)
        self.settings = settings
        self.decoders = Decoders(self.limits, settings.debug)
        self.predictor = Predictor(load(settings, 1), settings.queue)
        self.evaluation = Evaluation(settings.evaluation, self.predictor, self.decoders)
        self.metrics = Metrics()
        self.lessons = Lessons(
            settings,
            self.predictor,
            self.take_over,
            self.evaluation.keep,
            lambda state: self.metrics.lessons.labels(state).inc(),
        )
        self.budget = MemoryBudget(limits.request_bytes)
        self.scratch = Scratch()
        self.stopping = False
        self.loading = asyncio.Lock()
        self.unloadable: FileStamp | None = None  # the last file that could not be loaded
        self.watching: asyncio.Task[None] | None = None
        self.show_gauges()

    def show_gauges(self) -> None:
        gauge, predictor = self.metrics.gauge, self.predictor
        gauge("ovor_queue_images", "Images that wait", lambda: predictor.waiting)
        gauge("ovor_model_version", "Which model answers", lambda: predictor.served.version)
        gauge("ovor_classes", "Classes that it knows", lambda: len(predictor.served.classes))

    async def start(self) -> None:
        await self.decoders.start()
        self.predictor.start()
        self.evaluation.begin()
        self.watching = asyncio.create_task(self.watch())

    async def close(self) -> None:
        for task in (self.watching, self.evaluation.running):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self.lessons.finish()
        await asyncio.to_thread(self.predictor.stop)
        await asyncio.to_thread(self.decoders.close)
        self.scratch.close()

    def check_running(self) -> None:
        if self.stopping:
            raise Refused(503, "The server is stopping: try again when it is back.", retry_after=30)

    async def take_over(self) -> ServedModel:
        """Load the file as it is now, and predict with it from the next batch on."""
        async with self.loading:
            old = self.predictor.served
            if file_stamp(self.settings.model) == old.stamp:
                return old
            new = await asyncio.to_thread(load, self.settings, old.version + 1)
            self.predictor.swap(new)
            if new.tasks[: len(old.tasks)] != old.tasks:  # another model: its history is not known
                self.evaluation.results.clear()
            self.evaluation.begin()
            log.info("version %d: %d classes", new.version, len(new.classes))
            return new

    async def watch(self) -> None:
        """Take over a file that another process, such as `ovor learn`, has changed."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self.lessons.current:  # it takes the file over itself
                continue
            try:
                stamp = file_stamp(self.settings.model)
                if stamp not in (self.predictor.served.stamp, self.unloadable):
                    self.unloadable = stamp  # said once
                    await self.take_over()
            except FileNotFoundError:  # what is loaded goes on
                continue
            except Exception as error:
                log.error("the new model is not taken over: %s", in_words(error))

    def model_json(self) -> dict[str, Any]:
        """Return what GET /model responds."""
        served = self.predictor.served
        model = served.model
        return {
            "name": self.settings.model.name,
            "method": model.run().name,
            "exact": served.exact,
            "backbone": model.network().name,
            "drawing": model.network().name == "embedded",
            "image_size": model.transform().size,
            "megabytes": round(served.stamp[1] / 1e6, 3),
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
            "exams": self.evaluation.results,
            "limits": {name: getattr(self.limits, name) for name in LimitsShown.model_fields},
            "learning": self.lessons.current.id if self.lessons.current else None,
        }
