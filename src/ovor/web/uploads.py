"""The body of a request: whole, in time and not too large, or refused."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from ovor.web.failures import Refused
from ovor.web.form import Form, Reader, broken
from ovor.web.settings import Limits

LESSON_FIELDS = ("labels", "epochs", "keep_set_aside", "on_error")


class Budget:
    """Bytes of requests that may be in memory at once, of all clients together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Of one request: what takes more of it, as long as there is; given back at the end."""
        own = 0

        def take(count: int) -> None:
            nonlocal own
            if self.used + count > self.limit:
                raise Refused(
                    429, "Too much is being sent at once: try again in a moment.", retry_after=2
                )
            self.used += count
            own += count

        try:
            yield take
        finally:
            self.used -= own


async def to_memory(request: Request, limits: Limits, take: Callable[[int], None]) -> Form:
    """The images of a prediction."""
    reader = Reader(check_headers(request, limits), limits, limits.images_per_prediction)
    return await receive(request, reader, limits, take)


async def to_folder(request: Request, limits: Limits, folder: Path) -> Form:
    """The images of a lesson, as files called 0, 1, 2 and so on, and what is said about them."""
    boundary = check_headers(request, limits)
    reader = Reader(boundary, limits, limits.images_per_task, LESSON_FIELDS, folder)
    return await receive(request, reader, limits, lambda count: None)


async def receive(
    request: Request, reader: Reader, limits: Limits, take: Callable[[int], None]
) -> Form:
    try:
        async with asyncio.timeout(limits.seconds):
            await read(request, reader, limits, take)
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


async def read(
    request: Request, reader: Reader, limits: Limits, take: Callable[[int], None]
) -> None:
    total = 0
    async for piece in request.stream():
        total += len(piece)
        if total > limits.request_bytes:
            raise too_large(limits)
        take(len(piece))
        if piece:
            await asyncio.to_thread(reader.feed, piece)  # it may write to a disk


def check_headers(request: Request, limits: Limits) -> bytes:
    """The boundary between the parts."""
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


def too_large(limits: Limits) -> Refused:
    return Refused(
        413, f"The request is larger than {limits.request_bytes:,} bytes: send less at a time."
    )
