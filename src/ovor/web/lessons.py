"""Lessons: one at a time, each in a process of its own that changes the model's file.

The server predicts with the old model until the new file is loaded. Whatever ends the process, the
file is the old one or the new one, whole.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from ovor.classifier.file import Description
from ovor.errors import in_words
from ovor.web.errors import Refused
from ovor.web.lesson import Lesson, LessonRequest
from ovor.web.predictor import FileStamp, Predictor, ServedModel, cores, file_stamp, lesson_threads
from ovor.web.schemas import State
from ovor.web.settings import Settings
from ovor.web.words import for_clients

REPORT_BYTES = 2**22  # of a line of the process, at most
PATIENCE = 5  # seconds between asking a process to end and ending it
REMEMBERED = 100  # lessons that GET /lessons lists
log = logging.getLogger("ovor.web")


class Lessons:
    def __init__(
        self,
        settings: Settings,
        predictor: Predictor,
        take_over: Callable[[], Awaitable[ServedModel]],
        keep: Callable[[Sequence[tuple[str, bytes]]], None],
        leave: Callable[[Sequence[str]], None],
        count: Callable[[str], None],
    ) -> None:
        """Call `take_over` to serve the changed file, `keep` with validation images that clients
        leave to the server, `leave` with images of the inbox that were learned, and `count` with
        the state that a lesson has ended in."""
        self.settings, self.predictor = settings, predictor
        self.take_over, self.keep, self.leave, self.count = take_over, keep, leave, count
        self.by_id: dict[str, Lesson] = {}
        self.current: Lesson | None = None
        self.running: asyncio.Task[None] | None = None

    def check_free(self) -> None:
        """Refuse what would change the model while a lesson does."""
        if self.current:
            raise Refused(
                409,
                "A lesson is going on: wait until it has ended, or cancel it.",
                retry_after=max(1, round(self.current.seconds_left or 5)),
            )

    def find(self, number: str) -> Lesson:
        if number not in self.by_id:
            raise Refused(404, "There is no such lesson: GET /lessons lists them.")
        return self.by_id[number]

    def start(self, wanted: LessonRequest) -> Lesson:
        """Start a lesson, if none goes on."""
        self.check_free()
        lesson = Lesson(wanted)
        self.by_id[lesson.id] = self.current = lesson
        for old in list(self.by_id)[:-REMEMBERED]:
            del self.by_id[old]
        self.running = asyncio.create_task(self.run(lesson))
        return lesson

    async def cancel(self, lesson: Lesson) -> None:
        """End a lesson's process, and return when the lesson has ended, one way or the other."""
        lesson.cancelling = True
        if lesson.process:
            send(lesson.process, signal.SIGTERM)
            try:
                await asyncio.wait_for(lesson.process.wait(), PATIENCE)
            except TimeoutError:
                send(lesson.process, signal.SIGKILL)
        await lesson.ended.wait()

    async def finish(self) -> None:
        """Return when nothing is being learned."""
        if self.running:
            await asyncio.wait([self.running])

    async def run(self, lesson: Lesson) -> None:
        names = ", ".join(lesson.wanted.classes)
        log.info("lesson %s: learning %s", lesson.id, names)
        self.predictor.threads = max(1, cores() - lesson_threads())
        state, error = await self.outcome(lesson)
        self.predictor.threads = cores()
        await asyncio.to_thread(shutil.rmtree, lesson.wanted.folder, True)
        self.current = None
        self.count(state)
        lesson.end(state, error)  # when all is as it says
        why = lesson.detail or error
        log.info("lesson %s: %s%s", lesson.id, state, f": {why}" if error else "")
        lesson.ended.set()

    async def outcome(self, lesson: Lesson) -> tuple[State, str | None]:
        try:
            stamp = file_stamp(self.settings.model)
            await self.attend(lesson)
            return await self.conclude(lesson, stamp)
        except Exception as error:
            lesson.detail = in_words(error)
            if self.settings.debug:
                log.exception("lesson %s", lesson.id)
            return "failed", for_clients(error, self.settings.model)

    async def attend(self, lesson: Lesson) -> None:
        """Start the lesson's process, and listen to it until it is gone."""
        threads, folder = lesson_threads(), str(lesson.wanted.folder)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ovor.web.lesson_process"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if self.settings.debug else DEVNULL,
            env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": str(threads)},
            limit=REPORT_BYTES,
            start_new_session=True,  # Ctrl-C is for the server, which lets a lesson end
        )
        lesson.process = process
        if lesson.cancelling:  # while it was being started
            send(process, signal.SIGTERM)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(ConnectionError):
                process.stdin.write(json.dumps(self.order(lesson.wanted, threads)).encode() + b"\n")
                await process.stdin.drain()
            lesson.state, lesson.doing = "checking", "getting ready"
            async for line in process.stdout:
                lesson.update(json.loads(line))
            await process.wait()
        finally:
            send(process, signal.SIGKILL)  # for its children, or for itself if it wrote nonsense
            process.stdin.close()

    def order(self, wanted: LessonRequest, threads: int) -> dict[str, Any]:
        """Return what the lesson's process is told."""
        return {
            "model": str(self.settings.model),
            "backbone": self.settings.backbone,
            "device": self.settings.device,
            "images": [str(path) for path in wanted.images],
            "labels": wanted.labels,
            "epochs": wanted.epochs,
            "checkpoint": str(wanted.folder / "checkpoint"),
            "threads": threads,
            "yes": wanted.yes,
            "new": self.predictor.served.empty,
            "debug": self.settings.debug,
        }

    async def conclude(self, lesson: Lesson, before: FileStamp) -> tuple[State, str | None]:
        """Judge by the file, as a process may be killed between writing it and saying so."""
        changed = file_stamp(self.settings.model) != before
        if changed and has_learned((await self.take_over()).model.about(), lesson):
            self.keep(await asyncio.to_thread(validation_images, lesson))
            await asyncio.to_thread(self.leave, lesson.wanted.inbox)
            return "done", None
        if lesson.cancelling:
            return "cancelled", None
        many = self.predictor.served.model.reads.many
        return "failed", lesson.error or how_it_died(lesson.process, many)


def has_learned(about: Description, lesson: Lesson) -> bool:
    """Tell whether a model is what a lesson has made of it."""
    if lesson.mark:
        return about.lesson == lesson.mark
    return about.tasks[-1].classes == tuple(lesson.wanted.classes)


def send(process: Process, sign: signal.Signals) -> None:
    """Send a signal to a lesson's process and its children, which are a process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, sign)


def validation_images(lesson: Lesson) -> list[tuple[str, bytes]]:
    """Return labels and images that the lesson did not learn from, if they may be kept."""
    if not lesson.wanted.keep_validation:
        return []
    labels = dict(zip((p.name for p in lesson.wanted.images), lesson.wanted.labels, strict=True))
    names = [str(index) for index in lesson.validation]
    return [(labels[name], (lesson.wanted.folder / name).read_bytes()) for name in names]


def how_it_died(process: Process | None, many: str) -> str:
    code = process.returncode if process else None
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return (
        f"The learning process ended {how}, perhaps for lack of memory: the model is as before; "
        f"try again, with fewer {many}."
    )
