"""The addresses of the inbox. Docstrings go to /openapi.json."""

import asyncio
import io
import shutil
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from PIL import Image
from starlette.responses import PlainTextResponse, Response

from ovor.config import Transform
from ovor.errors import OvorError
from ovor.web import bodies, handlers, schemas
from ovor.web.errors import ImageFault, Refused
from ovor.web.json_body import read_json
from ovor.web.labels import checked_labels
from ovor.web.lesson import Lesson, LessonRequest
from ovor.web.lesson_routes import begun
from ovor.web.schemas import failures
from ovor.web.service import Service

SMALL = Transform(size=160, crop_pct=1.0)  # a picture that is shown: the middle of an image
BEGINNING = 2000  # characters of a text that are shown
ImageId = Annotated[str, Path(description="as GET /inbox gives it")]


def add_inbox(app: FastAPI, service: Service, shapes: schemas.Shapes) -> None:
    """Add the routes of the inbox to an app."""
    inbox = service.inbox
    small: dict[str, Any] = {"image/png": {"schema": bodies.FILE}}
    if service.reads.written:
        small = {"text/plain": {"schema": {"type": "string"}}}

    @app.get("/inbox", response_model=shapes.Inbox, responses=failures())
    async def all_images() -> Any:
        """Images or texts that were called unknown, or answered without being sure, in groups."""
        return await asyncio.to_thread(inbox.as_json)

    @app.get(
        "/inbox/{image}",
        response_class=Response,
        responses={200: {"content": small}, **failures(404, 422)},
    )
    async def one_image(image: ImageId) -> Response:
        """One of them, small: an image, or the beginning of a text."""
        if service.reads.written:
            return PlainTextResponse(await beginning(service, image))
        return Response(await picture(service, image), media_type="image/png")

    @app.post(
        "/inbox/teach",
        status_code=202,
        response_model=schemas.Begun,
        responses=failures(400, 404, 408, 409, 413, 415, 422, 503),
        openapi_extra=bodies.TEACH_INBOX,
    )
    async def teach_some(request: Request) -> Any:
        """Teach some of them as a class; they leave when they are learned."""
        return begun(await teach(service, request))

    @app.delete(
        "/inbox",
        response_model=shapes.Inbox,
        responses=failures(400, 408, 413, 415, 422),
        openapi_extra=bodies.EMPTY_INBOX,
    )
    async def throw_away(request: Request) -> Any:
        """Throw some of them away."""
        wanted = await read_json(request, service.limits, {"ids": list})
        await asyncio.to_thread(inbox.drop, wanted["ids"])
        return await asyncio.to_thread(inbox.as_json)


async def beginning(service: Service, key: str) -> str:
    """Return as much of a text of the inbox as tells what it is about."""
    reading, item = service.sight.reading, service.inbox.find(key).image
    try:
        text = await reading.run(lambda: reading.text(item, service.reads))
    except OvorError:
        raise Refused(
            404, "This text of the inbox cannot be read any more: throw it away."
        ) from None
    return text[:BEGINNING]


async def picture(service: Service, key: str) -> bytes:
    """Return an image of the inbox as a small PNG: not the bytes that somebody has sent."""
    assert service.sight.decoders is not None
    [found] = await service.sight.decoders.views([service.inbox.find(key).image], SMALL)
    if isinstance(found, ImageFault):  # such as a file that somebody has removed from the folder
        raise Refused(404, "This image of the inbox cannot be read any more: throw it away.")
    file = io.BytesIO()
    await asyncio.to_thread(Image.fromarray(found).save, file, "png")
    return file.getvalue()


async def teach(service: Service, request: Request) -> Lesson:
    """Start a lesson of images of the inbox."""
    service.check_running()
    wanted = await read_json(request, service.limits, {"ids": list, "label": str}, yes=bool)
    keys, yes = list(dict.fromkeys(wanted["ids"])), wanted.get("yes", False)
    [label] = checked_labels([wanted["label"]], service.predictor.served, yes)
    kept = [service.inbox.find(key) for key in keys]
    if len(kept) > service.limits.images_per_lesson:
        most = service.limits.images_per_lesson
        many = service.reads.many
        raise Refused(413, f"There are too many {many}: teach at most {most} at a time.")
    handlers.check_no_other(service.settings.model)
    folder = service.scratch.folder()

    async def prepare() -> LessonRequest:
        contents = [one.image.content for one in kept]
        paths = await asyncio.to_thread(written, contents, folder, service.reads.many)
        return LessonRequest(
            folder,
            images=paths,
            labels=(label,) * len(paths),
            epochs=None,
            keep_validation=False,
            names=tuple(one.image.name for one in kept),
            yes=yes,
            inbox=tuple(keys),
        )

    try:
        return await handlers.begin(service, prepare)
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, True)
        raise


def written(contents: list[bytes | FilePath], folder: FilePath, many: str) -> tuple[FilePath, ...]:
    """Write images or texts as files called 0, 1, 2 and so on."""
    paths = tuple(folder / str(number) for number in range(len(contents)))
    try:
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    except OSError as error:
        raise Refused(
            503, f"The server cannot keep the {many} ({error.strerror}): tell who runs it."
        ) from error
    return paths
