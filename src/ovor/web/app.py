"""The routes of the API and the page. Names and docstrings of the functions go to /openapi.json."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from ovor.web import bodies, handlers, schemas, tables
from ovor.web.change_routes import add_changes
from ovor.web.described import described
from ovor.web.errors import INTERNAL, Refused, error_response
from ovor.web.inbox_routes import add_inbox
from ovor.web.lesson_routes import add_lessons, written_of
from ovor.web.roles import may_teach
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


def make_app(service: Service) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.close()

    app = FastAPI(
        title="ovor",
        description="A classifier that learns new classes, lesson after lesson, and keeps no "
        f"{service.reads.one}. An image, in names and descriptions here, is what the model is "
        "asked about: an image or a text. The addresses /tasks… are older names of /lessons….",
        version=version("ovor"),
        lifespan=lifespan,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    shapes = schemas.Shapes(service.reads.one)
    add_pages(app)
    add_state(app, service)
    add_predictions(app, service, shapes)
    add_lessons(app, service)
    add_changes(app, service, shapes)
    add_inbox(app, service, shapes)
    if service.reads.written:
        add_tables(app, service, shapes)
    app.add_exception_handler(Refused, lambda request, refused: error_response(refused))
    app.add_exception_handler(HTTPException, no_route)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, bad_address)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, lambda request, bug: error_response(INTERNAL))
    if service.settings.token or service.settings.ask_token:
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
        responses={503: {"model": schemas.Health, "description": "stopping"}, **failures()},
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
            **failures(),
        },
    )
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(
            service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.get("/model", response_model=schemas.ModelShown, responses=failures())
    async def model(request: Request) -> Any:
        """What the model knows, and how well it has kept it."""
        return described(service, may_teach(request.scope))


def add_predictions(app: FastAPI, service: Service, shapes: schemas.Shapes) -> None:
    written = written_of(service)

    @app.post(
        "/predict",
        response_model=shapes.Predictions,
        response_model_exclude_unset=True,
        responses=failures(400, 408, 409, 413, 415, 422, 429, 503),
        openapi_extra=written.predict if written else bodies.PREDICT,
    )
    async def predict(request: Request) -> Any:
        """Name the classes of images or texts, or say that they are unknown."""
        return await handlers.predict(service, request)


def add_tables(app: FastAPI, service: Service, shapes: schemas.Shapes) -> None:
    written = written_of(service)
    assert written is not None

    @app.post(
        "/table",
        response_model=shapes.Table,
        responses=failures(400, 408, 413, 415, 422, 429, 503),
        openapi_extra=written.table,
    )
    async def table(request: Request) -> Any:
        """Read a table (CSV, TSV or JSONL), and change nothing."""
        return await tables.shown(service, request)


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
    # An address of its own is meant before one with a gap that it would fit.
    here = [route for route in here if route.path == request.url.path] or here
    return sorted({method for route in here for method in route.methods or ()})


async def bad_address(request: Request, found: RequestValidationError) -> Response:
    sentence = "The address is not valid: the API is described in /openapi.json."
    return error_response(Refused(422, sentence))
