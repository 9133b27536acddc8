"""The body of a request: parsed as it arrives, whole, in time and within limits, or refused."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from ovor.data.modality import Modality
from ovor.web.errors import Refused
from ovor.web.form_reader import TABLE, Form, FormReader, broken
from ovor.web.settings import Limits

PREDICTION_FIELDS = ("keep",)
LESSON_FIELDS = ("labels", "epochs", "keep_set_aside", "on_error", "yes")
CORRECTION_FIELDS = ("label", "was", "yes")
SMALL = 0.01  # of all that may be there: what a request may have to count as a small one


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
            small = own + count <= SMALL * self.limit
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


Take = Callable[[int], None]  # reserves room for so many bytes, or refuses


async def read_to_memory(
    request: Request,
    limits: Limits,
    take: Take,
    reads: Modality,
    fields: tuple[str, ...] = PREDICTION_FIELDS,
) -> Form:
    """Return images or texts of a request in memory, as many as a prediction may have."""
    boundary = check_headers(request, limits, reads.many, reads.written)
    reader = FormReader(boundary, limits, limits.images_per_prediction, reads, fields)
    return await receive(request, reader, limits, take)


async def read_one(request: Request, limits: Limits, take: Take, reads: Modality) -> Form:
    """Return the one image or text of a correction, and what is said of it."""
    boundary = check_headers(request, limits, reads.one, reads.written)
    reader = FormReader(boundary, limits, 1, reads, CORRECTION_FIELDS, files=reads.one)
    return await receive(request, reader, limits, take)


async def read_to_folder(
    request: Request, limits: Limits, take: Take, reads: Modality, folder: Path
) -> Form:
    """Return the fields of a lesson, and its images or texts as files called 0, 1, 2 and so on."""
    boundary = check_headers(request, limits, reads.many, reads.written)
    fields = (*LESSON_FIELDS, TABLE) if reads.written else LESSON_FIELDS
    reader = FormReader(boundary, limits, limits.images_per_lesson, reads, fields, folder)
    return await receive(request, reader, limits, take)


async def read_table_file(request: Request, limits: Limits, take: Take, reads: Modality) -> Form:
    """Return a table that is to be shown."""
    boundary = check_headers(request, limits, TABLE)
    reader = FormReader(boundary, limits, 0, reads, (TABLE, "labelled"), files=TABLE)
    return await receive(request, reader, limits, take)


async def read_model_file(
    request: Request, limits: Limits, take: Take, reads: Modality, folder: Path
) -> Form:
    """Return what was sent with a model's file, which is then in the folder as 0."""
    boundary = check_headers(request, limits, "model")
    large = replace(limits, image_bytes=limits.request_bytes)
    reader = FormReader(boundary, large, 1, reads, ("yes",), folder, files="model")
    return await receive(request, reader, limits, take)


def check_headers(request: Request, limits: Limits, files: str, json: bool = False) -> bytes:
    """Refuse a body that its headers show to be wrong; return the boundary between its parts.

    `json` says whether it could have been JSON too.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        also = ", or application/json" if json else ""
        raise Refused(415, f"The body must be multipart/form-data, with the field {files}{also}.")
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
            503,
            f"The server cannot keep the {reader.reads.many} ({error.strerror}): tell who runs it.",
        ) from error
    except ClientDisconnect:
        raise Refused(400, "The request ended before its end: send it again.") from None
    finally:
        reader.close()
    if not reader.ended:
        raise broken()
    if not reader.form.images and not reader.form.tables:
        raise reader.nothing()
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
