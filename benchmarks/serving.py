"""`ovor serve` under load: 16 clients ask while a task is taught, while somebody sends files and
opens connections to spoil it (`python -m benchmarks.serving`: that alone); and too small a queue.

Every response is compared with what the model of its version predicts, so that one made by half an
old and half a new model would show.
"""

import io
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

import httpx
import numpy as np
from PIL import Image

from benchmarks.harness import Row
from benchmarks.hostile import hostile
from ovor.classifier.model import Classifier
from ovor.data.embedded import quickdraw, write_drawings

CLIENTS = 16
FIRST = ("banana", "candle", "fish", "clock", "castle")
SECOND = ("owl", "sun", "whale", "vase", "windmill")
ASKED = 40  # different images
IDLE = 200  # connections of an attacker
CLOSE = 1e-3  # confidences that batches of other sizes round otherwise


@dataclass(frozen=True)
class Response:
    """What a client was told about an image, when, and how long it took; status 0: nothing."""

    when: float
    seconds: float
    status: int
    image: int
    version: int = 0
    name: str = ""
    confidence: float = 0.0
    retry_after: str = ""


@dataclass
class Load:
    """All responses that clients got, and when the lesson began and ended."""

    responses: list[Response] = field(default_factory=list)
    taught: tuple[float, float] = (0.0, 0.0)
    states: list[str] = field(default_factory=list)

    def part(self, name: str) -> list[Response]:
        begun, ended = self.taught
        spans = {"before": (0.0, begun), "while": (begun, ended), "after": (ended, float("inf"))}
        low, high = spans[name]
        return [a for a in self.responses if low <= a.when < high and a.status == 200]


@contextmanager
def server(model: Path, *options: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ovor", "serve", model.name, "--port", "0", *options],
        cwd=model.parent,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(model.parent)},
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        process.wait(60)


def prepare(folder: Path) -> tuple[Path, list[bytes]]:
    """Make a model of five classes, and return it with images to ask about."""
    drawings = quickdraw()
    write_drawings(drawings, folder / "first", FIRST, 40, "train")
    Classifier("embedded", device="cpu").learn(folder / "first").save(folder / "m.ovor")
    chosen = np.random.default_rng(0).choice(len(drawings.test), ASKED, replace=False)
    images = []
    for index in chosen:
        file = io.BytesIO()
        drawings.test.item(int(index)).save(file, "png")
        images.append(file.getvalue())
    return folder / "m.ovor", images


def ask(client: httpx.Client, image: int, content: bytes) -> Response:
    begun = time.monotonic()
    try:
        response = client.post("/predict", files={"images": ("a.png", content, "image/png")})
    except httpx.HTTPError:
        return Response(begun, time.monotonic() - begun, 0, image)
    seconds = time.monotonic() - begun
    if response.status_code != 200:
        retry = response.headers.get("retry-after", "")
        return Response(begun, seconds, response.status_code, image, retry_after=retry)
    said = response.json()
    best = said["predictions"][0]["best"][0]
    return Response(begun, seconds, 200, image, said["version"], best["class"], best["confidence"])


def drive(url: str, images: list[bytes], until: threading.Event, load: Load, clients: int) -> None:
    """Let all clients ask, one image after the other, until told to end."""

    def one(number: int) -> None:
        draw = np.random.default_rng(number)
        with httpx.Client(base_url=url, timeout=60) as client:
            while not until.is_set():
                image = int(draw.integers(len(images)))
                load.responses.append(ask(client, image, images[image]))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def teach(url: str, folder: Path, epochs: int, load: Load) -> None:
    paths = sorted(folder.glob("*/*.png"))
    files = [("images", (path.name, path.read_bytes(), "image/png")) for path in paths]
    data = {"labels": [path.parent.name for path in paths], "epochs": str(epochs)}
    begun = time.monotonic()
    with httpx.Client(base_url=url, timeout=60) as client:
        where = client.post("/lessons", files=files, data=data).raise_for_status().json()["url"]
        while (state := client.get(where).json()["state"]) not in ("done", "failed", "cancelled"):
            time.sleep(0.1)
    load.taught = begun, time.monotonic()
    load.states.append(state)


def under_load(seconds: float, folder: Path, epochs: int, each: int) -> tuple[Load, int]:
    """Return the load, and how many responses are not what the model of their version predicts."""
    model, images = prepare(folder)
    write_drawings(quickdraw(), folder / "second", SECOND, each, "train")
    old = model.read_bytes()
    load, until = Load(), threading.Event()
    with server(model) as url:
        clients = threading.Thread(target=drive, args=(url, images, until, load, CLIENTS))
        clients.start()
        time.sleep(seconds / 6)
        teach(url, folder / "second", epochs, load)
        time.sleep(max(seconds / 6, seconds - (time.monotonic() - load.responses[0].when)))
        until.set()
        clients.join()
    (folder / "old.ovor").write_bytes(old)
    expected = [predicted(folder / name, images) for name in ("old.ovor", "m.ovor")]
    wrong = sum(
        not right(response, expected) for response in load.responses if response.status == 200
    )
    return load, wrong


def predicted(model: Path, images: list[bytes]) -> list[tuple[str, float]]:
    """Return the best class of each image and its confidence, by the model itself."""
    opened = [Image.open(io.BytesIO(content)) for content in images]
    found = Classifier.load(model, device="cpu").classify(opened)
    return list(zip(found.labels.tolist(), found.confidences.tolist(), strict=True))


def right(response: Response, expected: list[list[tuple[str, float]]]) -> bool:
    name, confidence = expected[response.version - 1][response.image]
    return response.name == name and abs(response.confidence - confidence) < CLOSE


@contextmanager
def attack(url: str) -> Iterator[list[int]]:
    """Send each hostile file all the time, beside idle connections; yield the statuses."""
    until, statuses = threading.Event(), list[int]()
    host, port = url.removeprefix("http://").split(":")

    def send(content: bytes) -> None:
        files = {"images": ("a.png", content, "image/png")}
        with httpx.Client(base_url=url, timeout=120) as client:
            while not until.is_set():
                try:
                    statuses.append(client.post("/predict", files=files).status_code)
                except httpx.HTTPError:
                    statuses.append(0)

    def idle() -> None:
        while not until.is_set():
            with ExitStack() as stack:
                for _ in range(IDLE):
                    stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
                until.wait(5)

    threads = [threading.Thread(target=send, args=(file,)) for file in hostile().values()]
    threads.append(threading.Thread(target=idle))
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        until.set()
        for thread in threads:
            thread.join()


def under_attack(seconds: float, folder: Path) -> tuple[Load, Load, list[int]]:
    """Return the load of ordinary clients without and with an attack, and what the latter got."""
    model, images = prepare(folder)
    loads = Load(), Load()
    with server(model) as url:
        drive_for(seconds / 6, url, images, loads[0])
        with attack(url) as statuses:
            drive_for(seconds, url, images, loads[1])
    return *loads, statuses


def drive_for(seconds: float, url: str, images: list[bytes], load: Load) -> None:
    until = threading.Event()
    threading.Timer(seconds, until.set).start()
    drive(url, images, until, load, CLIENTS)


def measure_attack(seconds: float) -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        quiet, load, statuses = under_attack(seconds, Path(folder))
    failed = sum(response.status != 200 for response in load.responses)
    yield Row("under attack: requests", "", (float(len(load.responses)),), "")
    yield Row("  failed", "", (float(failed),), "", at_most=0)
    for name, responses in (("without", quiet.responses), ("with", load.responses)):
        middle, high = milliseconds(responses)
        yield Row(f"  p50 {name} it", "", (middle,), "ms")
        yield Row(f"  p99 {name} it", "", (high,), "ms", at_most=1000 if name == "with" else None)
    yield Row("  files of the attacker", "", (float(len(statuses)),), "", at_least=1)


def too_small(seconds: float, folder: Path) -> Load:
    """Return the load of a server that lets two images wait."""
    model, images = prepare(folder)
    load = Load()
    with server(model, "--queue", "2") as url:
        drive_for(seconds, url, images, load)
    return load


def milliseconds(responses: list[Response]) -> tuple[float, float]:
    """Return the median of the seconds, and what one in a hundred exceeds."""
    cuts = quantiles([1000 * response.seconds for response in responses], n=100, method="inclusive")
    return cuts[49], cuts[98]


def measure(quick: bool) -> Iterator[Row]:
    seconds, epochs, each = (10.0, 4, 20) if quick else (60.0, 20, 80)
    with TemporaryDirectory() as folder:
        load, wrong = under_load(seconds, Path(folder), epochs, each)
    failed = sum(response.status != 200 for response in load.responses)
    yield Row(f"requests of {CLIENTS} clients", "", (float(len(load.responses)),), "")
    yield Row("  failed", "", (float(failed),), "", at_most=0)
    yield Row("  answered wrong", "", (float(wrong),), "", at_most=0)
    yield Row("  lessons not done", "", (float(load.states.count("done") != 1),), "", at_most=0)
    for name in ("before", "while", "after"):
        responses = load.part(name)
        span = "" if name == "while" else " the lesson"
        words = {"while": "while it learns"}.get(name, name + span)
        middle, high = milliseconds(responses)
        yield Row(f"  {words}: p50", "", (middle,), "ms")
        yield Row(f"  {words}: p99", "", (high,), "ms")
    yield from measure_attack(seconds)
    with TemporaryDirectory() as folder:
        load = too_small(seconds / 10, Path(folder))
    refused = [response for response in load.responses if response.status == 429]
    others = [response for response in load.responses if response.status not in (200, 429)]
    told = all(response.retry_after.isdecimal() for response in refused)
    yield Row("queue of 2: answered", "", (float(len(load.part("after"))),), "", at_least=1)
    yield Row("  told to come again (429)", "", (float(len(refused)),), "", at_least=1)
    yield Row(
        "  without Retry-After, or failed", "", (float(len(others) + (not told)),), "", at_most=0
    )


if __name__ == "__main__":
    rows = list(measure_attack(60.0))
    for row in rows:
        print(f"{row.what:26} {row.middle:10,.1f} {row.unit}")
    sys.exit(any(row.met is False for row in rows))
