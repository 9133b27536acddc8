"""Lessons: one at a time, each in a process of its own that changes the model's file.

The server predicts with the old model until the new file is loaded. Whatever ends the process, the
file is the old one or the new one, whole.
"""

import asyncio
import json
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ovor.classifier.file import Description
from ovor.errors import in_words
from ovor.web.errors import ImageFault, Refused
from ovor.web.predictor import FileStamp, Predictor, ServedModel, cores, file_stamp, lesson_threads
from ovor.web.schemas import State
from ovor.web.settings import Settings

FINAL = ("done", "failed", "cancelled")
REPORT_BYTES = 2**22  # of a line of the process, at most
PATIENCE = 5  # seconds between asking a process to end and ending it
REMEMBERED = 100  # lessons that GET /tasks lists
log = logging.getLogger("ovor.web")


@dataclass(frozen=True)
class LessonRequest:
    """A lesson as a client has asked for it, checked."""

    folder: Path
    images: tuple[Path, ...]
    """files of the folder, called by their position in the request"""
    labels: tuple[str, ...]
    epochs: int | None
    keep_validation: bool
    """whether the server may keep the validation images, to evaluate later models on them"""
    left_out: tuple[ImageFault, ...] = ()

    @cached_property
    def classes(self) -> dict[str, int]:
        """how many images each class has"""
        return dict(sorted(Counter(self.labels).items()))


@dataclass(eq=False)
class Lesson:
    """A lesson as it goes on."""

    wanted: LessonRequest
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    state: State = "waiting"
    progress: float = 0.0
    doing: str = "waiting"
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    accuracy: float | None = None
    task: int | None = None
    validation: list[int] = field(default_factory=list)
    """positions in the request of the images that were held out for validation"""
    mark: str = ""
    """identifies the lesson in the file of a model that may learn more of known classes"""
    begun: float = field(default_factory=time.monotonic)
    learning_since: float | None = None
    over: float | None = None
    cancelling: bool = False
    listeners: int = 0
    process: Process | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, report: dict[str, Any]) -> None:
        """Set the fields that a line of the lesson's process reports."""
        vars(self).update(report)
        if self.state == "learning" and self.learning_since is None:
            self.learning_since = time.monotonic()

    def end(self, state: State, error: str | None = None) -> None:
        self.state, self.error, self.doing = state, error, state
        if state == "done":
            self.progress = 1.0
        else:
            self.task = self.accuracy = None  # which were reported before the model was saved
        self.over = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        if self.state in FINAL or self.learning_since is None or self.progress < 0.02:
            return None
        spent = time.monotonic() - self.learning_since
        return round(spent * (1 - self.progress) / self.progress, 1)

    def as_json(self) -> dict[str, Any]:
        """Return what GET /tasks/{task} responds."""
        return {
            "id": self.id,
            "state": self.state,
            "classes": [{"name": n, "images": k} for n, k in self.wanted.classes.items()],
            "progress": self.progress,
            "doing": self.doing,
            "seconds": round((self.over or time.monotonic()) - self.begun, 1),
            "seconds_left": self.seconds_left,
            "notes": self.notes,
            "images": [fault.as_json() for fault in self.wanted.left_out],
            "error": self.error,
            "accuracy": self.accuracy,
            "task": self.task,
        }


class Lessons:
    def __init__(
        self,
        settings: Settings,
        predictor: Predictor,
        take_over: Callable[[], Awaitable[ServedModel]],
        keep: Callable[[Sequence[tuple[str, bytes]]], None],
        count: Callable[[str], None],
    ) -> None:
        """Call `take_over` to serve the changed file, `keep` with validation images that clients
        leave to the server, and `count` with the state that a lesson has ended in."""
        self.settings, self.predictor = settings, predictor
        self.take_over, self.keep, self.count = take_over, keep, count
        self.by_id: dict[str, Lesson] = {}
        self.current: Lesson | None = None
        self.claimed = False  # a client sends a lesson, or one goes on
        self.running: asyncio.Task[None] | None = None

    def claim(self) -> None:
        """Refuse all other lessons from the first byte of this one on: two could fill the disk."""
        if self.claimed:
            left = self.current.seconds_left if self.current else None
            raise Refused(
                409,
                "Another lesson is going on: wait until it has ended, or cancel it.",
                retry_after=max(1, round(left or 5)),
            )
        self.claimed = True

    def release(self) -> None:
        self.claimed = False

    def find(self, number: str) -> Lesson:
        if number not in self.by_id:
            raise Refused(404, "There is no such task: GET /tasks lists them.")
        return self.by_id[number]

    def start(self, wanted: LessonRequest) -> Lesson:
        """Start a lesson that was claimed; it releases the claim when it ends."""
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
        self.current, self.claimed = None, False
        self.count(state)
        lesson.end(state, error)  # when all is as it says
        log.info("lesson %s: %s%s", lesson.id, state, f": {error}" if error else "")
        lesson.ended.set()

    async def outcome(self, lesson: Lesson) -> tuple[State, str | None]:
        try:
            stamp = file_stamp(self.settings.model)
            await self.attend(lesson)
            return await self.conclude(lesson, stamp)
        except Exception as error:
            if self.settings.debug:
                log.exception("lesson %s", lesson.id)
            return "failed", in_words(error)

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
            "debug": self.settings.debug,
        }

    async def conclude(self, lesson: Lesson, before: FileStamp) -> tuple[State, str | None]:
        """Judge by the file, as a process may be killed between writing it and saying so."""
        changed = file_stamp(self.settings.model) != before
        if changed and has_learned((await self.take_over()).model.about(), lesson):
            self.keep(await asyncio.to_thread(validation_images, lesson))
            return "done", None
        if lesson.cancelling:
            return "cancelled", None
        return "failed", lesson.error or how_it_died(lesson.process)


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


def how_it_died(process: Process | None) -> str:
    code = process.returncode if process else None
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return (
        f"The learning process ended {how}, perhaps for lack of memory: the model is as before; "
        "try again, with fewer images."
    )
