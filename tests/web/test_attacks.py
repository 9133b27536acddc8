"""What nobody should send: each row is refused, and the server goes on as before."""

import gzip
import io
import resource
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from PIL import Image, PngImagePlugin

from ovor.web.lesson_routes import MOST_LISTENERS

from .live import Live, drawn, files, png, serving, until

BANANA = drawn("banana", 1)[0]
FORM = "multipart/form-data; boundary=B"
Attack = Callable[[Live], int]  # the status that it gets


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def flat_png(width: int, height: int, rows: int) -> bytes:
    """Grey, with so many rows of pixels inside, in a few kilobytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(bytes(width + 1)) for _ in range(rows)) + packer.flush()
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def jpeg() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((200, 200), 50).save(file, "jpeg")
    return file.getvalue()


def wordy_png() -> bytes:
    file, info = io.BytesIO(), PngImagePlugin.PngInfo()
    info.add_text("Comment", "x" * 80_000_000, zip=True)
    Image.new("L", (28, 28)).save(file, "png", pnginfo=info)
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("0", bytes(50_000_000))
    return file.getvalue()


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


def part(content: bytes, name: str = "images", file: str = "a.png", more: str = "") -> bytes:
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n{more}\r\n'
    return head.encode("latin-1") + content + b"\r\n"


# --- ways to send


def image(content: bytes) -> Attack:
    return lambda live: live.predict(content).status_code


def lesson(content: bytes) -> Attack:
    def attack(live: Live) -> int:
        data = {"labels": ["cow"]}
        return live.client.post("/lessons", files=files([content]), data=data).status_code

    return attack


def body(content: bytes, kind: str = FORM, path: str = "/predict", **more: str) -> Attack:
    headers = {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in more.items()}}
    return lambda live: live.client.post(path, content=content, headers=headers).status_code


def chunked(size: int) -> Attack:
    def pieces() -> Iterator[bytes]:
        yield part(b"")[:-2]
        for _ in range(size // 2**16):
            yield bytes(2**16)

    def attack(live: Live) -> int:
        headers = {"Content-Type": FORM}
        return live.client.post("/predict", content=pieces(), headers=headers).status_code

    return attack


def raw(content: bytes, half_close: bool = False, hangs_up: bool = False) -> Attack:
    """By a socket; 0 if the server hung up without a word, perhaps before it was all sent."""

    def attack(live: Live) -> int:
        with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
            try:
                connection.sendall(content)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(4096)
            except ConnectionError:
                if not hangs_up:
                    raise
                return 0
        return int(answer.split()[1]) if answer else 0

    return attack


def request(length: int | str, content: bytes, path: str = "/predict") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    return head.encode() + content


def head(*headers: str) -> bytes:
    return "\r\n".join(("POST /predict HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


def many_labels(live: Live) -> int:
    label = b'--B\r\nContent-Disposition: form-data; name="labels"\r\n\r\ncow\r\n'
    return body(part(BANANA) + label * 100_000 + b"--B--\r\n", path="/lessons")(live)


def nested(depth: int) -> bytes:
    content = BANANA
    for level in range(depth):
        edge = f"n{level}".encode()
        inner = b"--" + edge + b"\r\n\r\n" + content + b"\r\n--" + edge + b"--"
        content = b"Content-Type: multipart/mixed; boundary=" + edge + b"\r\n\r\n" + inner
    return content


END = b"--B--\r\n"
WHOLE = part(BANANA) + END
BOMB = bomb()
HUGE = flat_png(10_000, 10_000, 10_000)  # 100 megapixels that are really there
CASES: dict[str, tuple[Attack, set[int]]] = {
    "zip bomb": (image(BOMB), {415}),
    "zip bomb as a lesson": (lesson(BOMB), {415}),
    "gzip body": (body(gzip.compress(WHOLE), Content_Encoding="gzip"), {415}),
    "gzip bomb": (body(gzip.compress(bytes(10**8), 1), Content_Encoding="gzip"), {415}),
    "gzip without saying so": (body(gzip.compress(WHOLE)), {400}),
    "100 megapixels": (image(HUGE), {413}),
    "100 megapixels as a lesson": (lesson(HUGE), {413}),
    "3.6 gigapixels": (image(flat_png(60_000, 60_000, 1)), {413}),
    "pixels that are not there": (image(flat_png(5000, 5000, 1)), {200, 422}),
    "svg with a script": (image(SVG), {415}),
    "svg as a lesson": (lesson(SVG), {415}),
    "eps, which is a program": (image(EPS), {415}),
    "pdf": (image(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), {415}),
    "html as image/png": (image(b"<!doctype html><script>alert(1)</script>"), {415}),
    "empty file": (image(b""), {422}),
    "empty file as a lesson": (lesson(b""), {422}),
    "truncated jpeg": (image(jpeg()[:2000]), {422}),
    "truncated png": (image(BANANA[:-30]), {422}),
    "png header alone": (image(BANANA[:20]), {415, 422}),
    "png with 80 MB of text": (image(wordy_png()), {422}),
    "image beyond its bytes": (image(b"\xff" * 6_000_000), {413}),
    "lesson beyond its bytes": (lesson(b"\xff" * 6_000_000), {413}),
    "content type missing": (body(WHOLE, ""), {415}),
    "content type of a form": (body(b"images=1", "application/x-www-form-urlencoded"), {415}),
    "content type json": (body(b"{}", "application/json"), {415}),
    "content type mixed": (body(WHOLE, "multipart/mixed; boundary=B"), {415}),
    "no boundary": (body(WHOLE, "multipart/form-data"), {400}),
    "empty boundary": (body(WHOLE, "multipart/form-data; boundary="), {400}),
    "other boundary": (body(WHOLE, "multipart/form-data; boundary=C"), {400}),
    "long boundary": (body(WHOLE, f"multipart/form-data; boundary={'B' * 5000}"), {400}),
    "odd boundary": (body(WHOLE, 'multipart/form-data; boundary="\\\\;=\\""'), {400}),
    "nothing": (body(b""), {400}),
    "no part": (body(END), {400, 422}),
    "no image": (body(b'--B\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--B--'), {422}),
    "no name": (body(b"--B\r\nContent-Disposition: form-data\r\n\r\n1\r\n--B--\r\n"), {400}),
    "no header": (body(b"--B\r\n\r\n1\r\n--B--\r\n"), {400}),
    "broken header": (body(b"--B\r\n\x00\x01: \xff\r\n\r\n1\r\n--B--\r\n"), {400}),
    "half a body": (body(WHOLE[:-40]), {400}),
    "without its end": (body(part(BANANA)), {400}),
    "half a lesson": (body(WHOLE[:-40], path="/lessons"), {400}),
    "hangs up": (raw(request(len(WHOLE), WHOLE[:100]), half_close=True), {0, 400}),
    "hangs up in a lesson": (raw(request(9999, WHOLE, "/lessons"), half_close=True), {0, 400}),
    "length too small": (raw(request(len(WHOLE) - 20, WHOLE)), {400}),
    "length negative": (raw(request(-1, WHOLE)), {400}),
    "length no number": (raw(request("many", WHOLE)), {400}),
    "length too large for anything": (raw(request(10**30, b"")), {400, 413}),
    "length of 10 GB": (raw(request(10**10, b"x")), {413}),
    "chunked over the limit": (chunked(40_000_000), {413}),
    "body over the limit": (body(part(bytes(31_000_000)) + END), {413}),
    "10,000 tiny files": (body(part(b"x") * 10_000 + END), {413}),
    "10,000 tiny files to learn": (body(part(b"x") * 10_000 + END, path="/lessons"), {413}),
    "100,000 labels": (many_labels, {413}),
    "long field name": (body(part(b"x", name="n" * 100_000) + END), {400, 413}),
    "long file name": (body(part(BANANA, file="n" * 100_000) + END), {400, 413}),
    "many headers": (body(part(b"x", more="X-A: b\r\n" * 5000) + END), {400, 413}),
    "long label": (body(part(BANANA) + part(b"x" * 10**6, "labels") + END, path="/lessons"), {413}),
    "label not UTF-8": (body(part(BANANA) + part(b"\xff", "labels") + END, path="/lessons"), {422}),
    "label missing": (body(WHOLE, path="/lessons"), {422}),
    "label twice": (body(part(BANANA) + part(b"a", "labels") * 2 + END, path="/lessons"), {422}),
    "label with NUL": (body(part(BANANA) + part(b"a\0b", "labels") + END, path="/lessons"), {422}),
    "deep nesting": (
        body(part(nested(200), more="Content-Type: multipart/mixed\r\n") + END),
        {415},
    ),
    "a path in the address": (
        lambda live: live.client.get("/static/..%2fapp.py").status_code,
        {404},
    ),
    "a file beside": (lambda live: live.client.get("/static/nothing.js").status_code, {404}),
    "no HTTP": (
        raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n"),
        {400},
    ),
    "two lengths": (raw(head("Content-Length: 5", "Content-Length: 6") + b"hello"), {400}),
    "length and chunks": (
        raw(
            head("Content-Length: 5", "Transfer-Encoding: chunked")
            + b"0\r\n\r\nGET /model HTTP/1.1"
        ),
        {415},
    ),
    "unknown coding": (raw(head("Transfer-Encoding: xchunked") + b"0\r\n\r\n"), {400, 501}),
    "two hosts": (raw(head("Host: evil.example")), {400}),
    "long header": (raw(head("X: " + "y" * 10**6), hangs_up=True), {0, 400}),
    "100,000 headers": (raw(head(*["X: y"] * 100_000), hangs_up=True), {0, 400}),
    "long chunk extension": (
        raw(head("Transfer-Encoding: chunked") + b"1;" + b"x" * 10**6, hangs_up=True),
        {0, 400, 415},
    ),
    "part of line ends": (body(part(b"\r\n--" * 10**6) + END), {415}),
    "line ends before the first part": (body(b"\r\n" * 10**6 + WHOLE), {200}),
    "line ends after the last part": (body(WHOLE + b"\r\n" * 10**6), {200}),
    "long address": (lambda live: live.client.get("/" + "a" * 60_000).status_code, {400, 404}),
}


@pytest.mark.parametrize("name", CASES)
def test_attacks(shared: Live, name: str) -> None:
    attack, statuses = CASES[name]
    assert attack(shared) in statuses
    still_well(shared)


def test_requests_that_never_end(place: Path) -> None:
    with serving(place, "--max-seconds", "0.5") as live:
        for path in ("/predict", "/lessons"):
            assert raw(request(len(WHOLE), WHOLE[:50], path))(live) == 408
            still_well(live)


def still_well(live: Live) -> None:
    with httpx.Client(base_url=live.url, timeout=20) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        answer = client.post("/predict", files=files([BANANA]))
        assert answer.json()["predictions"][0]["label"] == "banana"
        metrics = client.get("/metrics").text
    assert "ovor_queue_images 0.0" in metrics
    assert live.scratch() == []
    assert "Traceback" not in live.said()
    assert "mistake in ovor" not in live.said()
    assert live.said() == ""  # nobody can fill the log


NAMES = {
    "../../../etc/passwd": "../../../etc/passwd",
    "..\\\\..\\\\x.png": None,
    "a\0b.png": None,
    "/etc/shadow": "/etc/shadow",
    "<script>alert(1)</script>.png": "<script>alert(1)</script>.png",
    "%00%0d%0a": None,
    "x" * 1000: "x" * 100 + "...",
    "": "image 1",
    "\u202egnp.exe": None,
    "a\r\nX-Evil: 1": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_labels_and_nothing_else(shared: Live, name: str) -> None:
    disposition = f'form-data; name="images"; filename="{name}"'.encode()
    content = b"--B\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + BANANA + b"\r\n" + END
    answer = shared.client.post("/predict", content=content, headers={"Content-Type": FORM})
    assert answer.status_code in (200, 400), answer.text
    assert "x-evil" not in answer.headers
    if answer.status_code == 200:
        row = answer.json()["predictions"][0]
        assert row["label"] == "banana"
        assert NAMES[name] in (None, row["image"])
        assert all(ord(c) >= 32 for c in row["image"])
    still_well(shared)


def test_a_lesson_named_like_paths(shared: Live) -> None:
    """Refused for another reason: what was written for it had numbers for names, and is gone."""
    sent = [("images", ("../../x.png", BANANA, "image/png"))] * 2
    answer = shared.client.post("/lessons", files=sent, data={"labels": ["../x", "unknown"]})
    assert answer.status_code == 422
    assert not (shared.folder / "x.png").exists()
    assert not (shared.folder / "tmp" / "x.png").exists()
    still_well(shared)


def test_memory_does_not_grow_with_what_is_refused(shared: Live) -> None:
    def resident() -> int:
        with open(f"/proc/{shared.process.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    white = png(Image.new("RGB", (1000, 1000)))
    shared.predict(*[white] * 5)
    before = resident()
    shared.predict(*[white] * 60)  # 180 MB if they were all decoded at once
    assert resident() - before < 60e6


def test_a_disk_that_is_full(place: Path) -> None:
    with serving(place) as live:
        assert live.process.pid is not None
        limits = resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (10_000, limits[1]))
        noise = png(Image.effect_noise((300, 300), 50))
        answer = live.client.post("/lessons", files=files([noise]), data={"labels": ["cow"]})
        assert answer.status_code == 503
        assert str(place) not in answer.text
        resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, limits)
        still_well(live)


def test_too_many_listeners_of_a_lesson(slow: Live) -> None:
    number = slow.begin()
    path = f"/lessons/{number}/events"
    ask = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with ExitStack() as stack:
        found = []
        for _ in range(MOST_LISTENERS + 20):
            connection = socket.create_connection(("127.0.0.1", slow.port), timeout=20)
            stack.enter_context(connection).sendall(ask)
            found.append(int(connection.recv(15).split()[1]))
        assert found.count(200) == MOST_LISTENERS
        assert found.count(429) == 20
        assert slow.predict(BANANA).status_code == 200
    until(lambda: slow.client.delete(f"/lessons/{number}").status_code in (200, 409))
