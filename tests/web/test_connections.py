"""Connections that send nothing, too little or too slowly, or read nothing, keep nobody out."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from ovor.web import connections, security

from .live import Live, drawn, files, serving, until

BANANA = files(drawn("banana", 1))
HALF = (
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    b"Content-Type: multipart/form-data; boundary=B\r\n\r\n--B\r\n"
)


@contextmanager
def opened(live: Live, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that have sent something, and then nothing."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", live.port), timeout=60)
            found.append(stack.enter_context(connection))
            connection.sendall(first)
        yield found


def closed(connection: socket.socket) -> bool:
    """Tell whether the server has closed a connection, whatever it said before."""
    connection.settimeout(5)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def prompt(live: Live) -> None:
    """Ask as an ordinary client, by a connection of its own: it is answered soon."""
    begun = time.monotonic()
    with httpx.Client(base_url=live.url, timeout=60) as client:
        response = client.post("/predict", files=BANANA)
    assert response.status_code == 200, response.text
    assert time.monotonic() - begun < 8  # on a busy machine; never, or 20 s, without care


@pytest.mark.parametrize(
    "first",
    [b"", b"GET /healthz HTTP/1.1\r\nHost:", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["nothing", "half a header", "one request"],
)
def test_200_idle_connections_with_128_files(place: Path, first: bytes) -> None:
    with serving(place, open_files=128) as live:
        prompt(live)
        with opened(live, 200, first):
            for _ in range(5):
                prompt(live)
        assert len(live.said().splitlines()) <= 2, live.said()[:2000]


def test_half_requests_make_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FRESH_SECONDS", 0.2)
    with serving(place, open_files=128) as live, opened(live, 200, HALF):
        time.sleep(0.3)
        for _ in range(5):
            prompt(live)


def test_with_no_room_a_client_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that have just begun are not closed for others."""
    monkeypatch.setattr(connections, "FRESH_SECONDS", 60)
    room = 128 - connections.ACCEPTED * connections.TURNS - connections.OTHER_FILES
    with serving(place, open_files=128) as live:
        for wait in (0.3, 1, 3, 9):  # until the server has read what they sent: else they are idle
            with opened(live, room, HALF):
                time.sleep(wait)
                response = httpx.get(f"{live.url}/healthz", timeout=60)
            until(lambda: httpx.get(f"{live.url}/healthz").status_code == 200)
            if response.status_code == 503:
                break
        assert response.status_code == 503
        assert "too many connections" in response.json()["error"]
        assert response.headers["retry-after"] == "2"


def test_headers_that_never_end(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(place) as live:
        for first in (b"", b"GET / HTTP/1.1\r\nHost:", asked, asked + b"GET / HT"):
            with opened(live, 1, first) as [slow]:
                assert closed(slow)
        prompt(live)


def test_a_body_that_drips_on_after_its_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1)
    monkeypatch.setattr(security, "DRAIN_SECONDS", 0.1)
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    with serving(place) as live, opened(live, 1, head) as [slow]:
        assert slow.recv(4096).startswith(b"HTTP/1.1 404")

        def hung_up() -> bool:
            try:
                slow.sendall(b"x")
            except ConnectionError:
                return True
            return False

        end = time.monotonic() + 60
        while not hung_up():
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_body_that_stops(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(security, "DRAIN_SECONDS", 0.1)
    with serving(place) as live, opened(live, 1, HALF) as [slow]:
        answer = slow.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408")
        answer += slow.recv(4096)
        assert b"Nothing arrived for" in answer
        prompt(live)


def test_answers_that_nobody_reads(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's memory holds little of them, and not for long."""
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 1)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(place) as live, ExitStack() as stack:
        deaf = []
        for _ in range(10):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", live.port))
            connection.setblocking(False)
            for _ in range(200):
                try:
                    connection.send(asked)
                except BlockingIOError:
                    break
            deaf.append(connection)
        prompt(live)
        until(lambda: sockets(live) <= 3)
        prompt(live)


def sockets(live: Live) -> int:
    """Count the connections that the server's process holds."""
    links = list(Path(f"/proc/{live.process.pid}/fd").iterdir())
    found = {name for link in links if (name := read(link)).startswith("socket:")}
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    port = f":{live.port:04X}"
    rows = [row.split() for row in table]
    own = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "01"}
    return len(found & own)


def read(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""
