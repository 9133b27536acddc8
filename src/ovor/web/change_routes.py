"""The addresses of changes that are done at once. Docstrings go to /openapi.json."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, BinaryIO
from urllib.parse import quote

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from ovor.web import bodies, change_handlers, schemas
from ovor.web.errors import Refused
from ovor.web.lesson_routes import written_of
from ovor.web.schemas import failures
from ovor.web.service import Service

PIECE = 2**18  # bytes of a file that are sent at a time
FORM = (400, 404, 408, 409, 413, 415, 422, 429, 503)
JSON = (400, 404, 408, 409, 413, 415, 422, 503)


def add_changes(app: FastAPI, service: Service, shapes: schemas.Shapes) -> None:
    """Add the routes that change the model at once to an app."""
    written = written_of(service)

    @app.post(
        "/correct",
        response_model=shapes.Corrected,
        response_model_exclude_unset=True,
        responses=failures(*FORM),
        openapi_extra=written.correct if written else bodies.CORRECT,
    )
    async def correct(request: Request) -> Any:
        """Teach one image or text at once; one that was taught as another class is moved."""
        return await change_handlers.correct(service, request)

    @app.post(
        "/unlearn",
        response_model=schemas.ModelShown,
        responses=failures(*FORM),
        openapi_extra=written.unlearn if written else bodies.UNLEARN,
    )
    async def unlearn(request: Request) -> Any:
        """Take images or texts back that were taught. This cannot be undone."""
        return await change_handlers.unlearn(service, request)

    @app.post("/undo", response_model=schemas.ModelShown, responses=failures(409, 422, 503))
    async def undo() -> Any:
        """Go back to the model before its last change."""
        return await change_handlers.undo(service)

    @app.post(
        "/rename",
        response_model=schemas.ModelShown,
        responses=failures(*JSON),
        openapi_extra=bodies.RENAME,
    )
    async def rename(request: Request) -> Any:
        """Give a class another name."""
        return await change_handlers.rename(service, request)

    @app.post(
        "/forget",
        response_model=schemas.ModelShown,
        responses=failures(*JSON),
        openapi_extra=bodies.FORGET,
    )
    async def forget(request: Request) -> Any:
        """Take a class out of the model. This cannot be undone."""
        return await change_handlers.forget(service, request)

    @app.post(
        "/merge",
        response_model=schemas.ModelShown,
        responses=failures(*FORM),
        openapi_extra=bodies.MERGE,
    )
    async def merge(request: Request) -> Any:
        """Add what another model of the same backbone has learned; no image is needed."""
        return await change_handlers.merge(service, request)

    @app.get(
        "/model/file",
        response_class=Response,
        responses={
            200: {
                "description": "the model's file",
                "content": {"application/octet-stream": {"schema": bodies.FILE}},
            },
            **failures(409),
        },
    )
    async def model_file() -> Response:
        """The model as a file, for `ovor predict`, or to be merged."""
        try:
            file = await asyncio.to_thread(service.settings.model.open, "rb")
        except OSError:
            raise Refused(409, "The model has no file yet: teach it something first.") from None
        name = quote(service.settings.model.name)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
            "Content-Length": str(os.fstat(file.fileno()).st_size),  # of this one, if replaced
        }
        return StreamingResponse(
            pieces(file), media_type="application/octet-stream", headers=headers
        )


async def pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of a file, and close it."""
    with file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
