"""Processes that decode images, as the server sees them: started, asked with a deadline, ended."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ovor.web.decoder_process import COMMAND, FORK, KILL, SIZE, SIZES
from ovor.web.errors import Refused
from ovor.web.settings import Limits

START_SECONDS = 60  # for a decoder to be there, on a busy machine
REPLY_BYTES = 2**16  # at most, without the views
# Large blocks go back to the system when they are free, instead of being kept for the next image.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
log = logging.getLogger("ovor.web")


@dataclass(frozen=True)
class Order:
    """What a decoder is asked to do with some files."""

    names: list[str]
    transform: dict[str, Any] | None
    """what makes the view; None asks only whether the files can be decoded"""
    view: int
    """bytes of a view"""
    light: bool = True
    seconds: int = 1
    """of a processor"""
    sizes: list[int] = field(default_factory=list)


Reply = tuple[dict[str, Any], bytes]  # what is said of a file if it has no view, and the view


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

    async def ask(self, order: Order, files: Sequence[bytes], seconds: float) -> list[Reply]:
        """Return what is said of every file, and its view."""
        try:
            async with asyncio.timeout(seconds):
                asked = replace(order, sizes=[len(file) for file in files])
                await self.send(json.dumps(asdict(asked)).encode(), files)
                size = SIZE.unpack(await self.receive(SIZE.size))[0]
                if size > REPLY_BYTES:
                    raise Gone
                said = json.loads(await self.receive(size))
                return [(one, await self.receive(0 if one else order.view)) for one in said]
        except (TimeoutError, OSError, ValueError) as error:
            raise Gone from error

    async def send(self, order: bytes, files: Sequence[bytes]) -> None:
        loop = asyncio.get_running_loop()
        head = SIZES.pack(len(order), sum(map(len, files))) + order
        if len(files) > 1:
            return await loop.sock_sendall(self.connection, b"".join((head, *files)))
        await loop.sock_sendall(self.connection, head)
        await loop.sock_sendall(self.connection, files[0])

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
