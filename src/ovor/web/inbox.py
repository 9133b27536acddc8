"""Images that the model was not sure about: they wait here to be named by somebody who may teach.

In memory, and on the disk only where a folder was given for that. There are never more, of no more
bytes, than the limits say: the oldest go first. After each change of the model they are judged
again, and those that it is sure about by now leave.
"""

import asyncio
import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ovor.data.modality import Words
from ovor.errors import in_words
from ovor.web.errors import ImageFault, Refused
from ovor.web.form_reader import UploadedImage
from ovor.web.inbox_folder import InboxFolder
from ovor.web.likeness import groups_of
from ovor.web.predictor import EVALUATION_BATCH, Answer, Predictor, ServedModel, answers
from ovor.web.settings import Limits
from ovor.web.sight import Sight

# Confidences are calibrated: at the first, one answer in four is wrong.
DOUBTFUL, SURE = 0.75, 0.9
log = logging.getLogger("ovor.web")


@dataclass(eq=False)
class Kept:
    """An image that waits."""

    id: str
    image: UploadedImage
    answer: Answer | None = None
    """None: it was found in the folder, and is not judged yet"""
    by: ServedModel | None = None
    """the model that gave the answer"""


class Inbox:
    def __init__(
        self, folder: Path | None, limits: Limits, predictor: Predictor, sight: Sight
    ) -> None:
        self.limits, self.predictor, self.sight = limits, predictor, sight
        self.folder = InboxFolder.opened(folder, self.words) if folder and limits.inbox else None
        self.by_id: dict[str, Kept] = {}  # the oldest first
        self.bytes = 0
        self.lock = threading.RLock()
        self.running: asyncio.Task[None] | None = None
        self.grouped: tuple[list[tuple[str, ServedModel | None]], list[int]] = [], []
        for key, name in (self.folder.names() if self.folder else {}).items():
            assert self.folder is not None
            path = self.folder.path / key
            self.add(Kept(key, UploadedImage(name, path, path.stat().st_size)))
        self.shrink()

    @property
    def words(self) -> Words:
        """What people call what waits here."""
        return self.predictor.served.model.reads.words

    def __len__(self) -> int:
        return len(self.by_id)

    def close(self) -> None:
        if self.folder:
            self.folder.close()

    # --- what comes, and what goes

    def consider(
        self,
        images: Sequence[UploadedImage],
        found: Sequence[Answer | ImageFault],
        served: ServedModel,
    ) -> None:
        """Keep those images of a prediction whose answer is not sure."""
        if not self.limits.inbox:
            return
        doubtful = [
            (image, said)
            for image, said in zip(images, found, strict=True)
            if isinstance(said, Answer) and is_doubtful(said)
        ]
        try:
            with self.lock:
                for image, said in doubtful:
                    self.put(image, said, served)
                if doubtful:
                    self.shrink()
        except OSError as error:  # a prediction is answered all the same
            log.error("the inbox cannot keep what was asked about: %s", in_words(error))

    def put(self, image: UploadedImage, said: Answer, served: ServedModel) -> None:
        """Keep an image; the same again is the newest, and there once."""
        assert isinstance(image.content, bytes)
        key = digest(image.content)
        known = self.by_id.pop(key, None)
        if known is not None:
            self.bytes -= known.image.size
        content: bytes | Path = image.content
        if self.folder:
            content = known.image.content if known else self.folder.put(key, image.content)
        own = Answer(said.prediction, said.features.clone())  # without the rest of its batch
        self.add(Kept(key, UploadedImage(image.name, content, image.size), own, served))

    def add(self, kept: Kept) -> None:
        self.by_id[kept.id] = kept
        self.bytes += kept.image.size

    def shrink(self) -> None:
        """Let the oldest go until the rest is within the limits, and list the rest."""
        keys = list(self.by_id)
        while keys and (
            len(self.by_id) > self.limits.inbox or self.bytes > self.limits.inbox_bytes
        ):
            self.remove(keys.pop(0))
        if self.folder:
            self.folder.write_list({key: kept.image.name for key, kept in self.by_id.items()})

    def remove(self, key: str) -> None:
        kept = self.by_id.pop(key, None)
        if kept is not None:
            self.bytes -= kept.image.size
            if self.folder:
                self.folder.remove(key)

    def drop(self, keys: Sequence[str]) -> None:
        """Throw images away; those that are not there have gone before."""
        with self.lock:
            for key in keys:
                self.remove(key)
            if keys:
                self.shrink()

    def find(self, key: str) -> Kept:
        with self.lock:
            if key not in self.by_id:
                raise Refused(
                    404, f"There is no such {self.words.one} in the inbox: GET /inbox lists them."
                )
            return self.by_id[key]

    # --- what is shown of them

    def as_json(self) -> dict[str, Any]:
        """Return what GET /inbox responds."""
        with self.lock:
            judged = [kept for kept in reversed(self.by_id.values()) if kept.answer]
        kept_in = "folder" if self.folder else "memory" if self.limits.inbox else "nothing"
        numbers = self.groups(judged)
        images = [
            shown(kept, number, self.words.one)
            for kept, number in zip(judged, numbers, strict=True)
        ]
        groups = [
            {
                "group": number,
                "images": [image["id"] for image in images if image["group"] == number],
                "likeliest": most(
                    image["likeliest"] for image in images if image["group"] == number
                ),
            }
            for number in sorted(set(numbers))
        ]
        return {"kept": kept_in, "most": self.limits.inbox, "images": images, "groups": groups}

    def groups(self, judged: Sequence[Kept]) -> list[int]:
        """Return the number of the group of each image."""
        rows = [kept.answer.features for kept in judged if kept.answer]
        if len({len(row) for row in rows}) > 1:  # by several models: not all are judged again yet
            return list(range(1, len(rows) + 1))
        made_of = [(kept.id, kept.by) for kept in judged]
        if self.grouped[0] != made_of:
            found = groups_of(torch.stack(rows), self.predictor.served.model) if rows else []
            self.grouped = made_of, found
        return self.grouped[1]

    # --- judging again

    def begin(self, served: ServedModel) -> None:
        """Judge all images by another model, and give up judging by an older one."""
        if self.running:
            self.running.cancel()
        self.running = asyncio.create_task(self.judge_again(served))

    async def judge_again(self, served: ServedModel) -> None:
        try:
            if served.empty:
                return
            with self.lock:
                waiting = [kept for kept in self.by_id.values() if kept.by is not served]
            easy = [kept for kept in waiting if same_features(kept, served)]
            await asyncio.to_thread(self.by_features, easy, served)
            rest = [kept for kept in waiting if kept.by is not served]
            for start in range(0, len(rest), EVALUATION_BATCH):
                await self.by_pixels(rest[start : start + EVALUATION_BATCH], served)
        except Exception as error:  # such as a full memory: the server goes on
            log.error("the inbox is not judged again: %s", in_words(error))

    def by_features(self, waiting: Sequence[Kept], served: ServedModel) -> None:
        """Judge images whose features are as they were."""
        rows = [kept.answer.features for kept in waiting if kept.answer]
        if rows:
            short = [kept.answer.prediction.shortened for kept in waiting if kept.answer]
            self.judged(waiting, answers(served.model, torch.stack(rows), short), served)

    async def by_pixels(self, waiting: Sequence[Kept], served: ServedModel) -> None:
        """Judge images anew, when no request waits."""
        images = [kept.image for kept in waiting]
        seen = await self.sight.views(images, served.model)
        broken = [k for k, view in zip(waiting, seen, strict=True) if isinstance(view, ImageFault)]
        self.drop([kept.id for kept in broken])
        views = [view for view in seen if not isinstance(view, ImageFault)]
        if views:
            by, found = await asyncio.wrap_future(self.predictor.predict_when_idle(views, served))
            self.judged([kept for kept in waiting if kept not in broken], found, by)

    def judged(self, waiting: Sequence[Kept], found: Sequence[Answer], served: ServedModel) -> None:
        """Note new answers; what the model is sure of leaves."""
        for kept, answer in zip(waiting, found, strict=True):
            kept.answer, kept.by = Answer(answer.prediction, answer.features.clone()), served
        self.drop([kept.id for kept in waiting if kept.answer and is_sure(kept.answer)])


def is_doubtful(said: Answer) -> bool:
    """Tell whether somebody should look at an answer: unknown, or wrong one time in four."""
    return said.prediction.unknown or said.prediction.confidence < DOUBTFUL


def is_sure(said: Answer) -> bool:
    return not said.prediction.unknown and said.prediction.confidence >= SURE


def same_features(kept: Kept, served: ServedModel) -> bool:
    """Tell whether an image would have the same features by another model."""
    if kept.by is None or not (kept.by.exact and served.exact):
        return False
    one, other = kept.by.model, served.model
    same_network = one.network().sha256 == other.network().sha256
    return same_network and one.settled().essence == other.settled().essence


def digest(content: bytes) -> str:
    """Return the id of an image, which is its file's name too."""
    return hashlib.sha256(content).hexdigest()[:32]


def shown(kept: Kept, number: int, one: str) -> dict[str, Any]:
    assert kept.answer is not None
    said = kept.answer.prediction
    return {
        "id": kept.id,
        one: kept.image.name,
        "label": said.label,
        "likeliest": said.likeliest,
        "confidence": round(said.confidence, 6),
        "group": number,
    }


def most(names: Any) -> str:
    """Return the most frequent name."""
    return str(Counter(names).most_common(1)[0][0])
