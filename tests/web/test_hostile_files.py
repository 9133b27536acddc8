"""Files that are made to spoil the server: bounded in time and memory, and nobody else notices."""

import io
import random
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import httpx
import pytest
from PIL import Image

from benchmarks.hostile import (
    crowded_png,
    dear_tiff,
    deep_png,
    endless_jpeg,
    hollow_webp,
    large_jpeg,
    packed,
    png,
    repeating_tiff,
)
from ovor.web.images import BYTES_PER_PIXEL, WEBP_COUNTS

from .live import Live, begun, drawn, files, serving
from .test_attacks import still_well

BANANA = drawn("banana", 1)[0]
ROWS = packed(28 * 29)  # of a grey image of 28 x 28
PROMPT = 5  # seconds, on a machine that does other things; benchmarks/serving.py measures it


def in_background(live: Live, contents: list[bytes]) -> list[Future[httpx.Response]]:
    send = partial(httpx.post, f"{live.url}/predict", timeout=120)
    return begun(*[partial(send, files=files([content])) for content in contents])


def slowest(live: Live, requests: int = 10) -> float:
    """Return the longest that an ordinary client waits for an answer."""
    longest = 0.0
    with httpx.Client(base_url=live.url, timeout=120) as client:
        for _ in range(requests):
            before = time.monotonic()
            assert client.post("/predict", files=files([BANANA])).status_code == 200
            longest = max(longest, time.monotonic() - before)
    return longest


def memory(live: Live) -> int:
    """Return the bytes that the server and its decoders have in memory."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True).stdout
    rows = [tuple(map(int, line.split())) for line in listed.splitlines()[1:]]
    own = {live.process.pid}
    for _ in range(3):
        own |= {pid for pid, parent, _ in rows if parent in own}
    return sum(size for pid, _, size in rows if pid in own) * 1024


def test_a_jpeg_of_6000_scans_twice(place: Path) -> None:
    with serving(place) as live:
        before = time.monotonic()
        sent = in_background(live, [endless_jpeg()] * 2)
        assert slowest(live) < PROMPT
        for answer in sent:
            answer.result()
        assert time.monotonic() - before < 20
        answer = live.predict(endless_jpeg())
        assert answer.status_code == 422
        assert "more than 100 passes" in answer.json()["error"]
        still_well(live)


def test_images_that_are_as_dear_as_they_may_be(place: Path) -> None:
    with serving(place) as live:
        sent = in_background(live, [endless_jpeg(3000, 80), large_jpeg(3000), crowded_png()] * 2)
        assert slowest(live, 20) < PROMPT
        for answer in sent:
            answer.result()
        still_well(live)


def test_eight_hollow_webps_at_once(place: Path) -> None:
    """As large as they may be: two at a time, and then the memory is given back."""
    pixels = 20_000_000
    side = int((pixels / WEBP_COUNTS) ** 0.5)
    one = BYTES_PER_PIXEL * pixels
    with serving(place, "--max-pixels", str(pixels)) as live:
        live.predict(BANANA)
        before = highest = memory(live)
        sent = in_background(live, [hollow_webp(side)] * 8)
        while not all(answer.done() for answer in sent):
            highest = max(highest, memory(live))
            time.sleep(0.05)
        assert 0.5 * one < highest - before < 2 * one + 100e6
        assert memory(live) - before < 100e6
        assert live.predict(hollow_webp(side + 1)).status_code == 413
        still_well(live)


def test_requests_of_large_images_leave_places_to_others(place: Path) -> None:
    """They wait apart: the queue is not full because of them."""
    with serving(place, "--queue", "4") as live:
        large = files([large_jpeg(3000)] * 4)

        [sent] = begun(lambda: httpx.post(f"{live.url}/predict", files=large, timeout=120))
        time.sleep(0.3)
        assert slowest(live, 20) < PROMPT
        sent.result()
        still_well(live)


def test_a_large_request_that_stops_leaves_memory_to_small_ones(place: Path) -> None:
    with serving(place, "--max-request-bytes", "3000000") as live:
        head = b'--B\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        arrived = threading.Event()
        until = threading.Event()

        def pieces() -> object:
            yield head + bytes(2_990_000)
            arrived.set()
            until.wait(20)

        def send() -> None:
            kind = {"Content-Type": "multipart/form-data; boundary=B"}
            httpx.post(f"{live.url}/predict", content=pieces(), headers=kind, timeout=60)  # type: ignore[arg-type]

        [sent] = begun(send)
        assert arrived.wait(20)
        time.sleep(0.3)
        assert live.predict(*[BANANA] * 30).status_code == 200
        until.set()
        sent.result()


def saved(kind: str, image: Image.Image | None = None, **more: object) -> bytes:
    file = io.BytesIO()
    (image or Image.effect_noise((60, 60), 50).convert("RGB")).save(file, kind, **more)
    return file.getvalue()


def with_exif(entries: list[tuple[int, int, int, int]], after: int = 0) -> bytes:
    """Return a JPEG with an EXIF directory; after it comes the one at another place."""
    packed_entries = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    exif = b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed_entries
    exif += struct.pack("<I", after)
    jpeg = saved("jpeg")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + jpeg[2:]


def many_strips(count: int) -> bytes:
    """Return a TIFF of one column, each pixel a strip of its own."""
    data = 8 + 2 + 12 * 9 + 4
    entries = [(256, 4, 1, 1), (257, 4, 1, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    entries += [(273, 4, count, data), (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, count, data)]
    head = b"II*\0" + struct.pack("<IH", 8, len(entries))
    directory = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return head + directory + bytes(4) + struct.pack("<I", 8) * count


def bmp(width: int, height: int, data: bytes, bits: int = 24, packing: int = 0) -> bytes:
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, packing, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, 54) + head + data


def gif(screen: tuple[int, int], frame: tuple[int, int, int, int]) -> bytes:
    """Return a GIF whose screen and whose frame have sizes of their own."""
    content = bytearray(saved("gif", Image.new("P", (2, 2))))
    content[6:10] = struct.pack("<HH", *screen)
    place = content.index(b",", 13) + 1
    content[place : place + 8] = struct.pack("<HHHH", *frame)
    return bytes(content)


def moving(kind: str) -> bytes:
    frames = [Image.new("RGB", (32, 32), (i % 255, i // 255, 0)) for i in range(1000)]
    more = {"method": 0} if kind == "webp" else {}
    return saved(kind, frames[0], save_all=True, append_images=frames[1:], **more)


FILES: dict[str, tuple[Callable[[], bytes], set[int]]] = {
    "png, a gigabyte of profile": (
        lambda: png((28, 28, 8, 0), ROWS, (b"iCCP", b"x\0\0" + packed(10**9))),
        {422},
    ),
    "png, 80 texts of a megabyte": (
        lambda: png((28, 28, 8, 0), ROWS, *[(b"zTXt", b"k\0\0" + packed(10**6))] * 80),
        {422},
    ),
    "png of 80,000 chunks": (crowded_png, {200}),
    "png, 16 bits and transparent": (lambda: deep_png(4000), {200}),
    "png of one row": (lambda: png((9_000_000, 1, 8, 0), packed(9_000_001)), {200}),
    "png of one column": (lambda: png((1, 9_000_000, 8, 0), packed(18_000_000)), {200}),
    "exif that leads in circles": (
        lambda: with_exif([(0x112, 3, 1, 6), (0x8769, 4, 1, 8), (0x8825, 4, 1, 8)], after=8),
        {200},
    ),
    "exif of 5,000 large values": (
        lambda: with_exif([(0x8000 + i, 7, 60_000, 100) for i in range(5000)]),
        {200},
    ),
    "exif that lies no known way": (lambda: with_exif([(0x112, 3, 1, 99)]), {200}),
    "tiff of 100,000 strips": (lambda: many_strips(100_000), {200}),
    "tiff that repeats a value": (repeating_tiff, {200, 415, 422}),
    "tiff packed a thousand times": (lambda: dear_tiff(3000), {200}),
    "gif of an absurd screen": (lambda: gif((65_535, 65_535), (0, 0, 2, 2)), {413}),
    "gif, a frame beyond its screen": (lambda: gif((2, 2), (0, 0, 60_000, 60_000)), {413}),
    "gif, a frame far away": (lambda: gif((2, 2), (65_000, 65_000, 500, 500)), {413}),
    "bmp from the top": (lambda: bmp(28, -28, bytes(28 * 28 * 3)), {200}),
    "bmp of negative width": (lambda: bmp(-28, 28, bytes(28 * 28 * 3)), {413, 422}),
    "bmp of the most height": (lambda: bmp(7000, -(2**31), bytes(99)), {413, 422}),
    "bmp of nothing, packed": (lambda: bmp(7000, 7000, b"\0\0" * 7000, 8, 1), {422}),
    "webp of 1,000 frames": (lambda: moving("webp"), {200}),
    "png of 1,000 frames": (lambda: moving("png"), {200}),
    "gif of 1,000 frames": (lambda: moving("gif"), {200}),
    "jpeg as wide as can be": (lambda: saved("jpeg", Image.new("L", (65_500, 400))), {200}),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files(shared: Live, name: str) -> None:
    make, statuses = FILES[name]
    content = make()
    sent = in_background(shared, [content] * 2)
    assert slowest(shared, 3) < PROMPT
    assert shared.predict(content).status_code in statuses
    for answer in sent:
        answer.result()
    still_well(shared)


def test_files_with_mistakes_in_them(shared: Live) -> None:
    """None of them is a mistake of the server, whatever is wrong with it."""
    chance = random.Random(0)
    kinds = [saved(kind) for kind in ("jpeg", "png", "webp", "gif", "bmp", "tiff")]
    kinds.append(saved("jpeg", progressive=True))
    for _ in range(12):
        spoilt = [spoil(content, chance) for content in kinds]
        answer = shared.predict(*spoilt)
        assert answer.status_code in (200, 413, 415, 422)
        rows = answer.json().get("predictions") or answer.json()["images"]
        assert len(rows) == len(kinds)
    still_well(shared)


def spoil(content: bytes, chance: random.Random) -> bytes:
    cut = chance.randrange(1, len(content)) if chance.random() < 0.3 else len(content)
    spoilt = bytearray(content[:cut])
    for _ in range(chance.choice((1, 3, 20))):
        reach = min(len(spoilt), chance.choice((60, len(spoilt))))
        spoilt[chance.randrange(reach)] = chance.randrange(256)
    return bytes(spoilt)
