"""Image files that are made to spoil a server: small to send, and dear to decode.

`ovor serve` has to go on as if nobody had sent them (`benchmarks/serving.py`, `tests/web`).
"""

import io
import re
import struct
import zlib

from PIL import Image

SCAN = re.compile(rb"\xff\xda")


def endless_jpeg(side: int = 2000, scans: int = 6000, size: int = 800_000) -> bytes:
    """Return a progressive JPEG whose last scan comes again and again, each through all pixels."""
    file = io.BytesIO()
    Image.new("L", (side, side), 90).save(file, "jpeg", progressive=True)
    content = file.getvalue()
    last = [found.start() for found in SCAN.finditer(content)][-1]
    one = content[last:-2]
    filler = b"\xff\xfe\xff\xff" + bytes(65533)  # a comment, so that the file is not too small
    jpeg = content[:last] + one * scans
    jpeg += filler * max(0, (size - len(jpeg)) // len(filler))
    return jpeg + b"\xff\xd9"


def hollow_webp(side: int = 7000) -> bytes:
    """Return a lossless WebP of one colour: some 40 bytes for as many pixels as one likes."""
    file = io.BytesIO()
    Image.new("RGBA", (side, side), (9, 9, 9, 128)).save(
        file, "webp", lossless=True, method=0, quality=0
    )
    return file.getvalue()


def png(header: tuple[int, int, int, int], rows: bytes, *others: tuple[bytes, bytes]) -> bytes:
    """Return a PNG of width, height, bits and kind of colour, of packed rows and other chunks."""
    width, height, bits, colour = header
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)),
        *others,
        (b"IDAT", rows),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(size: int) -> bytes:
    """Return so many zeros as zlib packs them, a thousandth of it."""
    packer = zlib.compressobj(9)
    pieces = [packer.compress(bytes(2**20)) for _ in range(size // 2**20)]
    return b"".join(pieces) + packer.compress(bytes(size % 2**20)) + packer.flush()


def deep_png(side: int = 7000) -> bytes:
    """Return a transparent PNG of 16 bits a channel, the most that a pixel can have."""
    return png((side, side, 16, 6), packed(side * (side * 8 + 1)))


def crowded_png(chunks: int = 80_000) -> bytes:
    """Return a small PNG with as many chunks as fit: each has to be looked at before the first."""
    return png((28, 28, 8, 0), packed(28 * 29), *[(b"abCd", b"")] * chunks)


def repeating_tiff(tags: int = 2000, size: int = 900_000) -> bytes:
    """Return a TIFF whose tags all have the same large value, which is read once for each."""
    data = 8 + 2 + 12 * (tags + 5) + 4
    known = [(256, 4, 1, 28), (257, 4, 1, 28), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, data)]
    many = [(40_000 + number, 7, size - data, data) for number in range(tags)]
    entries = b"".join(struct.pack("<HHII", *entry) for entry in known + many)
    head = b"II*\0" + struct.pack("<IH", 8, len(known) + tags)
    return head + entries + bytes(4) + bytes(size - data)


def dear_tiff(side: int = 7000) -> bytes:
    """Return a TIFF of one strip, packed a thousand times."""
    file = io.BytesIO()
    Image.new("CMYK", (side, side)).save(file, "tiff", compression="tiff_adobe_deflate")
    return file.getvalue()


def large_jpeg(side: int = 7000) -> bytes:
    """Return a large progressive JPEG with all that takes memory: four channels, none coarser."""
    file = io.BytesIO()
    Image.new("CMYK", (side, side)).save(file, "jpeg", progressive=True, quality=1)
    return file.getvalue()


def hostile() -> dict[str, bytes]:
    """Return one of each, by what it is."""
    return {
        "jpeg of 6,000 scans": endless_jpeg(),
        "hollow webp": hollow_webp(),
        "hollow webp of two thirds": hollow_webp(5700),
        "deep png": deep_png(),
        "crowded png": crowded_png(),
        "repeating tiff": repeating_tiff(),
        "dear tiff": dear_tiff(),
        "large jpeg": large_jpeg(),
    }
