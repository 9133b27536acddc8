"""The shapes of responses, of which /openapi.json is made.

The names of the classes stand in that document, and their docstrings would: so they have none.
"""

from types import GenericAlias
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, create_model

TOP = 5  # classes that a prediction names
State = Literal["waiting", "checking", "learning", "saving", "done", "failed", "cancelled"]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[int, Field(ge=1)]
Some = Annotated[int, Field(ge=0)]


class Response(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageError(Response):
    index: Annotated[int, Field(ge=0, description="position among the images of the request")]
    name: str
    error: str


class Alike(Response):
    given: str
    known: str


class Error(Response):
    error: Annotated[str, Field(description="one sentence: what is wrong, and what to do")]
    images: Annotated[
        list[ImageError], Field(description="the images at fault, where single ones are")
    ] = []
    alike: Annotated[
        list[Alike],
        Field(description="names that differ from known ones only by case or look; yes takes them"),
    ] = []


class Health(Response):
    status: Literal["ok", "stopping"]


class ClassCount(Response):
    name: str
    images: Number


class KnownClass(Response):
    name: str
    images: Number
    expected: Annotated[
        Percent | None,
        Field(description="of new images, how many are named right, when its images last came"),
    ]
    confused_with: Annotated[list[str], Field(description="the most frequent first")]


class KnownLesson(Response):
    lesson: Number
    held_out: Annotated[int, Field(ge=0, description="images that were set aside")]
    held_out_accuracy: Annotated[
        Percent | None,
        Field(
            description="on those, when it was learned; of an exact model, on its images, "
            "each judged by all others"
        ),
    ]
    classes: list[KnownClass]


class GroupExam(Response):
    lesson: Number
    images: Number
    right: Some
    accuracy: Percent


class ClassExam(Response):
    name: str
    lesson: Number
    images: Number
    right: Some


class Exam(Response):
    lessons: Annotated[int, Field(ge=1, description="that the model had had at the time")]
    groups: Annotated[list[GroupExam], Field(description="the classes of each lesson")]
    classes: list[ClassExam]


class Point(Response):
    lessons: Annotated[int, Field(ge=1, description="that the model had had")]
    images: Number
    right: Some
    by: Annotated[
        Literal["lesson", "exam"],
        Field(description="its own images, each judged by all others, or images of an exam"),
    ]


class Line(Response):
    name: str
    lesson: Annotated[int, Field(ge=1, description="that brought the class")]
    images: Annotated[int, Field(ge=1, description="that it was learned from")]
    points: Annotated[list[Point], Field(description="the earliest first")]


class LimitsShown(Response):
    image_bytes: int
    pixels: int
    images_per_prediction: int
    images_per_lesson: int
    request_bytes: int


class Reads(Response):
    one: Annotated[str, Field(description="what an item is called; the key of its name in rows")]
    many: str
    written: Annotated[
        bool, Field(description="items can be sent as JSON: texts; others are files alone")
    ]


class ModelShown(Response):
    name: str
    reads: Annotated[
        Reads, Field(description="what it is asked about; images where they are counted too")
    ]
    method: str
    exact: Annotated[
        bool, Field(description="a known class can get more images, and none is set aside")
    ]
    backbone: str
    drawing: Annotated[bool, Field(description="the embedded backbone, which knows drawings alone")]
    image_size: int
    megabytes: float
    version: Annotated[int, Field(ge=1, description="grows when another model takes over")]
    empty: Annotated[bool, Field(description="nothing is taught yet")]
    can_teach: Annotated[bool, Field(description="may this caller?")]
    can_undo: Annotated[bool, Field(description="is the model before its last change kept?")]
    lessons: list[KnownLesson]
    exams: Annotated[
        list[Exam], Field(description="how it did on images set aside, after each lesson")
    ]
    memory: Annotated[
        list[Line], Field(description="how well each class was known, lesson after lesson")
    ]
    limits: LimitsShown
    learning: Annotated[str | None, Field(description="the lesson that goes on, by its id")]
    inbox: Annotated[
        int | None, Field(description="images that wait to be named; none for who may only ask")
    ]


class Candidate(Response):
    class_: Annotated[str, Field(alias="class")]
    confidence: Share


class Said(Response):
    label: Annotated[str, Field(description='the class, or "unknown"')]
    unknown: bool
    likeliest: Annotated[str, Field(description="the class that it is most like, also if unknown")]
    confidence: Annotated[Share, Field(description="that it is that one, if of any known class")]
    margin: Annotated[float, Field(description="how surely it is of a known class; below 0: not")]
    best: Annotated[list[Candidate], Field(max_length=TOP, description="the likeliest first")]
    shortened: Annotated[
        bool, Field(description="there if true: the end is beyond what the network reads")
    ] = False


class NotRead(Response):
    error: str


class Begun(Response):
    id: str
    state: State
    classes: list[ClassCount]
    url: str


class LessonShown(Response):
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
    report: Annotated[
        dict[str, Any] | None,
        Field(description="when done: verdict, advice, and what to expect of each class"),
    ]
    lesson: Annotated[
        Number | None,
        Field(description="its number, when done; none if all classes were known before"),
    ]


class Lessons(Response):
    lessons: Annotated[list[LessonShown], Field(description="the newest first")]


class Doubted(Response):
    id: str
    label: str
    likeliest: str
    confidence: Share
    group: Number


class Group(Response):
    group: Number
    images: Annotated[list[str], Field(description="their ids, the newest first")]
    likeliest: Annotated[str, Field(description="the class that most of them are most like")]


class Inbox(Response):
    kept: Annotated[
        Literal["memory", "folder", "nothing"], Field(description="where, or that it is off")
    ]
    most: Annotated[int, Field(ge=0, description="images that can wait; the oldest go first")]
    groups: Annotated[list[Group], Field(description="images that are alike; the largest first")]


class TableRow(Response):
    label: Annotated[str | None, Field(description="none where labels were not asked for")]


class Shapes:
    """Responses with rows, in which the key of an item's name is what the model reads."""

    def __init__(self, one: str) -> None:
        prediction, unread = with_name(one, "Prediction", Said), with_name(one, "Unread", NotRead)
        waiting, line = with_name(one, "Waiting", Doubted), with_name(one, "Row", TableRow)
        rows = some(prediction | unread), Field(description=f"in the order of the {one}s")
        now = prediction, Field(description=f"what the model now says of the {one}")
        newest = some(waiting), Field(description="the newest first")
        self.Predictions = grown("Predictions", Response, version=(Number, ...), predictions=rows)
        self.Corrected = grown("Corrected", ModelShown, row=now)
        self.Inbox = grown("Inbox", Inbox, images=newest)
        self.Table = grown("Table", Response, rows=(some(line), ...))


def some(shape: Any) -> Any:
    """Return the type of a list, for a shape that only exists by now."""
    return GenericAlias(list, (shape,))


def grown(name: str, base: type[Response], **fields: Any) -> Any:
    """Return a shape with some fields more."""
    return create_model(name, __base__=base, **fields)


def with_name(one: str, name: str, said: type[Response]) -> Any:
    """Return the shape of a row: the name of an item, and what is said of it."""
    first = {one: (str, Field(description="as the client calls it, or its beginning"))}
    rest = {key: (field.annotation, field) for key, field in said.model_fields.items()}
    return grown(name, Response, **first, **rest)


STATUSES = {
    400: "the request is broken",
    401: "a token is needed",
    403: "another host name, another web page, or a token that may only ask",
    404: "there is no such thing",
    408: "the request took too long to arrive",
    409: "not now: a lesson goes on, nothing is taught yet, or a name is much like a known one",
    413: "larger, or more, than is taken",
    415: "another kind of body, or no image of a known kind",
    422: "understood, but cannot be done",
    429: "too many images wait; Retry-After says for how long",
    503: "the server is stopping, or has no room",
}
RETRY = {"Retry-After": {"schema": {"type": "string"}, "description": "seconds"}}
ALWAYS = (401, 403)  # what any route may respond


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors of a route, for its `responses`."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*ALWAYS, *statuses}):
        found[status] = {"model": Error, "description": STATUSES[status]}
        if status in (409, 429, 503):
            found[status]["headers"] = RETRY
    return found


def require_token(app: FastAPI) -> None:
    """Let the OpenAPI document of an app say that all routes but /healthz need a token."""
    document = app.openapi()  # which the app keeps
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    for path, methods in document["paths"].items():
        if path != "/healthz":
            for operation in methods.values():
                operation["security"] = [{"token": []}]
