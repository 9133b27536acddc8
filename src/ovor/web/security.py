"""Who may ask: the checks before any route, and the headers of every answer.

Without a token any page that a browser shows could send requests to a server on the same machine;
so requests of other origins and for other host names are refused.
"""

import asyncio
import hmac
import ipaddress
import logging
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ovor.errors import in_words, one_line
from ovor.web.failures import Refused
from ovor.web.metrics import Metrics
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
OPEN = ("/", "/healthz")  # and /static: no token needed
LOOPBACK = ("localhost", "127.0.0.1", "::1")
DRAIN_SECONDS, DRAIN_BYTES = 2, 2**26
MISTAKE = Refused(500, "This went wrong in the server, not in the request: its log says more.")
log = logging.getLogger("ovor.web")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(settings: Settings) -> frozenset[str] | None:
    """Names that the server answers to; None: any, as only a token opens it."""
    if settings.token and not settings.hosts and not is_loopback(settings.host):
        return None
    return frozenset(name.lower() for name in (*LOOPBACK, settings.host, *settings.hosts))


def error(refused: Refused) -> JSONResponse:
    said: dict[str, object] = {"error": str(refused)}
    if refused.images:
        said["images"] = [
            {"index": fault.index, "name": fault.name, "error": fault.error}
            for fault in refused.images
        ]
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(said, refused.status, headers)


class Guard:
    """Around the whole app."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.metrics, self.debug = app, metrics, settings.debug
        self.token = settings.token.encode() if settings.token else None
        self.hosts = hosts_of(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        try:
            self.check(scope)
            await self.app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            await error(refused)(scope, exchange.receive, exchange.send)
        except Exception as mistake:
            where = one_line(f"{scope['method']} {scope['path']}")
            log.error("%s: %s", where, in_words(mistake), exc_info=self.debug)
            if not exchange.status:
                await error(MISTAKE)(scope, exchange.receive, exchange.send)
        finally:
            route = getattr(scope.get("route"), "path", None)
            self.metrics.count(route, scope["method"], exchange.status)

    def check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self.hosts is not None and name_of(host) not in self.hosts:
            raise Refused(
                403,
                "This server does not answer to the name in the Host header: use its address, or "
                "start it with --allow-host NAME.",
            )
        self.check_token(scope["path"], headers.get(b"authorization", b""))
        origin = headers.get(b"origin")
        if scope["method"] not in ("GET", "HEAD") and origin is not None:
            where = urlsplit_quietly(origin.decode("latin-1").lower())
            if where != host:
                raise Refused(
                    403, "Requests of other web pages are refused: use this server's own."
                )

    def check_token(self, path: str, given: bytes) -> None:
        if self.token is None or path in OPEN or path.startswith("/static/"):
            return
        kind, _, token = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token):
            raise Refused(401, "A token is needed: send Authorization: Bearer TOKEN.")


def name_of(host: str) -> str:
    """Without the port: what forwards another one here is no danger."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def urlsplit_quietly(origin: str) -> str:
    try:
        found = urlsplit(origin)
    except ValueError:
        return ""
    return found.netloc if found.scheme in ("http", "https") else ""


class Exchange:
    """One request and its answer: adds headers, and reads on before it says no.

    A client that is still sending when the connection closes would not see the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path = scope["path"]
        self.inner_receive, self.inner_send = receive, send
        self.status = 0
        self.whole = False
        # It waits for a word before it sends anything: an answer will do.
        self.waits = (b"expect", b"100-continue") in scope["headers"]

    async def receive(self) -> Message:
        self.waits = False
        message = await self.inner_receive()
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
        left = DRAIN_BYTES
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self.whole and left > 0:
                    left -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return
