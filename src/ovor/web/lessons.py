"""Lessons: one at a time, each in a process of its own that changes the model's file.

The server answers with the old model until the new file is loaded. Whatever ends the process, the
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

from ovor.errors import in_words
from ovor.web.failures import Refused
from ovor.web.job import Job, Wanted
from ovor.web.predicting import Predictor, cores, share_for_learning
from ovor.web.schemas import State
from ovor.web.served import Mark, Served, mark_of
from ovor.web.settings import Settings

LINE = 2**22  # bytes of a report, at most
PATIENCE = 5  # seconds between asking a process to end and ending it
KEPT = 100  # ended lessons that are remembered
log = logging.getLogger("ovor.web")


class Lessons:
    def __init__(
        self,
        settings: Settings,
        predictor: Predictor,
        take_over: Callable[[], Awaitable[Served]],
        keep: Callable[[Sequence[tuple[str, bytes]]], None],
        count: Callable[[str], None],
    ) -> None:
        self.settings, self.predictor = settings, predictor
        self.take_over, self.keep, self.count = take_over, keep, count
        self.jobs: dict[str, Job] = {}
        self.current: Job | None = None
        self.claimed = False  # somebody sends one, or one goes on
        self.running: asyncio.Task[None] | None = None

    def claim(self) -> None:
        """From the first byte on, so that no two fill the disk."""
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

    def find(self, number: str) -> Job:
        if number not in self.jobs:
            raise Refused(404, "There is no such task: GET /tasks lists them.")
        return self.jobs[number]

    def start(self, wanted: Wanted) -> Job:
        """Of what is claimed; it releases itself."""
        job = Job(wanted)
        self.jobs[job.id] = self.current = job
        for old in list(self.jobs)[:-KEPT]:
            del self.jobs[old]
        self.running = asyncio.create_task(self.run(job))
        return job

    async def cancel(self, job: Job) -> None:
        """Returns when it has ended, one way or the other."""
        job.cancelling = True
        if job.process:
            end(job.process, signal.SIGTERM)
            try:
                await asyncio.wait_for(job.process.wait(), PATIENCE)
            except TimeoutError:
                end(job.process, signal.SIGKILL)
        await job.ended.wait()

    async def finish(self) -> None:
        """Returns when nothing is being learned."""
        if self.running:
            await asyncio.wait([self.running])

    async def run(self, job: Job) -> None:
        names = ", ".join(job.wanted.classes)
        log.info("lesson %s: learning %s", job.id, names)
        self.predictor.threads = max(1, cores() - share_for_learning())
        state, error = await self.outcome(job)
        self.predictor.threads = cores()
        await asyncio.to_thread(shutil.rmtree, job.wanted.folder, True)
        self.current, self.claimed = None, False
        self.count(state)
        job.end(state, error)  # when all is as it says
        log.info("lesson %s: %s%s", job.id, state, f": {error}" if error else "")
        job.ended.set()

    async def outcome(self, job: Job) -> tuple[State, str | None]:
        try:
            mark = mark_of(self.settings.model)
            await self.attend(job)
            return await self.conclude(job, mark)
        except Exception as error:
            if self.settings.debug:
                log.exception("lesson %s", job.id)
            return "failed", in_words(error)

    async def attend(self, job: Job) -> None:
        """Start the process, and listen to it until it is gone."""
        threads, debug = share_for_learning(), self.settings.debug
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ovor.web.lesson_process"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=None if debug else DEVNULL,
            env={
                **os.environ,
                "TMPDIR": str(job.wanted.folder),
                "OMP_NUM_THREADS": str(threads),
            },
            limit=LINE,
            start_new_session=True,  # Ctrl-C is for the server, which lets a lesson end
        )
        job.process = process
        if job.cancelling:  # while it was being started
            end(process, signal.SIGTERM)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(ConnectionError):
                process.stdin.write(json.dumps(self.order(job.wanted, threads)).encode() + b"\n")
                await process.stdin.drain()
            job.state, job.doing = "checking", "getting ready"
            async for line in process.stdout:
                job.hear(json.loads(line))
            await process.wait()
        finally:
            end(process, signal.SIGKILL)  # what it may have left, or it, if it talks nonsense
            process.stdin.close()

    def order(self, wanted: Wanted, threads: int) -> dict[str, Any]:
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

    async def conclude(self, job: Job, before: Mark) -> tuple[State, str | None]:
        """By the file, since a process may be killed between writing it and saying so."""
        if mark_of(self.settings.model) != before:
            task = (await self.take_over()).model.tasks_[-1]
            if task.classes == tuple(job.wanted.classes):
                job.task = job.task or len(self.predictor.served.model.tasks_)
                job.accuracy = task.accuracy
                self.keep(await asyncio.to_thread(set_aside, job))
                return "done", None
        if job.cancelling:
            return "cancelled", None
        return "failed", job.error or died(job.process)


def end(process: Process, how: signal.Signals) -> None:
    """With the processes that load its images: it leads a group of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def set_aside(job: Job) -> list[tuple[str, bytes]]:
    """Labels and images that the lesson did not learn from, if they are to be kept."""
    if not job.wanted.keep_set_aside:
        return []
    labels = {
        int(p.name): name for p, name in zip(job.wanted.images, job.wanted.labels, strict=True)
    }
    return [(labels[i], (job.wanted.folder / str(i)).read_bytes()) for i in job.aside]


def died(process: Process | None) -> str:
    code = process.returncode if process else None
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return (
        f"The learning process ended {how}, perhaps for lack of memory: the model is as before; "
        "try again, with fewer images."
    )
