"""Decoders of strangers' images: processes that have limits, and that the server may kill.

The server starts one process of this module, which imports what is needed once, without torch. For
each socket that it is sent it forks a decoder, in a few milliseconds. A decoder answers one order
after the other: JSON and some image files, for which it returns JSON and the views, whose size the
server knows. When the server is gone the sockets close, and all end.
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image
from pydantic import TypeAdapter

from ovor.config import Transform
from ovor.data.images import upright_rgb
from ovor.data.transforms import test_view
from ovor.web.images import BYTES_PER_PIXEL, HeavyImage, UnusableImage, decode
from ovor.web.settings import Limits

SIZES = struct.Struct("!II")  # of an order and of the file after it
SIZE = struct.Struct("!I")  # of a reply, without the view after it
COMMAND = struct.Struct("!ci")  # FORK and a niceness, or KILL and a process
FORK, KILL = b"f", b"k"
SPARE_BYTES = 2**27  # of a decoder's memory, besides pixels and files
Reply = tuple[dict[str, Any], bytes]  # what is wrong with a file, or its view
TRANSFORM = TypeAdapter(Transform)


def main() -> None:
    control = socket.socket(fileno=0)
    limits = Limits(**json.loads(sys.argv[1]))
    load_readers()
    Image.MAX_IMAGE_PIXELS = limits.pixels  # twice as many are refused before memory is asked for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this
    own: set[int] = set()
    while True:
        command, sockets, *_ = socket.recv_fds(control, COMMAND.size, 1, socket.MSG_WAITALL)
        if len(command) < COMMAND.size:
            return
        what, number = COMMAND.unpack(command)
        forget_ended(own)
        if what == KILL and number in own:  # not yet waited for, so the number is still its own
            os.kill(number, signal.SIGKILL)
        elif what == FORK and (child := os.fork()):
            own.add(child)
            os.close(sockets[0])
        elif what == FORK:
            control.close()
            work(socket.socket(fileno=sockets[0]), limits, niceness=number)
            os._exit(0)


def load_readers() -> None:
    """Open an image of each kind, so that no decoder has to import anything."""
    Image.init()
    with suppress(Exception):
        upright_rgb(b"")


def forget_ended(own: set[int]) -> None:
    for child in list(own):
        if os.waitpid(child, os.WNOHANG)[0]:
            own.discard(child)


def work(server: socket.socket, limits: Limits, niceness: int) -> None:
    """Answer orders until the server hangs up."""
    os.nice(niceness)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    room = BYTES_PER_PIXEL * limits.pixels + 2 * limits.image_bytes + SPARE_BYTES
    limit(resource.RLIMIT_AS, address_space() + room)
    server.sendall(SIZE.pack(os.getpid()))
    orders = server.makefile("rb", buffering=0)
    while sizes := read(orders, SIZES.size):
        order_size, file_size = SIZES.unpack(sizes)
        order = json.loads(read(orders, order_size))
        replies = answers(order, read(orders, file_size), limits)
        said = json.dumps([reply for reply, _ in replies]).encode()
        server.sendall(b"".join((SIZE.pack(len(said)), said, *(view for _, view in replies))))


def read(file: Any, size: int) -> bytes:
    """Read so many bytes; fewer only where the server has hung up."""
    content = bytearray(size)
    left = memoryview(content)
    while left and (count := file.readinto(left)):
        left = left[count:]
    return bytes(content) if not left else b""


def answers(order: dict[str, Any], files: bytes, limits: Limits) -> list[Reply]:
    """Return what became of each file of an order."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    # Beyond it the system ends this process, which Pillow's code in C could not do itself.
    limit(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime + order["seconds"]) + 1)
    asked = order["transform"]
    transform = None if asked is None else TRANSFORM.validate_python(asked)
    replies, place = [], 0
    for name, size in zip(order["names"], order["sizes"], strict=True):
        content = files if size == len(files) else files[place : place + size]
        replies.append(answer(name, content, transform, limits, order["light"]))
        place += size
    return replies


def answer(
    name: str, content: bytes, transform: Transform | None, limits: Limits, light: bool
) -> Reply:
    """Return what is wrong with an image, or its view if one is asked for."""
    try:
        image = decode(name, content, limits, light)
        return {}, b"" if transform is None else np.asarray(test_view(image, transform)).tobytes()
    except HeavyImage:
        return {"heavy": True}, b""
    except UnusableImage as error:
        return {"error": str(error), "status": error.status}, b""


def limit(what: int, most: int) -> None:
    """Set a limit of this process that it could raise again; where the system has none, go on."""
    hard = resource.getrlimit(what)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (most if hard < 0 else min(most, hard), hard))


def address_space() -> int:
    """Return the bytes of addresses that this process has; where nobody tells, a usual number."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 2**30


if __name__ == "__main__":
    main()
