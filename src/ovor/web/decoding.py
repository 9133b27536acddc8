"""Images of strangers become what the network sees of them, each with a deadline, in two lanes.

An image first goes to the light lane, whose decoders give back at once, or are killed for, what
takes long. That waits for the heavy lane, whose decoders are few and give way to all others. So
nobody waits behind an image that was made to take long. A request has one image in a lane at a
time, or a few small ones, and requests take turns.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ovor.config import Transform
from ovor.data.modality import View
from ovor.web.decoder_pool import Gone, Lane, Nursery, Order
from ovor.web.errors import ImageFault
from ovor.web.form_reader import UploadedImage
from ovor.web.images import LIGHT_BYTES, UnusableImage, unreadable, wrong_size
from ovor.web.settings import Limits

LIGHT, HEAVY = 4, 2  # decoders
LIGHT_SECONDS = 1.0  # for an image; then it is a heavy one
WALL = 6  # times the seconds of a processor that a heavy image may take, on a busy machine
TOGETHER, TOGETHER_BYTES = 16, 2**18  # small images that one decoder gets at once
YIELDING = 10  # niceness of the heavy lane


class Decoders:
    """What turns files of strangers into what the network sees of them, or says what is wrong."""

    def __init__(self, limits: Limits, debug: bool = False) -> None:
        self.limits = limits
        self.nursery = Nursery(limits, debug)
        self.light = Lane(self.nursery, LIGHT, 0)
        self.heavy = Lane(self.nursery, HEAVY, YIELDING)

    async def start(self) -> None:
        """Start all decoders, so that no client waits for it."""
        await asyncio.gather(self.light.fill(), self.heavy.fill())

    def close(self) -> None:
        self.light.close()
        self.heavy.close()
        self.nursery.close()

    async def views(
        self,
        images: Sequence[UploadedImage],
        transform: Transform,
        when_heavy: Callable[[], None] = lambda: None,
    ) -> list[View | ImageFault]:
        """Return what the network sees of every image, or what is wrong with it.

        `when_heavy` is called before an image waits for the heavy lane, and may raise.
        """
        shape = (transform.size, transform.size, 3)
        found = await self.each(images, transform, int(np.prod(shape)), when_heavy)
        return [
            said if isinstance(said, ImageFault) else np.frombuffer(said, np.uint8).reshape(shape)
            for said in found
        ]

    async def faults(self, images: Sequence[UploadedImage]) -> list[ImageFault]:
        """Decode every image, and return what is wrong with those that cannot be used."""
        found = await self.each(images, None, 0, lambda: None)
        return [said for said in found if isinstance(said, ImageFault)]

    async def each(
        self,
        images: Sequence[UploadedImage],
        transform: Transform | None,
        view: int,
        when_heavy: Callable[[], None],
    ) -> list[bytes | ImageFault]:
        shown = None if transform is None else asdict(transform)
        most = max(1, min(TOGETHER, TOGETHER_BYTES // max(view, 1)))
        found: list[bytes | ImageFault] = []
        for start in range(0, len(images), most):
            some = images[start : start + most]
            replies = await self.some(some, Order([i.name for i in some], shown, view), when_heavy)
            for image, reply in zip(some, replies, strict=True):
                if isinstance(reply, UnusableImage):
                    fault = ImageFault(len(found), image.name, str(reply), reply.status)
                    found.append(fault)
                else:
                    found.append(reply)
        return found

    async def some(
        self, images: Sequence[UploadedImage], order: Order, when_heavy: Callable[[], None]
    ) -> list[bytes | UnusableImage]:
        """Return views of images, or what is wrong with them: small ones by one decoder."""
        files = [await content_of(image) for image in images]
        wrong = [self.wrong(image, file) for image, file in zip(images, files, strict=True)]
        if len(images) > 1 and sum(map(len, files)) <= TOGETHER_BYTES and not any(wrong):
            with suppress(Gone):
                async with self.light.decoder() as decoder:
                    replies = await decoder.ask(order, files, LIGHT_SECONDS)
                if not any(said.get("heavy") for said, _ in replies):
                    return [usable(*reply) for reply in replies]
        return [
            await self.one(image, content, replace(order, names=[image.name]), when_heavy)
            for image, content in zip(images, files, strict=True)
        ]

    async def one(
        self, image: UploadedImage, content: bytes, order: Order, when_heavy: Callable[[], None]
    ) -> bytes | UnusableImage:
        if wrong := self.wrong(image, content):
            return wrong
        if len(content) <= LIGHT_BYTES:
            with suppress(Gone):
                async with self.light.decoder() as decoder:
                    [(said, view)] = await decoder.ask(order, [content], LIGHT_SECONDS)
                if not said.get("heavy"):
                    return usable(said, view)
        when_heavy()
        seconds = self.limits.decoding_seconds
        order = replace(order, light=False, seconds=seconds)
        try:
            async with self.heavy.decoder() as decoder:
                [reply] = await decoder.ask(order, [content], WALL * seconds)
        except Gone:
            return unreadable(image.name, "it is broken, or takes too long to decode")
        return usable(*reply)

    def wrong(self, image: UploadedImage, content: bytes) -> UnusableImage | None:
        return wrong_size(image.name, max(image.size, len(content)), self.limits)


async def content_of(image: UploadedImage) -> bytes:
    """Return the file's content; of one that is gone, nothing."""
    if isinstance(image.content, bytes):
        return image.content
    try:
        return await asyncio.to_thread(image.content.read_bytes)
    except OSError:
        return b""


def usable(said: dict[str, Any], view: bytes) -> bytes | UnusableImage:
    return UnusableImage(int(said["status"]), str(said["error"])) if said else view
