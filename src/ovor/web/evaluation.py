"""How much is forgotten: after every lesson the model is evaluated on images it did not learn from.

They come from a folder that the server was started with, and from validation images that clients
let it keep; the latter are in memory alone. They are predicted when no request waits.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ovor.errors import in_words
from ovor.web.errors import ImageFault
from ovor.web.form_reader import UploadedImage
from ovor.web.predictor import EVALUATION_BATCH, Predictor, ServedModel
from ovor.web.sight import Sight

KEPT_PER_CLASS = 20  # images of clients
KEPT_BYTES = 200_000_000  # of all images of clients
log = logging.getLogger("ovor.web")


class Evaluation:
    def __init__(self, folder: Path | None, predictor: Predictor, sight: Sight) -> None:
        self.predictor, self.sight = predictor, sight
        reads = predictor.served.model.reads
        found = reads.labelled(folder, None, "test")[0] if folder else {}
        self.images = {name: [as_sent(item) for item in items] for name, items in found.items()}
        self.kept: dict[str, int] = {}  # images of clients, by class
        self.kept_bytes = 0
        self.results: list[dict[str, Any]] = []
        self.running: asyncio.Task[None] | None = None

    def keep(self, images: Sequence[tuple[str, bytes]]) -> None:
        """Keep images of clients with their labels, as far as there is room, and evaluate again."""
        for name, content in images:
            kept = self.kept.get(name, 0)
            if kept < KEPT_PER_CLASS and self.kept_bytes + len(content) <= KEPT_BYTES:
                self.kept[name] = kept + 1
                self.kept_bytes += len(content)
                self.images.setdefault(name, []).append(UploadedImage("", content))
        if images:
            self.begin()

    def rename(self, old: str, new: str) -> None:
        """Know the images and results of a class by its new name."""
        if old in self.images:
            self.images[new] = [*self.images.pop(old), *self.images.get(new, [])]
        self.kept[new] = self.kept.pop(old, 0)
        for exam in self.results:
            for known in exam["classes"]:
                known["name"] = new if known["name"] == old else known["name"]

    def begin(self) -> None:
        """Evaluate the model that is served now, and give up the evaluation of an older one."""
        if self.running:
            self.running.cancel()
        self.running = asyncio.create_task(self.run(self.predictor.served))

    async def run(self, served: ServedModel) -> None:
        try:
            await self.evaluate(served)
        except Exception as error:  # such as a full memory: the server goes on without
            log.error("the exam failed: %s", in_words(error))

    async def evaluate(self, served: ServedModel) -> None:
        known = set(served.classes)
        asked = [(n, image) for n, images in self.images.items() if n in known for image in images]
        if self.images and not asked:
            log.warning("no image set aside is of a class that the model knows: no exam yet")
        results: list[tuple[str, bool]] = []
        for start in range(0, len(asked), EVALUATION_BATCH):
            names, images = zip(*asked[start : start + EVALUATION_BATCH], strict=True)
            seen = await self.sight.views(images, served.model)
            read = {i: view for i, view in enumerate(seen) if not isinstance(view, ImageFault)}
            if not read:
                continue
            later = self.predictor.predict_when_idle(list(read.values()), served)
            by, found = await asyncio.wrap_future(later)
            if by is not served:  # another model has taken over, and will be evaluated
                return
            results += [
                (names[i], said.prediction.likeliest == names[i])
                for i, said in zip(read, found, strict=True)
            ]
        if results:
            self.record(served, results)

    def record(self, served: ServedModel, results: Sequence[tuple[str, bool]]) -> None:
        """Add how a model did on every class, in place of what was known of this many lessons."""
        asked, right = Counter(name for name, _ in results), Counter(n for n, ok in results if ok)
        classes = [
            {"name": name, "lesson": number, "images": asked[name], "right": right[name]}
            for number, names in enumerate(served.tasks, 1)
            for name in names
            if asked[name]
        ]
        lessons = sum(bool(names) for names in served.tasks)  # without those that were forgotten
        self.results = [old for old in self.results if old["lessons"] < lessons]
        self.results.append({"lessons": lessons, "groups": by_lesson(classes), "classes": classes})


def as_sent(item: Path | str) -> UploadedImage:
    """Return an image or a text as if somebody had sent it."""
    return UploadedImage("", item if isinstance(item, Path) else item.encode("utf-8", "replace"))


def by_lesson(classes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how a model did on the classes of each lesson."""
    found = []
    for lesson in sorted({known["lesson"] for known in classes}):
        own = [known for known in classes if known["lesson"] == lesson]
        images, right = (sum(known[key] for known in own) for key in ("images", "right"))
        accuracy = round(100 * right / images, 4)
        found.append({"lesson": lesson, "images": images, "right": right, "accuracy": accuracy})
    return found
