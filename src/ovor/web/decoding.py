"""Decoders as the server sees them: two lanes of processes, each image with a deadline.

An image first goes to the light lane, whose decoders give back at once, or are killed for, what
takes long. That waits for the heavy lane, whose decoders are few and give way to all others. So
nobody waits behind an image that was made to take long. A request has one image in a lane at a
time, and requests take turns.
"""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

import numpy as np

from ovor.classifier.prediction import View
from ovor.config import Transform
from ovor.web.decoder_process import COMMAND, FORK, KILL, SIZE, SIZES
from ovor.web.errors import ImageFault, Refused
from ovor.web.images import LIGHT_BYTES, UnusableImage, check_size, unreadable
from ovor.web.settings import Limits
from ovor.web.upload import UploadedImage

LIGHT, HEAVY = 4, 2  # decoders
LIGHT_SECONDS = 1.0  # for an image; then it is a heavy one
WALL = 6  # times the seconds of a processor that a heavy image may take, on a busy machine
START_SECONDS = 60  # for a decoder to be there, on a busy machine
REPLY_BYTES = 2**16  # at most, without the view
YIELDING = 10  # niceness of the heavy lane
# Large blocks go back to the system when they are free, instead of being kept for the next image.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
log = logging.getLogger("ovor.web")


class Gone(Exception):  # noqa: N818
    """A decoder ended, by its limits or by a broken file, or was too slow and is ended."""


class Decoder:
    """One process, and the socket to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.process = 0

    async def meet(self) -> None:
        """Wait until the process is there, and has told its number."""
        async with asyncio.timeout(START_SECONDS):
            self.process = SIZE.unpack(await self.receive(SIZE.size))[0]

    async def ask(
        self, order: dict[str, Any], content: bytes, view: int, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Return the reply to an order, and the view of so many bytes if the reply is no error."""
        asked = json.dumps(order).encode()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                sizes = SIZES.pack(len(asked), len(content))
                await loop.sock_sendall(self.connection, sizes + asked)
                await loop.sock_sendall(self.connection, content)
                size = SIZE.unpack(await self.receive(SIZE.size))[0]
                if size > REPLY_BYTES:
                    raise Gone
                reply: dict[str, Any] = json.loads(await self.receive(size))
                return reply, await self.receive(0 if reply else view)
        except (TimeoutError, OSError, ValueError) as error:
            raise Gone from error

    async def receive(self, size: int) -> bytes:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            count = await asyncio.get_running_loop().sock_recv_into(self.connection, left)
            if not count:
                raise Gone("the process has ended")
            left = left[count:]
        return bytes(content)


class Nursery:
    """The process that forks decoders; started again should it ever end."""

    def __init__(self, limits: Limits, debug: bool) -> None:
        self.limits, self.debug = limits, debug
        self.start()

    def start(self) -> None:
        own, given = socket.socketpair()
        with given:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ovor.web.decoder_process", json.dumps(asdict(self.limits))],
                stdin=given.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=None if self.debug else subprocess.DEVNULL,
                env={**os.environ, **MALLOC, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        self.control = own

    async def decoder(self, niceness: int) -> Decoder:
        try:
            own, given = socket.socketpair()
            own.setblocking(False)
            decoder = Decoder(own)
            with given:
                self.send(COMMAND.pack(FORK, niceness), [given.fileno()])
            await decoder.meet()
            return decoder
        except (Gone, OSError) as error:  # such as no more memory, files or processes
            log.error("no decoder of images can be started: %s", error)
            raise Refused(
                503, "No image can be decoded at the moment: try again.", retry_after=5
            ) from error

    def send(self, command: bytes, sockets: Sequence[int] = ()) -> None:
        if self.process.poll() is not None:
            self.control.close()
            self.start()
        socket.send_fds(self.control, [command], sockets)

    def kill(self, decoder: Decoder) -> None:
        decoder.connection.close()
        with suppress(OSError):  # if this has ended too, the next start is told
            self.send(COMMAND.pack(KILL, decoder.process))

    def close(self) -> None:
        self.control.close()
        self.process.wait()


class Lane:
    """Some decoders, for whom images wait in the order in which they come."""

    def __init__(self, nursery: Nursery, count: int, niceness: int) -> None:
        self.nursery, self.niceness = nursery, niceness
        self.idle: asyncio.Queue[Decoder | None] = asyncio.Queue()  # None: one is to be started
        for _ in range(count):
            self.idle.put_nowait(None)

    @asynccontextmanager
    async def decoder(self) -> AsyncIterator[Decoder]:
        """Yield a decoder; whatever goes wrong with it, another takes its place."""
        found = await self.idle.get()
        again = None
        try:
            found = found or await self.nursery.decoder(self.niceness)
            yield found
            again = found
        finally:
            if found and not again:
                self.nursery.kill(found)
            self.idle.put_nowait(again)

    async def fill(self) -> None:
        """Start the decoders, of whom none is at work yet."""
        for _ in range(self.idle.qsize()):
            self.idle.put_nowait(
                self.idle.get_nowait() or await self.nursery.decoder(self.niceness)
            )

    def close(self) -> None:
        while not self.idle.empty():
            if decoder := self.idle.get_nowait():
                decoder.connection.close()


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
        found: list[bytes | ImageFault] = []
        for index, image in enumerate(images):
            try:
                found.append(await self.one(image, shown, view, when_heavy))
            except UnusableImage as error:
                found.append(ImageFault(index, image.name, str(error), error.status))
        return found

    async def one(
        self,
        image: UploadedImage,
        transform: dict[str, Any] | None,
        view: int,
        when_heavy: Callable[[], None],
    ) -> bytes:
        content = await content_of(image)
        check_size(image.name, image.size, len(content), self.limits)
        order = {"name": image.name, "transform": transform, "light": True, "seconds": 1}
        if len(content) <= LIGHT_BYTES:
            try:
                async with self.light.decoder() as decoder:
                    reply, seen = await decoder.ask(order, content, view, LIGHT_SECONDS)
                if not reply.get("heavy"):
                    return usable(reply, seen)
            except Gone:
                pass
        when_heavy()
        seconds = self.limits.decoding_seconds
        order |= {"light": False, "seconds": seconds}
        try:
            async with self.heavy.decoder() as decoder:
                reply, seen = await decoder.ask(order, content, view, WALL * seconds)
        except Gone:
            raise unreadable(image.name, "it is broken, or takes too long to decode") from None
        return usable(reply, seen)


async def content_of(image: UploadedImage) -> bytes:
    if isinstance(image.content, bytes):
        return image.content
    try:
        return await asyncio.to_thread(image.content.read_bytes)
    except OSError as error:
        raise unreadable(image.name, error.strerror or "it is gone") from error


def usable(reply: dict[str, Any], view: bytes) -> bytes:
    if "error" in reply:
        raise UnusableImage(int(reply["status"]), str(reply["error"]))
    return view
