"""All that a running server holds: the served model, lessons, evaluation and metrics."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from ovor.data.modality import Modality
from ovor.errors import in_words
from ovor.web.errors import Refused
from ovor.web.evaluation import Evaluation
from ovor.web.inbox import Inbox
from ovor.web.lessons import Lessons
from ovor.web.metrics import Metrics
from ovor.web.predictor import NO_FILE, FileStamp, Predictor, ServedModel, file_stamp, load
from ovor.web.scratch import Scratch
from ovor.web.settings import Settings
from ovor.web.sight import Sight
from ovor.web.upload import MemoryBudget

WATCH_SECONDS = 2  # between looks at the model's file
log = logging.getLogger("ovor.web")


class Service:
    def __init__(self, settings: Settings) -> None:
        """Load the model, or raise an error that says why it cannot be served."""
        limits = settings.limits
        fitting = min(limits.images_per_prediction, settings.queue)  # more could never be taken
        self.limits = replace(limits, images_per_prediction=fitting)
        self.settings = settings
        self.predictor = Predictor(load(settings, 1), settings.queue)
        self.sight = Sight(self.limits, settings.debug, self.reads)
        self.evaluation = Evaluation(settings.evaluation, self.predictor, self.sight)
        self.inbox = Inbox(settings.inbox, self.limits, self.predictor, self.sight)
        self.metrics = Metrics()
        self.lessons = Lessons(
            settings,
            self.predictor,
            self.take_over,
            self.evaluation.keep,
            self.inbox.drop,
            lambda state: self.metrics.lessons.labels(state).inc(),
        )
        self.budget = MemoryBudget(limits.request_bytes)
        self.disk = MemoryBudget(2 * limits.request_bytes)  # of uploads that are not whole yet
        self.scratch = Scratch()
        self.stopping = False
        self.changing = asyncio.Lock()  # one change of the model at a time
        self.unloadable: FileStamp | None = None  # the last file that could not be loaded
        self.watching: asyncio.Task[None] | None = None
        self.show_gauges()

    @property
    def reads(self) -> Modality:
        """What it can be asked about: the same as long as the server runs."""
        return self.predictor.served.model.reads

    def show_gauges(self) -> None:
        gauge, predictor = self.metrics.gauge, self.predictor
        gauge("ovor_queue_images", "Images or texts that wait", lambda: predictor.waiting)
        gauge("ovor_model_version", "Which model answers", lambda: predictor.served.version)
        gauge("ovor_classes", "Classes that it knows", lambda: len(predictor.served.classes))
        gauge("ovor_inbox_images", "Images or texts that wait to be named", lambda: len(self.inbox))

    async def start(self) -> None:
        await self.sight.start()
        self.predictor.start()
        self.after_change(self.predictor.served)
        self.watching = asyncio.create_task(self.watch())

    async def close(self) -> None:
        for task in (self.watching, self.evaluation.running, self.inbox.running):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self.lessons.finish()
        await asyncio.to_thread(self.predictor.stop)
        await asyncio.to_thread(self.sight.close)
        self.inbox.close()
        self.scratch.close()

    def check_running(self) -> None:
        if self.stopping:
            raise Refused(503, "The server is stopping: try again when it is back.", retry_after=30)

    def check_taught(self) -> None:
        """Refuse to predict with a model that knows nothing."""
        if self.predictor.served.empty:
            raise Refused(409, "Nothing is taught yet: teach it something first (POST /lessons).")

    async def take_over(self) -> ServedModel:
        """Load the file as it is now, and predict with it from the next batch on."""
        async with self.changing:
            old = self.predictor.served
            if file_stamp(self.settings.model) == old.stamp:
                return old
            new = await asyncio.to_thread(load, self.settings, old.version + 1, old.model)
            known = new.tasks[: len(old.tasks)] == old.tasks
            if not known:  # another model: its history is not known
                self.evaluation.results.clear()
            self.after_change(new)
            return new

    def after_change(self, new: ServedModel) -> None:
        """Predict with a model from the next batch on, and look again at what waits."""
        if new is not self.predictor.served:
            log.info("version %d: %d classes", new.version, len(new.classes))
        self.predictor.swap(new)
        self.evaluation.begin()
        self.inbox.begin(new)

    async def watch(self) -> None:
        """Take over a file that another process, such as `ovor learn`, has changed."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self.lessons.current:  # it takes the file over itself
                continue
            try:
                stamp = file_stamp(self.settings.model)
                # Where the file is gone, what is loaded goes on.
                if stamp not in (self.predictor.served.stamp, self.unloadable, NO_FILE):
                    self.unloadable = stamp  # said once
                    await self.take_over()
            except Exception as error:
                log.error("the new model is not taken over: %s", in_words(error))
