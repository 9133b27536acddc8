"""A server in a process of its own, and what clients send it."""

import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

import ovor.web.server  # noqa: F401 - once for all servers, which are forks of this process
from drawings import DRAWINGS
from ovor.cli import main

FIRST, SECOND = ["banana", "candle"], ["owl", "sun"]
SECONDS = 180  # for anything here, on a busy machine


def until(what: Callable[[], object]) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def begun(*calls: Callable[[], Any]) -> list[Future[Any]]:
    """Begin each call in a thread; `result` waits for one, and raises what went wrong in it.

    A bare thread would only warn of that, and write down its traceback by itself. While pytest
    writes one of its own that can end pytest: in Python 3.11 all threads that parse source count
    how deep they are in one number.
    """
    threads = ThreadPoolExecutor(len(calls))
    futures = [threads.submit(call) for call in calls]
    threads.shutdown(wait=False)
    return futures


@dataclass
class Live:
    process: ForkProcess
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
        """Return what the server has written to stderr so far."""
        return (self.folder / "stderr").read_text()

    def scratch(self) -> list[str]:
        """Return what is in the temporary folders, besides their locks."""
        return sorted(
            str(path.relative_to(self.folder / "tmp"))
            for path in (self.folder / "tmp").rglob("*")
            if path.name != "lock" and not path.name.startswith("ovor-serve-")
        )

    def scratch_bytes(self) -> int:
        """Return how many bytes are in the temporary folders."""
        paths = (self.folder / "tmp").rglob("*")
        return sum(path.stat().st_size for path in paths if path.is_file())

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/model").json()
        return found

    def predict(self, *images: bytes) -> httpx.Response:
        return self.client.post("/predict", files=files(images))

    def teach(self, classes: Sequence[str], each: int = 12, **fields: str) -> httpx.Response:
        images = [(name, image) for name in classes for image in drawn(name, each)]
        return self.client.post(
            "/lessons",
            files=files([image for _, image in images]),
            data={"labels": [name for name, _ in images], **fields},
        )

    def begin(self, **fields: str) -> str:
        """Begin a lesson that takes its time, and return its number when it learns."""
        number = str(self.teach(SECOND, epochs="1000", **fields).json()["id"])
        self.until(number, "learning")
        return number

    def lesson(self, number: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/lessons/{number}").json()
        return found

    def until(self, number: str, state: str) -> dict[str, Any]:
        """Wait for a state of a lesson; it must not end in another."""
        found: dict[str, Any] = {}

        def reached() -> bool:
            found.update(self.lesson(number))
            ended = found["state"] in ("done", "failed", "cancelled")
            assert found["state"] == state or not ended, found
            return bool(found["state"] == state)

        until(reached)
        return found

    def learn(self, classes: Sequence[str], **fields: str) -> dict[str, Any]:
        answer = self.teach(classes, **{"epochs": "2", **fields})
        assert answer.status_code == 202, answer.text
        return self.until(answer.json()["id"], "done")

    def child(self) -> int:
        """Return the process that learns."""
        until(lambda: self.children("lesson_process"))
        return self.children("lesson_process")[0]

    def children(self, module: str) -> list[int]:
        """Return the processes of the server that run a module."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = [int(number) for number in path.read_text().split()]
        return [n for n in found if module in Path(f"/proc/{n}/cmdline").read_text()]

    def send(self, sign: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, sign)

    def end(self, sign: int = signal.SIGTERM) -> int | None:
        self.send(sign)
        self.process.join(SECONDS)
        return self.process.exitcode


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
    folder: Path, *options: str, model: str = "m.ovor", open_files: int = 0, **environ: str
) -> Iterator[Live]:
    """Run `ovor serve` with a model of the folder; whatever the test leaves is ended."""
    (folder / "tmp").mkdir(exist_ok=True)
    reading, writing = os.pipe()
    argv = ["ovor", "serve", model, "--port", "0", *options]
    process = get_context("fork").Process(
        target=run, args=(folder, argv, environ, writing, open_files)
    )
    process.start()
    os.close(writing)
    try:
        with open(reading) as out:
            found = re.search(r"http://(\S+)", out.readline())
            assert found, (folder / "stderr").read_text()
            url = f"http://{found[1]}".replace("0.0.0.0", "127.0.0.1")
            with httpx.Client(base_url=url, timeout=SECONDS) as client:
                yield Live(process, url, folder, client)
    finally:
        process.kill()
        process.join()


def run(folder: Path, argv: list[str], environ: dict[str, str], out: int, files: int) -> None:
    """Become `ovor serve`, in a fork: importing torch anew takes longer than most tests."""
    # OpenMP's other threads stayed in the process that was forked: a second would be waited for.
    torch.set_num_threads(1)
    torch.set_num_threads = lambda count: None
    os.chdir(folder)
    os.environ.update(environ, TMPDIR=str(folder / "tmp"))
    tempfile.tempdir = None  # it was found for the process that this is a fork of
    os.dup2(out, 1)
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), 2)
    if files:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # which are open for other tests
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    sys.argv, sys.stdout, sys.stderr = argv, os.fdopen(1, "w"), os.fdopen(2, "w", 1)
    main()


def events(live: Live, number: str) -> list[dict[str, Any]]:
    with live.client.stream("GET", f"/lessons/{number}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = list(stream.iter_lines())
    assert all(line == "event: progress" for line in lines if line.startswith("event"))
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
