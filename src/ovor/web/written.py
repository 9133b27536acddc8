"""Forms as JSON, for what can be written there: texts with what is said of them."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal

from starlette.requests import Request

from ovor.data.modality import Modality
from ovor.web.errors import Refused
from ovor.web.form_reader import Form, UploadedImage, quoted
from ovor.web.json_body import is_json, whole
from ovor.web.settings import Limits

MOST_BYTES = 2**23  # of a body of JSON; files may be larger
Holds = Literal["many", "one", "lessons"]  # a list of texts, one text, or texts with their labels
YES_OR_NO = ("keep", "yes", "keep_set_aside")
KINDS: dict[type, str] = {str: "a text", bool: "true or false", int: "a whole number"}


def is_written(request: Request, reads: Modality) -> bool:
    """Tell whether a request brings items as JSON; images cannot come so."""
    return reads.written and is_json(request)


async def read_written(
    request: Request,
    limits: Limits,
    take: Callable[[int], None],
    reads: Modality,
    holds: Holds,
    most: int,
    fields: tuple[str, ...],
) -> Form:
    """Return what a body of JSON says, as the form that could have said it too."""
    content = await whole(request, limits, MOST_BYTES, take)
    return await asyncio.to_thread(as_form, content, reads, holds, most, fields)


def as_form(
    content: bytes, reads: Modality, holds: Holds, most: int, fields: tuple[str, ...]
) -> Form:
    try:
        said = json.loads(content.decode())
    except (ValueError, RecursionError):
        raise Refused(400, "The body is no JSON in UTF-8: send it again.") from None
    key = {"many": reads.many, "one": reads.one, "lessons": "lessons"}[holds]
    options = [name for name in fields if name not in ("labels", "table")]
    if not isinstance(said, dict) or not said.keys() <= {key, *options}:
        known = ", ".join([key, *options])
        raise Refused(422, f"The body must be an object, with no other fields than {known}.")
    texts, labels = items_of(said.get(key), key, reads, holds, most)
    form = Form([item(text, reads, place) for place, text in enumerate(texts)])
    if holds == "lessons":
        form.fields["labels"] = labels
    for name in options:
        if name in said:
            form.fields[name] = [as_field(name, said[name])]
    return form


def items_of(
    given: Any, key: str, reads: Modality, holds: Holds, most: int
) -> tuple[list[str], list[str]]:
    """Return the texts of a body, and the labels of those that have some."""
    if holds == "one":
        given = [given]
    if not isinstance(given, list) or not given:
        raise Refused(422, f"There is no {reads.one}: send a list of them as {key}.")
    if len(given) > most:
        raise Refused(
            413, f"There are {len(given):,} {reads.many}: send at most {most:,} at a time."
        )
    if holds != "lessons":
        check_strings(given, reads.one)
        return given, []
    shape = {reads.one, "label"}
    if not all(isinstance(one, dict) and one.keys() == shape for one in given):
        raise Refused(
            422, f"Each of lessons must be an object of {reads.one} and label, and nothing else."
        )
    texts, labels = ([one[name] for one in given] for name in (reads.one, "label"))
    check_strings(texts, reads.one)
    check_strings(labels, "label")
    return texts, labels


def check_strings(given: list[Any], name: str) -> None:
    if not all(isinstance(one, str) for one in given):
        raise Refused(422, f"Each {name} must be a string: send it in quotes.")


def item(text: str, reads: Modality, place: int) -> UploadedImage:
    content = text.encode("utf-8", "replace")  # half a character that is written in two
    return UploadedImage(quoted(reads, content, place), content, len(content))


def as_field(name: str, value: Any) -> str:
    """Return a value as a form would say it."""
    wanted: type = bool if name in YES_OR_NO else int if name == "epochs" else str
    if type(value) is not wanted:
        raise Refused(422, f"{name} must be {KINDS[wanted]}.")
    return str(value).lower() if wanted is bool else str(value)
