"""The shapes of request bodies, as /openapi.json shows them; who reads a body checks it.

FastAPI would read a body of any size before it looks at it.
"""

import re
from typing import Any

from ovor.data.class_names import UNSEEN
from ovor.errors import UNPRINTABLE

MAX_EPOCHS = 1000
MAX_LABEL = 200  # characters of a class's name
MAX_IDS = 2000  # images of the inbox that are named at once
ID = "^[0-9a-f]{32}$"  # of an image of the inbox
IMAGE_KINDS = "image/jpeg, image/png, image/webp, image/gif, image/bmp, image/tiff"
FILE = {"type": "string", "format": "binary"}
IMAGE = {
    **FILE,
    "description": "JPEG, PNG, WebP, GIF, BMP or TIFF; of a moving image the first frame",
}
IMAGES = {"type": "array", "items": IMAGE, "minItems": 1}


def on_one_line() -> str:
    """Return a pattern of texts without a character that names must not have.

    Patterns of JSON Schema know no \\U, and no text has half a pair of surrogates.
    """
    both = UNPRINTABLE.pattern[1:-1] + UNSEEN.pattern[1:-1]
    inside = both.replace(r"\ud800-\udfff", "")
    inside = re.sub(r"\\U([0-9a-fA-F]{8})", lambda found: chr(int(found[1], 16)), inside)
    return f"^[^{inside}]*$"


NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_LABEL,
    "allOf": [{"pattern": on_one_line()}, {"pattern": "\\S"}],
}


def flag(default: str, other: str, description: str) -> dict[str, Any]:
    """Return a field of a form that has one of two values."""
    return {
        "type": "string",
        "enum": [default, other],
        "default": default,
        "description": description,
    }


YES = flag("false", "true", "take names that differ from known ones only by case or look")


Body = dict[str, Any]  # for a route's `openapi_extra`


def fields_of(required: list[str], **fields: Any) -> dict[str, Any]:
    """Return the schema of a form, or of an object of JSON."""
    return {
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": False,
    }


def form_body(files: str, required: list[str], kind: str = IMAGE_KINDS, **fields: Any) -> Body:
    """Return a form with files."""
    form = {
        "schema": fields_of([files, *required], **fields),
        "encoding": {files: {"contentType": kind}},
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": form}}}


def json_body(required: list[str], **fields: Any) -> Body:
    """Return a body of JSON."""
    content = {"application/json": {"schema": fields_of(required, **fields)}}
    return {"requestBody": {"required": True, "content": content}}


LABEL = {**NAME, "description": "what it is; a new class, or one that is known"}
WAS = {**NAME, "description": "what it had been taught as, if it had: it is moved"}
KEEP = flag("true", "false", "may it wait in the inbox, if the answer is not sure?")
LABELS = {
    "type": "array",
    "items": NAME,
    "minItems": 1,
    "description": "the class of each image, in the order of the images: a new one, or, if the "
    "model is exact, any",
}
PREDICT = form_body("images", [], images=IMAGES, keep=KEEP)
CORRECT = form_body("image", ["label"], image=IMAGE, label=LABEL, was=WAS, yes=YES)
UNLEARN = form_body("images", ["labels"], images=IMAGES, labels=LABELS)
MERGE = form_body("model", [], "application/octet-stream", model=FILE, yes=YES)
SAID_YES = {"type": "boolean", "default": False, "description": YES["description"]}
RENAME = json_body(["class", "to"], **{"class": NAME}, to=NAME, yes=SAID_YES)
FORGET = json_body(["class"], **{"class": NAME})
IDS = {
    "type": "array",
    "items": {"type": "string", "pattern": ID},
    "minItems": 1,
    "maxItems": MAX_IDS,
}
TEACH_INBOX = json_body(["ids", "label"], ids=IDS, label=NAME, yes=SAID_YES)
EMPTY_INBOX = json_body(["ids"], ids=IDS)


def lesson_options(least_epochs: int) -> dict[str, Any]:
    """Return the fields of a lesson besides what is taught, as a form has them."""
    return {
        "epochs": {"type": "integer", "minimum": least_epochs, "maximum": MAX_EPOCHS},
        "keep_set_aside": flag(
            "false",
            "true",
            "keep the images set aside in memory, to measure what is forgotten; an exact model "
            "sets none aside",
        ),
        "on_error": flag(
            "stop", "skip", "at an image that cannot be read: refuse all, or go on without it"
        ),
        "yes": YES,
    }


def lesson_body(least_epochs: int) -> Body:
    """Return the form of POST /lessons."""
    options = lesson_options(least_epochs)
    return form_body("images", ["labels"], images=IMAGES, labels=LABELS, **options)
