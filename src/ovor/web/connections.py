"""Connections that keep nobody else out: idle ones end, and make room when there are too many."""

import asyncio
import json
import logging
import resource
import time
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 20  # that a connection may take to send a request's headers
UNREAD_SECONDS = 30  # that a client may leave a response unread
FRESH_SECONDS = 2  # in which a request that still arrives is not closed for others
MOST = 2000  # connections, where the system allows as many
ACCEPTED = 8  # connections taken in one turn of the event loop
TURNS = 4  # from there until one of the others has been closed for it
OTHER_FILES = 48  # that the server has open besides: models, lessons, decoders, libraries
COMPLAINT_SECONDS = 60  # between two lines about the same trouble
BUSY = json.dumps({"error": "The server has too many connections: try again in a moment."}).encode()
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(BUSY), BUSY)
)
log = logging.getLogger("ovor.web")


def most_connections() -> int:
    """Return how many connections fit into the files that this process may have open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files < 0 else max(1, min(MOST, files - ACCEPTED * TURNS - OTHER_FILES))


class ImpatientProtocol(H11Protocol):
    """Closes what sends no request, or leaves its response unread; and the idle for the others."""

    since = 0.0  # when it began to wait for a request, or the request to arrive
    unsent, unsent_since = 0, 0.0  # bytes of a response

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) > most_connections():
            make_room(self)

    def data_received(self, data: bytes) -> None:
        waited = self.waits
        super().data_received(data)
        if waited and not self.waits:
            self.since = time.monotonic()

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def waits(self) -> bool:
        """is there no request to answer? Perhaps half of one, or the rest of one answered before"""
        return self.cycle is None or self.cycle.response_complete

    @property
    def sends(self) -> bool:
        """does the body of its request still arrive?"""
        return not self.waits and self.conn.their_state is h11.SEND_BODY

    def look_after(self, now: float) -> None:
        """Close it if its client does nothing; called every second or so."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self.unsent:
            self.unsent, self.unsent_since = unsent, now
        if unsent and now - self.unsent_since > UNREAD_SECONDS:
            self.transport.abort()  # closing would wait for the client
        elif not unsent and self.waits and now - self.since > HEADER_SECONDS:
            self.transport.close()


def make_room(new: ImpatientProtocol) -> None:
    """Close the connection that matters least: one that waits, else one that sends slowly."""
    others = [c for c in new.connections if isinstance(c, ImpatientProtocol) and c is not new]
    open_ones = [c for c in others if not c.transport.is_closing()]
    if len(open_ones) < most_connections():  # those that are closing will be gone
        return
    old = time.monotonic() - FRESH_SECONDS
    idle = [c for c in open_ones if c.waits]
    slow = [c for c in open_ones if c.sends and c.since < old]
    if idle or slow:
        min(idle or slow, key=lambda c: c.since).transport.abort()
    else:
        new.transport.write(REFUSAL)
        new.transport.close()


def look_after(connections: Iterable[Any]) -> None:
    now = time.monotonic()
    for connection in list(connections):
        if isinstance(connection, ImpatientProtocol):
            connection.look_after(now)


class Complaints:
    """Says in one line a minute what the event loop would say by a traceback each time."""

    def __init__(self) -> None:
        self.last: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, trouble: dict[str, Any]) -> None:
        now, what = time.monotonic(), str(trouble["message"])
        if now - self.last.get(what, -COMPLAINT_SECONDS) < COMPLAINT_SECONDS:
            return
        self.last = {**dict(list(self.last.items())[-9:]), what: now}
        log.error("%s: %s", what, trouble.get("exception", "no reason is known"))
