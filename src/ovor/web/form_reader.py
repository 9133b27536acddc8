"""The parts of a multipart body, collected as they arrive: images or texts, their labels, a table.

What is said of them, such as names, is checked here; their contents are for others.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from ovor.data.modality import WORDS, Modality
from ovor.errors import one_line
from ovor.web.errors import Refused
from ovor.web.settings import Limits

FIELD_BYTES = 4096  # of a part that is no image
HEADER_BYTES = 4096  # of all headers of a part
OTHER_PARTS = 10  # besides images, or texts, and their labels
TABLE = "table"  # the field of a file that holds many items, where items can be written
QUOTED = 1000  # bytes of a text that its name is made of
NAME_LENGTH = 100  # characters shown of a client's name for a file


@dataclass
class UploadedImage:
    """An image, or a text in UTF-8."""

    name: str
    """as the client calls the file, or the beginning of a text; for responses alone"""
    content: bytes | Path = b""
    size: int = 0
    """bytes that were sent, also where the content was cut off at the limit"""


@dataclass
class Form:
    images: list[UploadedImage] = field(default_factory=list)
    fields: dict[str, list[str]] = field(default_factory=dict)
    tables: list[UploadedImage] = field(default_factory=list)


class FormReader:
    """Collects the parts of a multipart body; images go to memory, or to files of a folder.

    `reads` says what they are; of writing no file is needed, and a table may hold it.
    """

    def __init__(
        self,
        boundary: bytes,
        limits: Limits,
        images: int,
        reads: Modality,
        fields: tuple[str, ...] = (),
        folder: Path | None = None,
        files: str = "",
    ) -> None:
        self.reads, self.named = reads, False
        self.limits, self.images, self.fields, self.folder = limits, images, fields, folder
        self.files = files or reads.many  # the field that has them
        self.form = Form()
        self.parts = 0
        self.ended = False
        self.header, self.value, self.header_bytes = b"", b"", 0
        self.headers: dict[bytes, bytes] = {}
        self.piece = bytearray()  # of the part that is being read
        self.size = 0
        self.file: BinaryIO | None = None
        self.field: str | None = None  # None: the part is an image, or a text
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
        many = self.reads.many if self.images > 1 else self.files
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
        if name == self.files and name != TABLE:
            self.field = None
            self.image_begins(options.get(b"filename", b"").decode(errors="replace"))
        elif name == TABLE and TABLE in self.fields:
            self.field = name
            if self.form.tables:
                raise Refused(422, "There are two tables: send one at a time.")
            filename = options.get(b"filename", b"").decode(errors="replace")
            self.form.tables.append(UploadedImage(display_name(filename, 0, TABLE)))
        elif name in self.fields:
            self.field = name
        else:
            self.check_kind(name)
            known = ", ".join((self.files, *self.fields))
            raise Refused(422, f"There is no field {name[:50]!r}: use {known}.")

    def check_kind(self, name: str) -> None:
        """Refuse images for a model of texts, and texts for one of images, in their own words."""
        other = next((words for words in WORDS.values() if name in (words.one, words.many)), None)
        if other and other != self.reads.words:
            raise wrong_kind(self.reads, other.many)

    def image_begins(self, filename: str) -> None:
        self.named = bool(filename)
        number = len(self.form.images)
        if number == self.images:
            raise Refused(413, f"There are too many files in {self.files}: {self.at_most()}")
        self.form.images.append(UploadedImage(display_name(filename, number, self.reads.one)))
        if self.folder:
            self.file = (self.folder / str(number)).open("wb")

    def data(self, data: bytes, start: int, end: int) -> None:
        self.size += end - start
        if self.field == TABLE:
            if self.size > self.limits.image_bytes:
                most = self.limits.image_bytes
                raise Refused(413, f"The table is larger than {most:,} bytes: send it in parts.")
            self.piece += data[start:end]
        elif self.field is not None:
            if self.size > FIELD_BYTES:
                raise Refused(413, f"{self.field} is longer than {FIELD_BYTES} bytes: shorten it.")
            self.piece += data[start:end]
        elif self.size <= self.limits.image_bytes:  # what is beyond is not kept, only counted
            if self.file:
                self.file.write(data[start:end])
            if not self.file or len(self.piece) < QUOTED:
                self.piece += data[start:end]

    def part_ends(self) -> None:
        if self.field is None:
            self.image_ends(self.form.images[-1])
            return
        if self.field == TABLE:
            table = self.form.tables[-1]
            table.content, table.size = bytes(self.piece), self.size
            return
        try:
            text = self.piece.decode()
        except UnicodeDecodeError:
            raise Refused(422, f"{self.field} is not UTF-8: send it as such.") from None
        self.form.fields.setdefault(self.field, []).append(text)

    def image_ends(self, image: UploadedImage) -> None:
        image.size = self.size
        if not self.named and self.reads.written:
            image.name = quoted(self.reads, bytes(self.piece), len(self.form.images) - 1)
        if self.file and self.folder:
            self.file.close()
            self.file = None
            image.content = self.folder / str(len(self.form.images) - 1)
        else:
            image.content = bytes(self.piece)
        self.piece = bytearray()

    def end(self) -> None:
        self.ended = True

    def nothing(self) -> Refused:
        """Return what is said where the one thing that matters was not sent."""
        what = self.reads.one if self.files in (self.reads.one, self.reads.many) else self.files
        how = "" if self.reads.written else " as a file"
        return Refused(422, f"There is no {what}: send it{how} in the field {self.files}.")


def quoted(reads: Modality, content: bytes, index: int) -> str:
    """Return what to call writing that has no name: its beginning, on one short line."""
    said = reads.called(content[:QUOTED].decode(errors="replace"))
    return display_name(said, index, reads.one)


def wrong_kind(reads: Modality, sent: str) -> Refused:
    return Refused(422, f"This model reads {reads.many}, not {sent}: send {reads.many}.")


def display_name(filename: str, index: int, one: str) -> str:
    """Return a client's name for a file, cut to one short line; no path is ever made of it."""
    name = one_line(filename)
    if len(name) > NAME_LENGTH:
        name = name[:NAME_LENGTH] + "..."
    return name or f"{one} {index + 1}"


def broken() -> Refused:
    return Refused(400, "The multipart body is broken or not whole: send it again.")
