"""The shapes of requests and responses, of which /openapi.json is made.

The names of the classes stand in that document, and their docstrings would: so they have none.
"""

from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

MAX_EPOCHS = 1000
MAX_LABEL = 200  # characters of a class's name
TOP = 5  # classes that a prediction names
State = Literal["waiting", "checking", "learning", "saving", "done", "failed", "cancelled"]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]


class Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageError(Response):
    index: Annotated[int, Field(ge=0, description="position among the images of the request")]
    name: str
    error: str


class Error(Response):
    error: Annotated[str, Field(description="one sentence: what is wrong, and what to do")]
    images: Annotated[
        list[ImageError], Field(description="the images at fault, where single ones are")
    ] = []


class Health(Response):
    status: Literal["ok", "stopping"]


class ClassCount(Response):
    name: str
    images: Annotated[int, Field(ge=1)]


class KnownTask(Response):
    task: Annotated[int, Field(ge=1)]
    held_out: Annotated[int, Field(ge=0, description="images that were set aside")]
    held_out_accuracy: Annotated[
        Percent | None,
        Field(
            description="on those, when the task was learned; of an exact model, on its images, "
            "each judged by all others"
        ),
    ]
    classes: list[ClassCount]


class TaskExam(Response):
    task: Annotated[int, Field(ge=1)]
    images: Annotated[int, Field(ge=1)]
    accuracy: Percent


class Exam(Response):
    lessons: Annotated[int, Field(ge=1, description="tasks that were known at the time")]
    tasks: list[TaskExam]


class LimitsShown(Response):
    image_bytes: int
    pixels: int
    images_per_prediction: int
    images_per_task: int
    request_bytes: int


class ModelShown(Response):
    name: str
    method: str
    exact: Annotated[
        bool, Field(description="a known class can get more images, and none is set aside")
    ]
    backbone: str
    drawing: Annotated[bool, Field(description="the embedded backbone, which knows drawings alone")]
    image_size: int
    megabytes: float
    version: Annotated[int, Field(ge=1, description="grows when another model takes over")]
    tasks: list[KnownTask]
    exams: Annotated[
        list[Exam], Field(description="accuracy on images set aside, after each lesson")
    ]
    limits: LimitsShown
    learning: Annotated[str | None, Field(description="the task being learned, by its id")]


class Candidate(Response):
    name: str
    confidence: Share


class Prediction(Response):
    name: str
    answer: Annotated[str, Field(description='the class, or "unknown"')]
    unknown: bool
    confidence: Share
    classes: Annotated[list[Candidate], Field(max_length=TOP, description="the best first")]


class Unread(Response):
    name: str
    error: str


class Predictions(Response):
    version: Annotated[int, Field(ge=1)]
    predictions: Annotated[
        list[Prediction | Unread], Field(description="in the order of the images")
    ]


class Begun(Response):
    id: str
    state: State
    classes: list[ClassCount]
    url: str


class TaskShown(Response):
    id: str
    state: State
    classes: list[ClassCount]
    progress: Share
    doing: str
    seconds: Annotated[float, Field(ge=0, description="since it began")]
    seconds_left: Annotated[float, Field(ge=0)] | None
    notes: list[str]
    images: Annotated[list[ImageError], Field(description="left out, with on_error=skip")]
    error: str | None
    accuracy: Annotated[
        Percent | None,
        Field(
            description="when done: on its images set aside; of an exact model, on its images, "
            "each judged by all others"
        ),
    ]
    task: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="its number, when done; none if all classes were known before"),
    ]


class Tasks(Response):
    tasks: Annotated[list[TaskShown], Field(description="the newest first")]


STATUSES = {
    400: "the request is broken",
    401: "a token is needed",
    403: "another host name, or another web page",
    404: "there is no such task",
    408: "the request took too long to arrive",
    409: "another lesson goes on, or this one has ended",
    413: "larger, or more, than is taken",
    415: "not multipart/form-data, or no image of a known kind",
    422: "understood, but cannot be done",
    429: "too many images wait; Retry-After says for how long",
    503: "the server is stopping",
}
RETRY = {"Retry-After": {"schema": {"type": "string"}, "description": "seconds"}}


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route, for its `responses`."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {"model": Error, "description": STATUSES[status]}
        if status in (409, 429, 503):
            found[status]["headers"] = RETRY
    return found


IMAGES = {
    "type": "array",
    "items": {"type": "string", "format": "binary"},
    "minItems": 1,
    "description": "JPEG, PNG, WebP, GIF, BMP or TIFF; of a moving image the first frame",
}
IMAGE_KINDS = "image/jpeg, image/png, image/webp, image/gif, image/bmp, image/tiff"


def form_body(required: list[str], **fields: Any) -> dict[str, Any]:
    return {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": {
                        "type": "object",
                        "properties": {"images": IMAGES, **fields},
                        "required": required,
                        "additionalProperties": False,
                    },
                    "encoding": {"images": {"contentType": IMAGE_KINDS}},
                }
            },
        }
    }


PREDICT_BODY = form_body(["images"])
ON_ONE_LINE = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"


def lesson_body(least_epochs: int) -> dict[str, Any]:
    """Return the form of POST /tasks, for its `openapi_extra`."""
    return form_body(
        ["images", "labels"],
        labels={
            "type": "array",
            "items": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_LABEL,
                "allOf": [{"pattern": ON_ONE_LINE}, {"pattern": "\\S"}],
            },
            "minItems": 1,
            "description": "the class of each image, in the order of the images: a new one, "
            "or, if the model is exact, any",
        },
        epochs={"type": "integer", "minimum": least_epochs, "maximum": MAX_EPOCHS},
        keep_set_aside={
            "type": "string",
            "enum": ["false", "true"],
            "default": "false",
            "description": "keep the images set aside in memory, to measure what is "
            "forgotten; an exact model sets none aside",
        },
        on_error={
            "type": "string",
            "enum": ["stop", "skip"],
            "default": "stop",
            "description": "at an image that cannot be read: refuse all, or go on without it",
        },
    )


def require_token(app: FastAPI) -> None:
    """Let the OpenAPI document of an app say that all routes but /healthz need a token."""
    document = app.openapi()  # which the app keeps
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    for path, methods in document["paths"].items():
        if path != "/healthz":
            for operation in methods.values():
                operation["security"] = [{"token": []}]
