"""Writing of strangers becomes what the network sees of it, in threads of the server.

Nothing has to be decoded but UTF-8, and of a text only so much is tokenised as the network reads, a
piece at a time: so no text takes long, and no process has to be killed for one. A request has one
long text, or some short ones, under way at a time, and requests take turns.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ovor.classifier.model import Classifier
from ovor.data.images import Content
from ovor.data.modality import Modality, View
from ovor.errors import OvorError
from ovor.web.errors import ImageFault
from ovor.web.form_reader import UploadedImage
from ovor.web.settings import Limits

THREADS = 2
TOGETHER, TOGETHER_BYTES = 64, 2**14  # short texts that a thread takes at once
MOST_BYTES = 2**21  # of a file that are read: more than is looked at
T = TypeVar("T")


class Reading:
    """What turns texts of strangers into what the network sees of them, or says what is wrong."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.threads = ThreadPoolExecutor(THREADS, "reading")

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)

    async def views(
        self, items: Sequence[UploadedImage], model: Classifier
    ) -> list[View | ImageFault]:
        """Return what the network sees of every text, or what is wrong with it."""
        return await self.each(items, lambda item: model.view(self.text(item, model.reads)))

    async def faults(self, items: Sequence[UploadedImage], reads: Modality) -> list[ImageFault]:
        """Read every text, and return what is wrong with those that cannot be used."""
        found = await self.each(items, lambda item: self.text(item, reads))
        return [said for said in found if isinstance(said, ImageFault)]

    async def run(self, do: Callable[[], T]) -> T:
        """Do something in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, do)

    async def each(
        self, items: Sequence[UploadedImage], do: Callable[[UploadedImage], T]
    ) -> list[T | ImageFault]:
        found: list[T | ImageFault] = []
        for some in together(items):
            first = len(found)
            found += await self.run(
                lambda some=some, first=first: [  # type: ignore[misc]
                    attempt(item, first + place, do) for place, item in enumerate(some)
                ]
            )
        return found

    def text(self, item: UploadedImage, reads: Modality) -> str:
        """Return the text of an item, or raise what is wrong with it."""
        if item.size > self.limits.image_bytes:
            most = self.limits.image_bytes
            raise OvorError(f"{item.name} is larger than {most:,} bytes: make it shorter.")
        content = item.content
        if not isinstance(content, bytes):
            try:
                with content.open("rb") as file:
                    content = file.read(MOST_BYTES)
            except OSError:  # such as one of an inbox that somebody has removed
                content = b""
        return str(reads.decoded(Content(item.name, content)))


def attempt(item: UploadedImage, place: int, do: Callable[[UploadedImage], T]) -> T | ImageFault:
    try:
        return do(item)
    except OvorError as error:
        return ImageFault(place, item.name, str(error))


def together(items: Sequence[UploadedImage]) -> Iterator[list[UploadedImage]]:
    """Yield items in groups of a few bytes; a long one is alone."""
    some: list[UploadedImage] = []
    size = 0
    for item in items:
        if some and (size + item.size > TOGETHER_BYTES or len(some) == TOGETHER):
            yield some
            some, size = [], 0
        some.append(item)
        size += item.size
    if some:
        yield some
