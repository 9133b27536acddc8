"""Bodies of JSON: small, in time, and with the fields that are wanted, or refused."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request

from ovor.web.bodies import ID, MAX_IDS
from ovor.web.errors import Refused
from ovor.web.settings import Limits

MOST_BYTES = 2**18
KINDS: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    list: "a list of ids, as GET /inbox gives them",
}


async def read_json(
    request: Request, limits: Limits, required: dict[str, type], **optional: type
) -> dict[str, Any]:
    """Return the fields of a body, each of the kind that is said for it."""
    if not is_json(request):
        raise Refused(415, "The body must be JSON: send it as application/json.")
    try:
        found = json.loads((await whole(request, limits)).decode())
    except (ValueError, RecursionError):
        raise Refused(400, "The body is no JSON: send it again.") from None
    wanted = required | optional
    if not isinstance(found, dict) or not found.keys() <= wanted.keys():
        known = ", ".join(wanted)
        raise Refused(422, f"The body must be an object, with no other fields than {known}.")
    for name, of in wanted.items():
        if name in found and not fits(found[name], of):
            raise Refused(422, f"{name} must be {KINDS[of]}.")
        if name in required and name not in found:
            raise Refused(422, f"{name} is missing: send {KINDS[of]}.")
    return found


def is_json(request: Request) -> bool:
    """Tell whether a body is said to be JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json"


async def whole(
    request: Request,
    limits: Limits,
    most: int = MOST_BYTES,
    take: Callable[[int], None] = lambda count: None,
) -> bytes:
    """Return a body, if it is small and comes in time; `take` reserves room for it."""
    content = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for piece in request.stream():
                take(len(piece))
                content += piece
                if len(content) > most:
                    raise Refused(413, f"The body is larger than {most:,} bytes: send less.")
    except TimeoutError:
        raise Refused(
            408, f"The request took longer than {limits.seconds:g} s to arrive."
        ) from None
    except ClientDisconnect:
        raise Refused(400, "The request ended before its end: send it again.") from None
    return bytes(content)


def fits(value: Any, of: type) -> bool:
    """Tell whether a value is of a kind; of a list, whether it is some ids, and not too many."""
    if of is list and isinstance(value, list):
        ids = all(isinstance(x, str) and re.fullmatch(ID, x) for x in value)
        return 0 < len(value) <= MAX_IDS and ids
    return isinstance(value, of)
