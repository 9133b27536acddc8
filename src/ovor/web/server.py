"""From the settings to a server that runs: its socket, its signals, its log."""

import asyncio
import logging
import socket
import sys
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ovor.classifier.file import unfinished
from ovor.errors import OvorError
from ovor.web.app import make_app
from ovor.web.security import is_loopback
from ovor.web.service import Service
from ovor.web.settings import Settings

GRACE = 30  # seconds that requests have to end
HEADERS = 20  # seconds that the headers of a request may take
log = logging.getLogger("ovor.web")


def serve(settings: Settings) -> None:
    """Until a signal ends it."""
    if not settings.token and not is_loopback(settings.host):
        raise OvorError(
            f"Whoever reaches {settings.host} could teach the model: set a token (OVOR_TOKEN, or "
            "--token), or serve this machine alone (--host 127.0.0.1)."
        )
    start_log(settings.debug)
    with bound(settings.host, settings.port) as listening:
        service = Service(settings)
        if unfinished(settings.model).exists():
            log.warning("a lesson begun on the command line is unfinished: nothing can be taught")
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=Prompt,
            timeout_graceful_shutdown=GRACE,
        )
        Running(config, service, address(settings.host, listening)).run([listening])


def bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
    except (OSError, OverflowError) as error:
        raise OvorError(
            f"{host}:{port} cannot be served at ({getattr(error, 'strerror', None) or error}): "
            "choose another --host or --port (0 takes a free one)."
        ) from error
    return listening


def address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def start_log(debug: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if debug else logging.CRITICAL)


class Prompt(H11Protocol):
    """Closes a connection whose request has not told its headers in time."""

    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.calm()
        super().connection_lost(exc)

    def watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # a request has begun: its body is timed apart
            self.calm()
        elif self.late is None:
            self.late = self.loop.call_later(HEADERS, self.transport.close)

    def calm(self) -> None:
        if self.late:
            self.late.cancel()
        self.late = None


class Running(uvicorn.Server):
    """Ends at a signal, when the lesson that goes on has been saved; at a second one, without."""

    def __init__(self, config: uvicorn.Config, service: Service, address: str) -> None:
        super().__init__(config)
        self.service, self.address = service, address
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ending: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        print(f"Serving {self.service.settings.model} at {self.address}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.loop is None:
            self.should_exit = True
        else:
            self.loop.call_soon_threadsafe(self.begin_end)

    def begin_end(self) -> None:
        again, self.service.stopping = self.service.stopping, True
        self.ending.add(asyncio.create_task(self.cancel() if again else self.end()))

    async def end(self) -> None:
        if self.service.lessons.current:
            log.info("stopping when the lesson has been learned; again to cancel it")
        await self.service.lessons.finish()
        self.should_exit = True

    async def cancel(self) -> None:
        if self.service.lessons.current:
            log.info("cancelling the lesson")
            await self.service.lessons.cancel(self.service.lessons.current)
        for request in list(self.server_state.tasks):  # such as an upload that takes its time
            request.cancel()
