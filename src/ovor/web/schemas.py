"""What answers look like, for the OpenAPI description and for whoever reads the code."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal["waiting", "checking", "learning", "saving", "done", "failed", "cancelled"]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ImageError(Answer):
    index: Annotated[int, Field(ge=0, description="position among the images of the request")]
    name: str
    error: str


class Error(Answer):
    error: Annotated[str, Field(description="one sentence: what is wrong, and what to do")]
    images: Annotated[
        list[ImageError], Field(description="the images at fault, where single ones are")
    ] = []


class Health(Answer):
    status: Literal["ok", "stopping"]


class ClassCount(Answer):
    name: str
    images: Annotated[int, Field(ge=1)]


class KnownTask(Answer):
    task: Annotated[int, Field(ge=1)]
    held_out: Annotated[int, Field(ge=0, description="images that were set aside")]
    held_out_accuracy: Annotated[
        Percent | None, Field(description="on those, when the task was learned")
    ]
    classes: list[ClassCount]


class TaskExam(Answer):
    task: Annotated[int, Field(ge=1)]
    images: Annotated[int, Field(ge=1)]
    accuracy: Percent


class Exam(Answer):
    lessons: Annotated[int, Field(ge=1, description="tasks that were known at the time")]
    tasks: list[TaskExam]


class LimitsShown(Answer):
    image_bytes: int
    pixels: int
    images_per_prediction: int
    images_per_task: int
    request_bytes: int


class ModelShown(Answer):
    name: str
    method: str
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


class Candidate(Answer):
    name: str
    confidence: Share


class Prediction(Answer):
    name: str
    answer: Annotated[str, Field(description='the class, or "unknown"')]
    unknown: bool
    confidence: Share
    classes: Annotated[list[Candidate], Field(max_length=5, description="the best first")]


class Unread(Answer):
    name: str
    error: str


class Predictions(Answer):
    version: Annotated[int, Field(ge=1)]
    predictions: Annotated[
        list[Prediction | Unread], Field(description="in the order of the images")
    ]


class Begun(Answer):
    id: str
    state: State
    classes: list[ClassCount]
    url: str


class TaskShown(Answer):
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
    accuracy: Annotated[Percent | None, Field(description="on its images set aside, when done")]
    task: Annotated[int, Field(ge=1)] | None


class Tasks(Answer):
    tasks: Annotated[list[TaskShown], Field(description="the newest first")]
