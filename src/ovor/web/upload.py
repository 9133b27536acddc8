"""The body of a request: parsed as it arrives, whole, in time and within limits, or refused."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ovor.errors import one_line
from ovor.web.errors import Refused
from ovor.web.settings import Limits

LESSON_FIELDS = ("labels", "epochs", "keep_set_aside", "on_error")
SMALL_REQUEST = 2**20  # bytes
FIELD_BYTES = 4096  # of a part that is no image
HEADER_BYTES = 4096  # of all headers of a part
OTHER_PARTS = 10  # besides images and their labels
PREFIX, LOCK = "ovor-serve-", "lock"  # of scratch folders
NAME_LENGTH = 100  # characters shown of a client's name for a file


class MemoryBudget:
    """Bytes that the requests of all clients may occupy in memory together.

    A quarter more is there for small requests, so that large ones cannot keep them out.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes bytes for one request; give all of them back at the end."""
        own = 0

        def take(count: int) -> None:
            nonlocal own
            small = own + count <= SMALL_REQUEST
            if self.used + count > self.limit * (1.25 if small else 1):
                raise Refused(
                    429, "Too much is being sent at once: try again in a moment.", retry_after=2
                )
            self.used += count
            own += count

        try:
            yield take
        finally:
            self.used -= own


@dataclass
class UploadedImage:
    name: str
    """as the client calls the file; for responses alone"""
    content: bytes | Path = b""
    size: int = 0
    """bytes that were sent, also where the content was cut off at the limit"""


@dataclass
class Form:
    images: list[UploadedImage] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)


class FormReader:
    """Collects the parts of a multipart body; images go to memory, or to files of a folder."""

    def __init__(
        self,
        boundary: bytes,
        limits: Limits,
        images: int,
        fields: tuple[str, ...] = (),
        folder: Path | None = None,
    ) -> None:
        self.limits, self.images, self.fields, self.folder = limits, images, fields, folder
        self.form = Form()
        self.parts = 0
        self.ended = False
        self.header, self.value, self.header_bytes = b"", b"", 0
        self.headers: dict[bytes, bytes] = {}
        self.piece = bytearray()  # of the part that is being read
        self.size = 0
        self.file: BinaryIO | None = None
        self.field: str | None = None  # None: the part is an image
        callbacks: Any = {
            "on_part_begin": self.part_begins,
            "on_header_field": self.header_field,
            "on_header_value": self.header_value,
            "on_header_end": self.header_ends,
            "on_headers_finished": self.headers_end,
            "on_part_data": self.data,
            "on_part_end": self.part_ends,
            "on_end": self.end,
        }
        try:
            self.parser = MultipartParser(boundary, callbacks)
        except FormParserError as error:  # the boundary is too long
            raise broken() from error

    def close(self) -> None:
        if self.file:
            self.file.close()

    def part_begins(self) -> None:
        self.parts += 1
        labels = self.images if self.fields else 0
        if self.parts > self.images + labels + OTHER_PARTS:
            raise Refused(413, f"The request has too many parts: {self.at_most()}")
        self.headers, self.header_bytes = {}, 0

    def at_most(self) -> str:
        return f"send at most {self.images} images at a time."

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self.header += self.counted(data[start:end])

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += self.counted(data[start:end])

    def counted(self, piece: bytes) -> bytes:
        self.header_bytes += len(piece)
        if self.header_bytes > HEADER_BYTES:
            raise Refused(413, "A part of the request has too long a header: send a shorter name.")
        return piece

    def header_ends(self) -> None:
        self.headers[self.header.lower()] = self.value
        self.header = self.value = b""

    def headers_end(self) -> None:
        kind, options = parse_options_header(self.headers.get(b"content-disposition", b""))
        if kind != b"form-data" or b"name" not in options:
            raise Refused(400, "A part of the request has no name: send multipart/form-data.")
        name = options[b"name"].decode(errors="replace")
        self.piece, self.size = bytearray(), 0
        if name == "images":
            self.field = None
            self.image_begins(options.get(b"filename", b"").decode(errors="replace"))
        elif name in self.fields:
            self.field = name
        else:
            known = ", ".join(("images", *self.fields))
            raise Refused(422, f"There is no field {name[:50]!r}: use {known}.")

    def image_begins(self, filename: str) -> None:
        number = len(self.form.images)
        if number == self.images:
            raise Refused(413, f"There are too many images: {self.at_most()}")
        self.form.images.append(UploadedImage(display_name(filename, number)))
        if self.folder:
            self.file = (self.folder / str(number)).open("wb")

    def data(self, data: bytes, start: int, end: int) -> None:
        self.size += end - start
        if self.field is not None:
            if self.size > FIELD_BYTES:
                raise Refused(413, f"{self.field} is longer than {FIELD_BYTES} bytes: shorten it.")
            self.piece += data[start:end]
        elif self.size <= self.limits.image_bytes:  # what is beyond is not kept, only counted
            if self.file:
                self.file.write(data[start:end])
            else:
                self.piece += data[start:end]

    def part_ends(self) -> None:
        if self.field is None:
            self.image_ends(self.form.images[-1])
            return
        try:
            text = self.piece.decode()
        except UnicodeDecodeError:
            raise Refused(422, f"{self.field} is not UTF-8: send it as such.") from None
        self.form.fields.setdefault(self.field, []).append(text)

    def image_ends(self, image: UploadedImage) -> None:
        image.size = self.size
        if self.file and self.folder:
            self.file.close()
            self.file = None
            image.content = self.folder / str(len(self.form.images) - 1)
        else:
            image.content = bytes(self.piece)
        self.piece = bytearray()

    def end(self) -> None:
        self.ended = True


def display_name(filename: str, index: int) -> str:
    """Return a client's name for a file, cut to one short line; no path is ever made of it."""
    name = one_line(filename)
    if len(name) > NAME_LENGTH:
        name = name[:NAME_LENGTH] + "..."
    return name or f"image {index + 1}"


async def read_to_memory(request: Request, limits: Limits, take: Callable[[int], None]) -> Form:
    """Return the images of a prediction; `take` reserves the memory for every piece of the body."""
    reader = FormReader(check_headers(request, limits), limits, limits.images_per_prediction)
    return await receive(request, reader, limits, take)


async def read_to_folder(request: Request, limits: Limits, folder: Path) -> Form:
    """Return the fields of a lesson, and its images as files called 0, 1, 2 and so on."""
    boundary = check_headers(request, limits)
    reader = FormReader(boundary, limits, limits.images_per_task, LESSON_FIELDS, folder)
    return await receive(request, reader, limits, lambda count: None)


def check_headers(request: Request, limits: Limits) -> bytes:
    """Refuse a body that its headers show to be wrong; return the boundary between its parts."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Refused(415, "The body must be multipart/form-data, with files in the field images.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "A compressed body is not taken: send it as it is.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.request_bytes:
        raise too_large(limits)
    boundary = options.get(b"boundary", b"")
    if not boundary or len(boundary) > 200:
        raise broken()
    return boundary


async def receive(
    request: Request, reader: FormReader, limits: Limits, take: Callable[[int], None]
) -> Form:
    try:
        async with asyncio.timeout(limits.seconds):
            await feed(request, reader, limits, take)
    except TimeoutError:
        raise Refused(
            408,
            f"The request took longer than {limits.seconds:g} s to arrive: send less at a time.",
        ) from None
    except FormParserError as error:
        raise broken() from error
    except OSError as error:  # of a file of a lesson
        raise Refused(
            503, f"The server cannot keep the images ({error.strerror}): tell who runs it."
        ) from error
    except ClientDisconnect:
        raise Refused(400, "The request ended before its end: send it again.") from None
    finally:
        reader.close()
    if not reader.ended:
        raise broken()
    if not reader.form.images:
        raise Refused(422, "There is no image: send files in the field images.")
    return reader.form


async def feed(
    request: Request, reader: FormReader, limits: Limits, take: Callable[[int], None]
) -> None:
    total = 0
    async for piece in request.stream():
        total += len(piece)
        if total > limits.request_bytes:
            raise too_large(limits)
        take(len(piece))
        if piece:
            await asyncio.to_thread(reader.parser.write, piece)  # it may write to a disk


def too_large(limits: Limits) -> Refused:
    return Refused(
        413, f"The request is larger than {limits.request_bytes:,} bytes: send less at a time."
    )


def broken() -> Refused:
    return Refused(400, "The multipart body is broken or not whole: send it again.")


class Scratch:
    """A private folder for the images of lessons, gone with the server whatever ends it.

    A lock in it tells the next server whether its owner lives, or was killed and left it behind.
    """

    def __init__(self) -> None:
        remove_abandoned(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))  # for this user alone (0700)
        self.lock = FileLock(self.path / "new")
        self.lock.acquire()
        os.rename(self.path / "new", self.path / LOCK)  # now others can find it, and it is held

    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.path))

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.release()


def remove_abandoned(place: Path) -> None:
    """Remove the scratch folders of this user's servers that were killed."""
    for path in place.glob(f"{PREFIX}*"):
        lock = path / LOCK
        try:
            own = path.lstat().st_uid == os.getuid()
            if path.is_symlink() or not own or not lock.is_file() or lock.is_symlink():
                continue
            held = FileLock(lock)
            held.acquire(timeout=0)
        except (OSError, Timeout):  # its server is alive, or it has just gone
            continue
        shutil.rmtree(path, ignore_errors=True)
        held.release()
