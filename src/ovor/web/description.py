"""The parts of the OpenAPI description that FastAPI cannot tell from the functions."""

from typing import Any

from fastapi import FastAPI

from ovor.web.schemas import Error
from ovor.web.teaching import EPOCHS, LABEL

WHAT = {
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


def ERRORS(*statuses: int) -> dict[int | str, dict[str, Any]]:  # noqa: N802
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {"model": Error, "description": WHAT[status]}
        if status in (409, 429, 503):
            found[status]["headers"] = RETRY
    return found


IMAGES = {
    "type": "array",
    "items": {"type": "string", "format": "binary"},
    "minItems": 1,
    "description": "JPEG, PNG, WebP, GIF, BMP or TIFF; of a moving image the first frame",
}
KINDS = "image/jpeg, image/png, image/webp, image/gif, image/bmp, image/tiff"


def body(required: list[str], **fields: Any) -> dict[str, Any]:
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
                    "encoding": {"images": {"contentType": KINDS}},
                }
            },
        }
    }


PREDICT_BODY = body(["images"])
READABLE = "^[^\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]*$"  # on one line; not blank, too


def teach_body(least_epochs: int) -> dict[str, Any]:
    return body(
        ["images", "labels"],
        labels={
            "type": "array",
            "items": {
                "type": "string",
                "minLength": 1,
                "maxLength": LABEL,
                "allOf": [{"pattern": READABLE}, {"pattern": "\\S"}],
            },
            "minItems": 1,
            "description": "the class of each image, in the order of the images: a new one",
        },
        epochs={"type": "integer", "minimum": least_epochs, "maximum": EPOCHS},
        keep_set_aside={
            "type": "string",
            "enum": ["false", "true"],
            "default": "false",
            "description": "keep the images set aside in memory, to measure what is forgotten",
        },
        on_error={
            "type": "string",
            "enum": ["stop", "skip"],
            "default": "stop",
            "description": "at an image that cannot be read: refuse all, or go on without it",
        },
    )


def describe(app: FastAPI, token: bool) -> None:
    """The token belongs to the description only where there is one."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = made()
            if token:
                add_token(found)
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def add_token(found: dict[str, Any]) -> None:
    schemes = found.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    for path, methods in found["paths"].items():
        if path != "/healthz":
            for operation in methods.values():
                operation["security"] = [{"token": []}]
