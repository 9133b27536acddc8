"""Requests that cannot be done, and the response that says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse

from ovor.errors import one_line


@dataclass(frozen=True)
class ImageFault:
    """What is wrong with one image of a request."""

    index: int
    name: str
    error: str
    status: int = 422
    """of a request that has no usable image"""

    def as_json(self) -> dict[str, Any]:
        return {"index": self.index, "name": self.name, "error": self.error}


class Refused(Exception):  # noqa: N818 - as it reads where it is raised
    """A request that gets an error: its status, and a sentence that names the fix."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        images: tuple[ImageFault, ...] = (),
        alike: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
    ) -> None:
        """`alike` are names that were given, each with the known one that it is much like."""
        super().__init__(one_line(sentence))
        self.status = status
        self.images = images
        self.alike = alike
        self.retry_after = retry_after


INTERNAL = Refused(500, "This went wrong in the server, not in the request: its log says more.")


def none_usable(faults: Sequence[ImageFault], one: str) -> Refused:
    """Refuse a request without a usable image or text, with the status that the faults share."""
    statuses = {fault.status for fault in faults}
    status = statuses.pop() if len(statuses) == 1 else 422
    sentence = faults[0].error if len(faults) == 1 else f"No {one} can be used: each says why."
    return Refused(status, sentence, images=tuple(faults))


def error_response(refused: Refused) -> JSONResponse:
    content: dict[str, Any] = {"error": str(refused)}
    if refused.images:
        content["images"] = [fault.as_json() for fault in refused.images]
    if refused.alike:
        content["alike"] = [{"given": given, "known": known} for given, known in refused.alike]
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(content, refused.status, headers)
