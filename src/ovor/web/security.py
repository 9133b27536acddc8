"""Who may send requests: the checks before any route, and the headers of every response.

Without a token any page that a browser shows could send requests to a server on the same machine;
so requests of other origins and for other host names are refused.
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ovor.errors import in_words, one_line
from ovor.web.errors import INTERNAL, Refused, error_response
from ovor.web.roles import Roles
from ovor.web.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/\s]+))(:[0-9]{1,5})?")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
STALL_SECONDS = 20  # without a byte of a body that is not whole
DRAIN_SECONDS, DRAIN_BYTES = 2, 2**26
log = logging.getLogger("ovor.web")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(settings: Settings) -> frozenset[str] | None:
    """Return the names that the server may be called by; None: any, as only a token opens it."""
    token = settings.token or settings.ask_token
    if token and not settings.hosts and not is_loopback(settings.host):
        return None
    return frozenset(name.lower() for name in (*LOOPBACK, settings.host, *settings.hosts))


class Guard:
    """Wraps the whole app: checks every request, and counts it by route, method and status."""

    def __init__(
        self, app: ASGIApp, settings: Settings, count: Callable[[str | None, str, int], None]
    ) -> None:
        self.app, self.count, self.debug = app, count, settings.debug
        self.roles = Roles(settings)
        self.hosts = hosts_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        try:
            self.check(scope)
            scope = renamed(scope)
            await self.app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            await error_response(refused)(scope, exchange.receive, exchange.send)
        except Exception as mistake:
            where = one_line(f"{scope['method']} {scope['path']}")
            log.error("%s: %s", where, in_words(mistake), exc_info=self.debug)
            if not exchange.status:
                await error_response(INTERNAL)(scope, exchange.receive, exchange.send)
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.count(route, scope["method"], exchange.status)

    def check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self.hosts is not None and name_of(host) not in self.hosts:
            raise Refused(
                403,
                "This server does not answer to the name in the Host header: use its address, or "
                "start it with --allow-host NAME.",
            )
        self.roles.check(scope)
        origin = headers.get(b"origin")
        if scope["method"] in ("GET", "HEAD") or origin is None:
            return
        if address_of(origin.decode("latin-1").lower()) != host:
            raise Refused(403, "Requests of other web pages are refused: use this server's own.")


def renamed(scope: Scope) -> Scope:
    """Return a request to /tasks…, as lessons were once called, as one to /lessons…."""
    old, new, path = "/tasks", "/lessons", scope["path"]
    if path != old and not path.startswith(f"{old}/"):
        return scope
    raw = new.encode() + scope.get("raw_path", b"").removeprefix(old.encode())
    return {**scope, "path": new + path.removeprefix(old), "raw_path": raw}


def name_of(host: str) -> str:
    """Return a Host header without its port: what forwards another port here is no danger.

    Nothing where it is more than a name and a port, such as localhost:1@evil.example.
    """
    found = HOST.fullmatch(host)
    return (found["address"] or found["name"]) if found else ""


def address_of(origin: str) -> str:
    """Return host and port of an Origin header; nothing where it is no web page's."""
    try:
        found = urlsplit(origin)
    except ValueError:
        return ""
    return found.netloc if found.scheme in ("http", "https") else ""


class Exchange:
    """One request and its response: adds headers, and reads the body's rest before an error.

    A client that is still sending when the connection closes would not see the response.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inner_receive, self.inner_send = receive, send
        self.status = 0
        self.whole = False  # the body has arrived
        # The client waits for a word before it sends the body: a response will do.
        self.waits = (b"expect", b"100-continue") in scope["headers"]

    async def receive(self) -> Message:
        self.waits = False
        try:
            async with asyncio.timeout(None if self.whole else STALL_SECONDS):
                message = await self.inner_receive()
        except TimeoutError:
            sentence = f"Nothing arrived for {STALL_SECONDS} s: send the request again."
            raise Refused(408, sentence) from None
        self.whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400 and not self.whole and not self.waits:
                await self.drain()
            known = {name.lower() for name, _ in message.get("headers", [])}
            more = [] if b"cache-control" in known else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message.get("headers", []), *HEADERS, *more]}
        await self.inner_send(message)

    async def drain(self) -> None:
        """Read what the client still sends, for a while."""
        left = DRAIN_BYTES
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.whole and left > 0:
                    left -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
