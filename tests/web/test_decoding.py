"""Decoders: the same pixels as Python's, whatever became of one of them or of an image before."""

import asyncio
import io
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PIL import Image

from benchmarks.hostile import deep_png, endless_jpeg, hollow_webp, large_jpeg
from ovor.config import Transform
from ovor.data.images import to_image
from ovor.data.transforms import test_view as view_of
from ovor.web import decoding
from ovor.web.decoding import Decoders
from ovor.web.errors import ImageFault
from ovor.web.form_reader import UploadedImage
from ovor.web.images import BYTES_PER_PIXEL, MOST_SCANS, WEBP_COUNTS, count_scans
from ovor.web.settings import Limits

from .live import drawn, png

T = TypeVar("T")
TRANSFORM = Transform(size=64, crop_pct=1)
BANANA = drawn("banana", 1)[0]
Use = Callable[[Decoders], Awaitable[T]]


def with_decoders(use: Use[T], limits: Limits | None = None) -> T:
    """Return what becomes of decoders that are started, used and ended."""

    async def run() -> T:
        decoders = Decoders(limits or Limits())
        try:
            await decoders.start()
            return await use(decoders)
        finally:
            decoders.close()

    return asyncio.run(run())


def sent(content: bytes, name: str = "a") -> UploadedImage:
    return UploadedImage(name, content, len(content))


async def fault(decoders: Decoders, content: bytes) -> str:
    [found] = await decoders.views([sent(content)], TRANSFORM)
    assert isinstance(found, ImageFault)
    return found.error


async def seen(decoders: Decoders, content: bytes = BANANA) -> bool:
    [found] = await decoders.views([sent(content)], TRANSFORM)
    return not isinstance(found, ImageFault)


def processes(decoders: Decoders, lane: str = "") -> list[int]:
    """Return the decoders that have nothing to do."""
    lanes = [decoders.light, decoders.heavy] if not lane else [getattr(decoders, lane)]
    queues = [list(found.idle._queue) for found in lanes]  # type: ignore[attr-defined]
    return [decoder.process for queue in queues for decoder in queue if decoder]


def saved(kind: str, side: int = 90) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 4), np.uint8)
    image, file = Image.fromarray(noise), io.BytesIO()
    modes = {"png": "RGBA", "webp": "RGBA", "tiff": "RGBA", "gif": "P", "jpeg": "RGB", "bmp": "RGB"}
    exif = Image.Exif()
    exif[0x0112] = 6  # it lies on its side
    more = {"exif": exif} if kind in ("jpeg", "png", "webp", "tiff") else {}
    image.convert(modes[kind]).save(file, kind, **more)
    return file.getvalue()


@pytest.mark.parametrize("side", [90, 2000], ids=["light", "heavy"])
def test_views_are_those_of_python(side: int) -> None:
    kinds = ("jpeg", "png", "webp", "gif", "bmp", "tiff")
    contents = [saved(kind, side) for kind in kinds]
    found = with_decoders(
        lambda decoders: decoders.views([sent(content) for content in contents], TRANSFORM)
    )
    for kind, content, view in zip(kinds, contents, found, strict=True):
        assert not isinstance(view, ImageFault), kind
        expected = np.asarray(view_of(to_image(Image.open(io.BytesIO(content))), TRANSFORM))
        np.testing.assert_array_equal(view, expected, kind)


def test_scans_are_counted_as_they_are() -> None:
    assert count_scans(saved("jpeg")) == 1
    file = io.BytesIO()
    Image.effect_noise((200, 200), 50).convert("RGB").save(file, "jpeg", progressive=True)
    assert 5 < count_scans(file.getvalue()) <= 20
    with_thumbnail = io.BytesIO()
    thumbnail = b"\xff\xda" * 20_000  # of a comment or a thumbnail: no scans of this image
    Image.new("RGB", (9, 9)).save(with_thumbnail, "jpeg", comment=thumbnail)
    assert count_scans(with_thumbnail.getvalue()) == 1
    assert count_scans(endless_jpeg(100, 3000)) == MOST_SCANS + 1
    for broken in (b"", b"\xff\xd8", b"\xff" * 100_000, b"\xff\xd8\xff\xda\0\0" * 100):
        assert count_scans(broken) <= MOST_SCANS + 1


def outlasting(seconds: float) -> tuple[bytes, int]:
    """Return an image that takes a processor like this one so long, and its pixels."""
    side, scans = 1500, MOST_SCANS - 12  # as many scans as are allowed
    small = Image.open(io.BytesIO(endless_jpeg(side, scans)))
    begun = time.process_time()
    small.load()
    side = int(side * (seconds / (time.process_time() - begun)) ** 0.5)
    return endless_jpeg(side, scans), side * side


def test_an_image_that_takes_too_long() -> None:
    """Its decoder is ended by the system, and another takes its place."""
    slow, pixels = outlasting(4)  # twice what the system gives it at most

    async def use(decoders: Decoders) -> None:
        before = processes(decoders)
        begun = time.monotonic()
        assert "takes too long" in await fault(decoders, slow)
        assert time.monotonic() - begun < 1 + 6 * decoders.limits.decoding_seconds + 5
        assert await seen(decoders, large_jpeg(2500))
        assert len(set(before) - set(processes(decoders))) == 1

    with_decoders(use, Limits(decoding_seconds=1, pixels=pixels))


def test_an_image_that_takes_too_much_memory() -> None:
    async def use(decoders: Decoders) -> None:
        for side in (900, 1300, 12_000):
            assert "more than the 1,000,000 pixels" in await fault(decoders, hollow_webp(side))
        assert await seen(decoders)

    with_decoders(use, Limits(pixels=1_000_000))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP])
@pytest.mark.parametrize("lane", ["light", "heavy"])
def test_decoders_that_end_or_hang(lane: str, sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LIGHT_SECONDS", 0.5)
    monkeypatch.setattr(decoding, "WALL", 1)
    large = large_jpeg(2500)

    async def use(decoders: Decoders) -> None:
        for process in processes(decoders, lane):
            os.kill(process, sign)
        if lane == "light":  # the heavy ones do its work
            assert await seen(decoders)
        else:
            assert "it is broken, or takes too long" in await fault(decoders, large)
        for _ in range(decoding.LIGHT):
            assert await seen(decoders)
        while not await seen(decoders, large):
            pass

    with_decoders(use, Limits(decoding_seconds=2))


def test_the_process_that_starts_decoders_ends() -> None:
    async def use(decoders: Decoders) -> None:
        decoders.nursery.process.kill()
        decoders.nursery.process.wait()
        for process in processes(decoders):
            os.kill(process, signal.SIGKILL)
        for _ in range(decoding.LIGHT + decoding.HEAVY):
            await seen(decoders)  # perhaps, as each of them has ended
        assert await seen(decoders)

    with_decoders(use)


@pytest.mark.parametrize("sign", [0, signal.SIGSTOP])
def test_nobody_is_left_behind(sign: int) -> None:
    async def use(decoders: Decoders) -> list[int]:
        await fault(decoders, b"no image")
        os.kill(decoders.nursery.process.pid, sign)
        return [*processes(decoders), decoders.nursery.process.pid]

    own = with_decoders(use)
    assert len(own) == decoding.LIGHT + decoding.HEAVY + 1
    end = time.monotonic() + 120
    while any(Path(f"/proc/{process}").exists() for process in own):
        assert time.monotonic() < end
        time.sleep(0.05)


MEMORY: dict[str, Callable[[int], bytes]] = {
    "jpeg": large_jpeg,
    "png": deep_png,
    "webp": hollow_webp,
    "gif": lambda side: as_file(Image.new("P", (side, side)), "gif", transparency=0),
    "tiff": lambda side: as_file(
        Image.new("RGBA", (side, side)), "tiff", compression="tiff_adobe_deflate"
    ),
}


def as_file(image: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


@pytest.mark.parametrize("kind", MEMORY)
def test_a_pixel_takes_no_more_bytes_than_is_said(kind: str) -> None:
    side = 3500
    content = MEMORY[kind](side)
    most = BYTES_PER_PIXEL * side**2 * (WEBP_COUNTS if kind == "webp" else 1)

    async def use(decoders: Decoders) -> None:
        own = processes(decoders)
        before = sum(memory(process) for process in own)
        assert await seen(decoders, content)
        assert set(processes(decoders)) == set(own)
        peak = max(memory(process, "VmHWM") for process in own)
        assert peak - before / len(own) < most + 2 * len(content) + 30e6
        assert sum(memory(process) for process in own) - before < 40e6

    with_decoders(use)


def memory(process: int, what: str = "VmRSS") -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def test_no_image_waits_behind_one_that_takes_long() -> None:
    slow = large_jpeg(4000)

    async def use(decoders: Decoders) -> None:
        many = [asyncio.create_task(seen(decoders, slow)) for _ in range(5)]
        await asyncio.sleep(0.2)
        quick = list(ordinary())
        begun = time.monotonic()
        assert all([await seen(decoders, content) for content in quick])
        took = time.monotonic() - begun
        assert not all(task.done() for task in many)
        assert took < 5
        assert all(await asyncio.gather(*many))

    with_decoders(use)


def ordinary() -> Iterator[bytes]:
    for shade in range(20):
        yield png(Image.new("L", (28, 28), shade))
