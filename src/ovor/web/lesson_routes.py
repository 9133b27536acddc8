"""The addresses of lessons. Names and docstrings of the functions go to /openapi.json."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import StreamingResponse

from ovor.web import bodies, handlers, schemas
from ovor.web.errors import Refused
from ovor.web.lesson import FINAL, Lesson
from ovor.web.schemas import failures
from ovor.web.service import Service
from ovor.web.written_bodies import Written

EVENT_SECONDS = 0.2  # between looks at a lesson
MOST_LISTENERS = 64  # of a lesson
ALIVE_SECONDS = 15  # after which a stream says that it is still there
LessonId = Annotated[str, Path(description="as POST /lessons gave it")]


def add_lessons(app: FastAPI, service: Service) -> None:
    """Add the routes of lessons to an app."""
    lessons = service.lessons
    written = written_of(service)

    @app.post(
        "/lessons",
        status_code=202,
        response_model=schemas.Begun,
        responses=failures(400, 408, 409, 413, 415, 422, 429, 503),
        openapi_extra=written.lessons if written else bodies.lesson_body(least_epochs(service)),
    )
    async def teach(request: Request) -> Any:
        """Teach new classes, or an exact model more of known ones.

        One lesson goes on at a time, and predictions meanwhile.
        """
        return begun(await handlers.teach(service, request))

    @app.get("/lessons", response_model=schemas.Lessons, responses=failures())
    async def all_lessons() -> Any:
        """The lessons since the server was started."""
        return {"lessons": [lesson.as_json() for lesson in reversed(lessons.by_id.values())]}

    @app.get("/lessons/{lesson}", response_model=schemas.LessonShown, responses=failures(404, 422))
    async def one_lesson(lesson: LessonId) -> Any:
        """How far a lesson is."""
        return lessons.find(lesson).as_json()

    @app.get(
        "/lessons/{lesson}/events",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "events `progress`, each with what GET /lessons/{lesson} says",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **failures(404, 422, 429),
        },
    )
    async def events(lesson: LessonId) -> StreamingResponse:
        """The same as it changes, until the lesson has ended."""
        found = lessons.find(lesson)
        if found.listeners >= MOST_LISTENERS:
            raise Refused(429, "Too many listen to this lesson: ask for its state.", retry_after=5)
        return StreamingResponse(stream(found), media_type="text/event-stream")

    @app.delete(
        "/lessons/{lesson}",
        response_model=schemas.LessonShown,
        responses=failures(404, 409, 422),
    )
    async def cancel(lesson: LessonId) -> Any:
        """Stop a lesson; the model stays as it was."""
        found = lessons.find(lesson)
        if found.state not in FINAL:
            await lessons.cancel(found)
            if found.state == "cancelled":
                return found.as_json()
        ended = f"This lesson has ended already ({found.state})"
        raise Refused(409, f"{ended}: there is nothing to cancel.")


def least_epochs(service: Service) -> int:
    return 2 if service.predictor.served.model.run().vor else 1


def written_of(service: Service) -> Written | None:
    """Return the bodies of a model whose items can be written, if it is one."""
    reads = service.reads
    return Written(reads.one, reads.many, least_epochs(service)) if reads.written else None


def begun(lesson: Lesson) -> dict[str, Any]:
    """Return what is said of a lesson that has just begun."""
    found = lesson.as_json()
    shown = {key: found[key] for key in ("id", "state", "classes")}
    return shown | {"url": f"/lessons/{found['id']}"}


async def stream(lesson: Lesson) -> AsyncIterator[str]:
    """Yield what a lesson says as server-sent events, until it has ended; count who listens."""
    lesson.listeners += 1
    try:
        async for event in changes(lesson):
            yield event
    finally:
        lesson.listeners -= 1


async def changes(lesson: Lesson) -> AsyncIterator[str]:
    last, quiet = "", 0.0
    while True:
        shown = lesson.as_json()
        text = json.dumps(shown)
        if text != last:
            yield f"event: progress\ndata: {text}\n\n"
            last, quiet = text, 0.0
        elif quiet > ALIVE_SECONDS:
            yield ": still there\n\n"
            quiet = 0.0
        if shown["state"] in FINAL:
            return
        await asyncio.sleep(EVENT_SECONDS)
        quiet += EVENT_SECONDS
