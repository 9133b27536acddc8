"""A real server in a process of its own, and what clients send it."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from drawings import DRAWINGS

FIRST, SECOND = ["banana", "candle"], ["owl", "sun"]


@dataclass
class Live:
    process: subprocess.Popen[str]
    url: str
    folder: Path
    client: httpx.Client

    @property
    def model(self) -> Path:
        return self.folder / "m.ovor"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def said(self) -> str:
        """On stderr so far."""
        return (self.folder / "stderr").read_text()

    def scratch(self) -> list[str]:
        """What is in the temporary folders, besides their locks."""
        return sorted(
            str(path.relative_to(self.folder / "tmp"))
            for path in (self.folder / "tmp").rglob("*")
            if path.name not in ("lock",) and not path.name.startswith("ovor-serve-")
        )

    def predict(self, *images: bytes) -> httpx.Response:
        return self.client.post("/predict", files=files(images))

    def teach(self, classes: Sequence[str], each: int = 12, **fields: str) -> httpx.Response:
        images = [(name, image) for name in classes for image in drawn(name, each)]
        return self.client.post(
            "/tasks",
            files=files([image for _, image in images]),
            data={"labels": [name for name, _ in images], **fields},
        )

    def task(self, number: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/tasks/{number}").json()
        return found

    def until(self, number: str, *states: str, seconds: float = 60) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while (found := self.task(number))["state"] not in states:
            assert time.monotonic() < end, found
            assert found["state"] not in ("done", "failed", "cancelled"), found
            time.sleep(0.02)
        return found

    def learn(self, classes: Sequence[str], each: int = 12, **fields: str) -> dict[str, Any]:
        answer = self.teach(classes, each, **fields)
        assert answer.status_code == 202, answer.text
        return self.until(answer.json()["id"], "done")

    def child(self) -> int:
        """The process that learns."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        end = time.monotonic() + 20
        while not (found := path.read_text().split()):
            assert time.monotonic() < end
            time.sleep(0.02)
        return int(found[0])

    def end(self, sign: int = signal.SIGTERM, seconds: float = 60) -> int:
        self.process.send_signal(sign)
        return self.process.wait(seconds)


def files(images: Sequence[bytes]) -> list[tuple[str, tuple[str, bytes, str]]]:
    return [("images", (f"{i}.png", image, "image/png")) for i, image in enumerate(images)]


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()


def drawn(name: str, each: int, part: str = "train") -> list[bytes]:
    images = DRAWINGS.train if part == "train" else DRAWINGS.test
    own = np.flatnonzero(images.labels == DRAWINGS.class_names.index(name))[:each]
    return [png(images.image(int(index))) for index in own]


@contextmanager
def serving(
    folder: Path, *options: str, model: str = "m.ovor", env: dict[str, str] | None = None
) -> Iterator[Live]:
    """Serves a model of the folder; whatever the test leaves is ended."""
    (folder / "tmp").mkdir(exist_ok=True)
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ovor", "serve", model, "--port", "0", *options],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "TMPDIR": str(folder / "tmp"), **(env or {})},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://(\S+)", line)
        assert found, (folder / "stderr").read_text()
        url = f"http://{found[1]}".replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=url, timeout=60) as client:
            yield Live(process, url, folder, client)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def events(live: Live, number: str) -> list[dict[str, Any]]:
    with live.client.stream("GET", f"/tasks/{number}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = list(stream.iter_lines())
    assert all(line == "event: progress" for line in lines if line.startswith("event"))
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
