"""Start a server from its settings: the socket, the signals, the log."""

import asyncio
import logging
import socket
import sys
from types import FrameType

import uvicorn

from ovor.classifier.lock import check_place, checkpoint_of
from ovor.errors import OvorError
from ovor.web.app import make_app
from ovor.web.connections import ACCEPTED, Complaints, ImpatientProtocol, look_after
from ovor.web.security import is_loopback
from ovor.web.service import Service
from ovor.web.settings import Settings

GRACE_SECONDS = 30  # that requests have to end
BACKLOG = 1024  # connections that the system keeps until they are taken
log = logging.getLogger("ovor.web")


def serve(settings: Settings) -> None:
    """Serve a model until a signal ends it."""
    if not (settings.token or settings.ask_token) and not is_loopback(settings.host):
        raise OvorError(
            f"Whoever reaches {settings.host} could teach the model: set a token (OVOR_TOKEN, or "
            "--token), or serve this machine alone (--host 127.0.0.1)."
        )
    start_log(settings.debug)
    check_place(settings.model)
    with listen(settings.host, settings.port) as listening:
        service = Service(settings)
        if checkpoint_of(settings.model).exists():
            log.warning("a lesson begun on the command line is unfinished: nothing can be taught")
        if service.predictor.served.empty:
            log.info("there is no %s yet: the first lesson makes it", settings.model)
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            http=ImpatientProtocol,
            loop="asyncio",
            backlog=ACCEPTED,  # which is also how many asyncio takes at a time
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        Server(config, service, url(settings.host, listening)).run([listening])


def listen(host: str, port: int) -> socket.socket:
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


def url(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def start_log(debug: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a line for a broken body
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if debug else logging.CRITICAL)


class Server(uvicorn.Server):
    """Stops at a signal when the lesson that goes on is saved; at a second signal cancels it."""

    def __init__(self, config: uvicorn.Config, service: Service, url: str) -> None:
        super().__init__(config)
        self.service, self.url = service, url
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(Complaints())
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)
        print(f"Serving {self.service.settings.model} at {self.url}", flush=True)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            look_after(self.server_state.connections)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.loop is None:
            self.should_exit = True
        else:
            self.loop.call_soon_threadsafe(self.begin_stop)

    def begin_stop(self) -> None:
        again, self.service.stopping = self.service.stopping, True
        self.stopping.add(
            asyncio.create_task(self.cancel_all() if again else self.stop_after_lesson())
        )

    async def stop_after_lesson(self) -> None:
        if self.service.lessons.current:
            log.info("stopping when the lesson has been learned; again to cancel it")
        await self.service.lessons.finish()
        self.should_exit = True

    async def cancel_all(self) -> None:
        if self.service.lessons.current:
            log.info("cancelling the lesson")
            await self.service.lessons.cancel(self.service.lessons.current)
        for request in list(self.server_state.tasks):  # such as an upload that takes its time
            request.cancel()
