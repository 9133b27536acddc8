"""The body of a request: parsed as it arrives, whole, in time and within limits, or refused."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ovor.errors import one_line
from ovor.web.errors import Refused
from ovor.web.settings import Limits

PREDICTION_FIELDS = ("keep",)
LESSON_FIELDS = ("labels", "epochs", "keep_set_aside", "on_error", "yes")
CORRECTION_FIELDS = ("label", "was", "yes")
SMALL_REQUEST = 2**20  # bytes
FIELD_BYTES = 4096  # of a part that is no image
HEADER_BYTES = 4096  # of all headers of a part
OTHER_PARTS = 10  # besides images and their labels
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
        files: str = "images",
    ) -> None:
        self.limits, self.images, self.fields, self.folder = limits, images, fields, folder
        self.files = files  # the field that has them
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
        labels = self.images if "labels" in self.fields else 0
        if self.parts > self.images + labels + OTHER_PARTS:
            raise Refused(413, f"The request has too many parts: {self.at_most()}")
        self.headers, self.header_bytes = {}, 0

    def at_most(self) -> str:
        many = "images" if self.images > 1 else self.files
        return f"send at most {self.images} {many} at a time."

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
        if name == self.files:
            self.field = None
            self.image_begins(options.get(b"filename", b"").decode(errors="replace"))
        elif name in self.fields:
            self.field = name
        else:
            known = ", ".join((self.files, *self.fields))
            raise Refused(422, f"There is no field {name[:50]!r}: use {known}.")

    def image_begins(self, filename: str) -> None:
        number = len(self.form.images)
        if number == self.images:
            raise Refused(413, f"There are too many files in {self.files}: {self.at_most()}")
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


Take = Callable[[int], None]  # reserves room for so many bytes, or refuses


async def read_to_memory(
    request: Request,
    limits: Limits,
    take: Take,
    fields: tuple[str, ...] = PREDICTION_FIELDS,
) -> Form:
    """Return images of a request in memory, as many as a prediction may have."""
    boundary = check_headers(request, limits)
    reader = FormReader(boundary, limits, limits.images_per_prediction, fields)
    return await receive(request, reader, limits, take)


async def read_one(request: Request, limits: Limits, take: Take) -> Form:
    """Return the one image of a correction, and what is said of it."""
    boundary = check_headers(request, limits, "image")
    reader = FormReader(boundary, limits, 1, CORRECTION_FIELDS, files="image")
    return await receive(request, reader, limits, take)


async def read_to_folder(request: Request, limits: Limits, take: Take, folder: Path) -> Form:
    """Return the fields of a lesson, and its images as files called 0, 1, 2 and so on."""
    boundary = check_headers(request, limits)
    reader = FormReader(boundary, limits, limits.images_per_lesson, LESSON_FIELDS, folder)
    return await receive(request, reader, limits, take)


async def read_model_file(request: Request, limits: Limits, take: Take, folder: Path) -> Form:
    """Return what was sent with a model's file, which is then in the folder as 0."""
    boundary = check_headers(request, limits, "model")
    large = replace(limits, image_bytes=limits.request_bytes)
    reader = FormReader(boundary, large, 1, ("yes",), folder, files="model")
    return await receive(request, reader, limits, take)


def check_headers(request: Request, limits: Limits, files: str = "images") -> bytes:
    """Refuse a body that its headers show to be wrong; return the boundary between its parts."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        raise Refused(415, f"The body must be multipart/form-data, with the field {files}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "A compressed body is not taken: send it as it is.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.request_bytes:
        raise too_large(limits)
    boundary = options.get(b"boundary", b"")
    if not boundary or len(boundary) > 200:
        raise broken()
    return boundary


async def receive(request: Request, reader: FormReader, limits: Limits, take: Take) -> Form:
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
        what = "no model" if reader.files == "model" else "no image"
        raise Refused(422, f"There is {what}: send it as a file in the field {reader.files}.")
    return reader.form


async def feed(request: Request, reader: FormReader, limits: Limits, take: Take) -> None:
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
