"""The parts of a multipart body as they come in, within limits that are checked on the way."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ovor.web.failures import Refused
from ovor.web.pictures import shown
from ovor.web.settings import Limits

FIELD_BYTES = 4096  # of what is no image
OTHER_PARTS = 10  # besides images and their labels
HEADER_BYTES = 4096


@dataclass
class Upload:
    name: str
    """as the client calls it, for answers alone"""
    content: bytes | Path = b""
    size: int = 0


@dataclass
class Form:
    images: list[Upload] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)


class Reader:
    """Takes a body's pieces; images go to memory, or to numbered files of a folder."""

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
        self.field: str | None = None  # None: an image
        self.parser = make_parser(
            boundary,
            {
                "on_part_begin": self.part_begins,
                "on_header_field": self.header_field,
                "on_header_value": self.header_value,
                "on_header_end": self.header_ends,
                "on_headers_finished": self.headers_end,
                "on_part_data": self.data,
                "on_part_end": self.part_ends,
                "on_end": self.end,
            },
        )

    def feed(self, piece: bytes) -> None:
        self.parser.write(piece)

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
        if name != "images":
            if name not in self.fields:
                raise Refused(
                    422,
                    f"There is no field {name[:50]!r}: use {', '.join(('images', *self.fields))}.",
                )
            self.field = name
            return
        self.field = None
        number = len(self.form.images)
        if number == self.images:
            raise Refused(413, f"There are too many images: {self.at_most()}")
        given = options.get(b"filename", b"").decode(errors="replace")
        self.form.images.append(Upload(shown(given, number)))
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
        if self.field is not None:
            try:
                text = self.piece.decode()
            except UnicodeDecodeError:
                raise Refused(422, f"{self.field} is not UTF-8: send it as such.") from None
            self.form.fields.setdefault(self.field, []).append(text)
            return
        upload = self.form.images[-1]
        upload.size = self.size
        if self.file and self.folder:
            self.file.close()
            self.file = None
            upload.content = self.folder / str(len(self.form.images) - 1)
        else:
            upload.content = bytes(self.piece)
        self.piece = bytearray()

    def end(self) -> None:
        self.ended = True


def broken() -> Refused:
    return Refused(400, "The multipart body is broken or not whole: send it again.")


def make_parser(boundary: bytes, callbacks: Any) -> MultipartParser:
    try:
        return MultipartParser(boundary, callbacks)
    except FormParserError as error:  # the boundary is too long
        raise broken() from error
