"""What is forgotten: images set aside are asked about after every lesson, when nobody else asks.

They are those of a folder that the server was started with, and those that clients let it keep; the
latter are in memory alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ovor.data.task_data import from_folder
from ovor.errors import in_words
from ovor.web.pictures import Unusable, decoded
from ovor.web.predicting import LOW, Predictor, View
from ovor.web.served import Served
from ovor.web.settings import Limits

EACH = 20  # images of a class that are kept
TOTAL = 200_000_000  # bytes of all that are kept
Content = bytes | Path
log = logging.getLogger("ovor.web")


class Exams:
    def __init__(
        self, folder: Path | None, predictor: Predictor, decoders: Executor, limits: Limits
    ):
        self.predictor, self.decoders = predictor, decoders
        self.limits = replace(limits, image_bytes=2**62)  # the folder is our own
        found = from_folder(folder)[0] if folder else {}
        self.aside: dict[str, list[Content]] = {name: list(items) for name, items in found.items()}
        self.kept: dict[str, int] = {}  # of those that clients sent
        self.bytes = 0
        self.results: list[dict[str, Any]] = []
        self.running: asyncio.Task[None] | None = None

    def keep(self, images: Sequence[tuple[str, bytes]]) -> None:
        for name, content in images:
            if self.kept.get(name, 0) < EACH and self.bytes + len(content) <= TOTAL:
                self.kept[name] = self.kept.get(name, 0) + 1
                self.bytes += len(content)
                self.aside.setdefault(name, []).append(content)
        if images:
            self.begin()

    def begin(self) -> None:
        """With the model that answers now; one that goes on with an older model is given up."""
        if self.running:
            self.running.cancel()
        self.running = asyncio.create_task(self.run(self.predictor.served))

    async def run(self, served: Served) -> None:
        try:
            await self.examine(served)
        except Exception as error:  # such as a full memory: the server goes on without
            log.error("the exam failed: %s", in_words(error))

    async def examine(self, served: Served) -> None:
        names = served.classes
        asked = [(names.index(n), c) for n, cs in self.aside.items() if n in names for c in cs]
        if self.aside and not asked:
            log.warning("no image set aside is of a class that the model knows: no exam yet")
        truth: list[int] = []
        right: list[bool] = []
        for start in range(0, len(asked), LOW):
            some = asked[start : start + LOW]
            loop = asyncio.get_running_loop()
            read = await loop.run_in_executor(self.decoders, self.views, served, some)
            if not read:
                continue
            later = self.predictor.ask_later([view for _, view in read], served)
            by, found = await asyncio.wrap_future(later)
            if by is not served:  # another model has taken over, and will be examined
                return
            truth += [label for label, _ in read]
            right += (found.probabilities.argmax(1) == [label for label, _ in read]).tolist()
        if truth:
            self.note(served, np.array(truth), np.array(right))

    def views(self, served: Served, some: Sequence[tuple[int, Content]]) -> list[tuple[int, View]]:
        """What cannot be read is no part of the exam."""
        found = []
        for label, content in some:
            try:
                image = decoded(content, "", self.limits)
            except (Unusable, OSError):
                continue
            found.append((label, served.model.view(image)))
        return found

    def note(self, served: Served, truth: Any, right: Any) -> None:
        sizes = served.model.task_sizes_
        task_of = np.repeat(np.arange(len(sizes)), sizes)[truth]
        tasks = [
            {
                "task": int(task) + 1,
                "images": int((task_of == task).sum()),
                "accuracy": round(100 * float(right[task_of == task].mean()), 4),
            }
            for task in np.unique(task_of)
        ]
        lessons = len(sizes)
        self.results = [old for old in self.results if old["lessons"] < lessons]
        self.results.append({"lessons": lessons, "tasks": tasks})
