"""The routes of the API and the page. Names and docstrings of the functions go to /openapi.json."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Route

from ovor.web import handlers, schemas
from ovor.web.errors import INTERNAL, Refused, error_response
from ovor.web.lessons import FINAL, Lesson
from ovor.web.schemas import failures
from ovor.web.security import Guard
from ovor.web.service import Service

STATIC = files("ovor.web") / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
EVENT_SECONDS = 0.2  # between looks at a lesson
MOST_LISTENERS = 64  # of a lesson
ALIVE_SECONDS = 15  # after which a stream says that it is still there
TaskId = Annotated[str, Path(description="as POST /tasks gave it")]


def make_app(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.close()

    app = FastAPI(
        title="ovor",
        description="A classifier that learns new classes, task after task, and keeps no image.",
        version=version("ovor"),
        lifespan=lifespan,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    add_pages(app)
    add_state(app, service)
    add_lessons(app, service)
    app.add_exception_handler(Refused, lambda request, refused: error_response(refused))
    app.add_exception_handler(HTTPException, no_route)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, bad_address)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, lambda request, bug: error_response(INTERNAL))
    if service.settings.token:
        schemas.require_token(app)
    return Guard(app, service.settings, service.metrics.count)


def add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return static("page.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        return static(name)


def static(name: str) -> Response:
    """Return a file of the package, looked up in a list: no path is ever made of a request."""
    for entry in STATIC.iterdir():
        kind = MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if entry.name == name and kind and entry.is_file():
            return Response(
                entry.read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"}
            )
    raise Refused(404, "There is no such page: the API is described in /openapi.json.")


def add_state(app: FastAPI, service: Service) -> None:
    @app.get(
        "/healthz",
        response_model=schemas.Health,
        responses={503: {"model": schemas.Health, "description": "stopping"}, **failures(403)},
    )
    async def healthz() -> Any:
        """Is it there? 503 while it stops."""
        if service.stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return {"status": "ok"}

    @app.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **failures(401, 403),
        },
    )
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(
            service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.get("/model", response_model=schemas.ModelShown, responses=failures(401, 403))
    async def model() -> Any:
        """What the model knows, and how well it has kept it."""
        return service.model_json()

    @app.post(
        "/predict",
        response_model=schemas.Predictions,
        responses=failures(400, 401, 403, 408, 413, 415, 422, 429, 503),
        openapi_extra=schemas.PREDICT_BODY,
    )
    async def predict(request: Request) -> Any:
        """Name the classes of images, or say that they are unknown."""
        return await handlers.predict(service, request)


def add_lessons(app: FastAPI, service: Service) -> None:
    lessons = service.lessons

    @app.post(
        "/tasks",
        status_code=202,
        response_model=schemas.Begun,
        responses=failures(400, 401, 403, 408, 409, 413, 415, 422, 503),
        openapi_extra=schemas.lesson_body(2 if service.predictor.served.model.run().vor else 1),
    )
    async def teach(request: Request) -> Any:
        """Teach new classes, as the next task, or an exact model more images of known ones.

        One lesson goes on at a time, and predictions meanwhile.
        """
        begun = (await handlers.teach(service, request)).as_json()
        shown = {key: begun[key] for key in ("id", "state", "classes")}
        return shown | {"url": f"/tasks/{begun['id']}"}

    @app.get("/tasks", response_model=schemas.Tasks, responses=failures(401, 403))
    async def tasks() -> Any:
        """The lessons since the server was started."""
        return {"tasks": [lesson.as_json() for lesson in reversed(lessons.by_id.values())]}

    @app.get(
        "/tasks/{task}", response_model=schemas.TaskShown, responses=failures(401, 403, 404, 422)
    )
    async def task(task: TaskId) -> Any:
        """How far a lesson is."""
        return lessons.find(task).as_json()

    @app.get(
        "/tasks/{task}/events",
        response_class=StreamingResponse,
        responses={
            200: {
                "description": "events `progress`, each with what GET /tasks/{task} says",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **failures(401, 403, 404, 422, 429),
        },
    )
    async def events(task: TaskId) -> StreamingResponse:
        """The same as it changes, until the lesson has ended."""
        lesson = lessons.find(task)
        if lesson.listeners >= MOST_LISTENERS:
            raise Refused(429, "Too many listen to this lesson: ask for its state.", retry_after=5)
        return StreamingResponse(stream(lesson), media_type="text/event-stream")

    @app.delete(
        "/tasks/{task}",
        response_model=schemas.TaskShown,
        responses=failures(401, 403, 404, 409, 422),
    )
    async def cancel(task: TaskId) -> Any:
        """Stop a lesson; the model stays as it was."""
        lesson = lessons.find(task)
        if lesson.state not in FINAL:
            await lessons.cancel(lesson)
            if lesson.state == "cancelled":
                return lesson.as_json()
        ended = f"This lesson has ended already ({lesson.state})"
        raise Refused(409, f"{ended}: there is nothing to cancel.")


async def stream(lesson: Lesson) -> AsyncIterator[str]:
    """Yield what changes, and count who listens."""
    lesson.listeners += 1
    try:
        async for text in changes(lesson):
            yield text
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


async def no_route(request: Request, found: HTTPException) -> Response:
    sentences = {
        404: "There is nothing here: the API is described in /openapi.json.",
        405: "This method is not for this address: the API is described in /openapi.json.",
    }
    sentence = sentences.get(found.status_code, str(found.detail))
    response = error_response(Refused(found.status_code, sentence))
    if found.status_code == 405:
        response.headers["Allow"] = ", ".join(allowed(request))
    return response


def allowed(request: Request) -> list[str]:
    """Return the methods of all routes of an address; Starlette would list those of the first."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    here = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in here for method in route.methods or ()})


async def bad_address(request: Request, found: RequestValidationError) -> Response:
    sentence = "The address is not valid: the API is described in /openapi.json."
    return error_response(Refused(422, sentence))
