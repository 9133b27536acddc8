"""Every kind of image that people have, by its pixels; and what is said of what is no image."""

import io
import struct
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from ovor.data import images
from ovor.data.formats import SUFFIXES
from ovor.data.images import decode, to_rgb, upright_rgb
from ovor.errors import OvorError

NOISE = np.random.default_rng(1).integers(0, 256, (24, 36, 4), dtype=np.uint8)
COLOUR = Image.fromarray(NOISE[..., :3])
GREY = Image.fromarray(NOISE[..., 0])
CLEAR = Image.fromarray(NOISE)
FLAT = Image.new("RGB", (24, 16), (200, 60, 30))


def on_white(pixels: np.ndarray) -> np.ndarray:
    alpha = pixels[..., 3:] / 255
    return np.asarray(alpha * pixels[..., :3] + (1 - alpha) * 255)


def thrice(grey: np.ndarray) -> np.ndarray:
    return np.stack([grey] * 3, -1)


def saved(kind: str, image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of_16_bits(pixels: np.ndarray, colour_type: int) -> bytes:
    """Pillow does not write them in colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def palette() -> Image.Image:
    return COLOUR.quantize(16)


def one_clear_colour(kind: str) -> tuple[bytes, np.ndarray]:
    image = Image.new("P", (6, 4), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    return saved(kind, image, transparency=1), np.full((4, 6, 3), 255)


def clear_palette() -> tuple[bytes, np.ndarray]:
    """16 colours, each with its own transparency."""
    image = palette()
    alphas = bytes(range(0, 256, 17))
    colours = np.array(image.getpalette(), np.uint8)[: 16 * 3].reshape(16, 3)
    index = np.asarray(image)
    pixels = np.concatenate([colours, np.frombuffer(alphas, np.uint8)[:, None]], 1)[index]
    return saved("png", image, transparency=alphas), on_white(pixels)


BIG = NOISE.astype(np.uint16) * 257
TWO = {"save_all": True, "append_images": [FLAT.resize(COLOUR.size)]}
COLOURS, GREYS = np.asarray(COLOUR), thrice(np.asarray(GREY))
INK = GREY.point(lambda value: 255 * (value > 127)).convert("1")
CMYK = Image.frombytes("CMYK", (36, 24), NOISE.tobytes())
INVERTED = np.asarray((255 - NOISE[..., :3].astype(float)) * (255 - NOISE[..., 3:]) / 255)
FLATS = np.asarray(FLAT)
# What a file holds, what it shows, and by how much it may differ where coding is lossy.
KINDS: dict[str, tuple[bytes, np.ndarray, float]] = {
    "png": (saved("png", COLOUR), COLOURS, 0),
    "png grey": (saved("png", GREY), GREYS, 0),
    "png bilevel": (saved("png", INK), thrice(255 * np.asarray(INK)), 0),
    "png palette": (saved("png", palette()), np.asarray(palette().convert("RGB")), 0),
    "png alpha": (saved("png", CLEAR), on_white(NOISE), 1),
    "png grey alpha": (
        saved("png", Image.fromarray(NOISE[..., 2:])),
        on_white(NOISE[..., [2, 2, 2, 3]]),
        1,
    ),
    "png palette alpha": (*clear_palette(), 1),
    "png clear colour": (*one_clear_colour("png"), 0),
    "png 16 bit grey": (png_of_16_bits(BIG[..., 0], 0), GREYS, 0),
    "png 16 bit colour": (png_of_16_bits(BIG[..., :3], 2), COLOURS, 0),
    "png 16 bit alpha": (png_of_16_bits(BIG, 6), on_white(NOISE), 1),
    "png animated": (saved("png", COLOUR, **TWO), COLOURS, 0),
    "jpeg": (saved("jpeg", FLAT, quality=100, subsampling=0), FLATS, 3),
    "jpeg progressive": (saved("jpeg", FLAT, quality=100, progressive=True), FLATS, 3),
    "jpeg grey": (saved("jpeg", GREY, quality=100), GREYS, 4),
    "jpeg cmyk": (saved("jpeg", CMYK, quality=100), INVERTED, 9),
    "jpeg broken profile": (saved("jpeg", FLAT, quality=100, icc_profile=b"x" * 99), FLATS, 3),
    "jpeg broken exif": (saved("jpeg", FLAT, quality=100, exif=b"Exif\0\0II*\0xx"), FLATS, 3),
    "mpo": (saved("mpo", FLAT, quality=100, append_images=[Image.new("RGB", (24, 16))]), FLATS, 3),
    "webp": (saved("webp", COLOUR, lossless=True), COLOURS, 0),
    "webp lossy": (saved("webp", FLAT, quality=100), FLATS, 6),
    "webp alpha": (saved("webp", CLEAR, lossless=True, exact=True), on_white(NOISE), 1),
    "webp animated": (saved("webp", COLOUR, lossless=True, **TWO), COLOURS, 0),
    "gif": (saved("gif", palette()), np.asarray(palette().convert("RGB")), 0),
    "gif clear colour": (*one_clear_colour("gif"), 0),
    "gif animated": (saved("gif", GREY, save_all=True, append_images=[INK]), GREYS, 0),
    "bmp": (saved("bmp", COLOUR), COLOURS, 0),
    "bmp grey": (saved("bmp", GREY), GREYS, 0),
    "bmp bilevel": (saved("bmp", INK), thrice(255 * np.asarray(INK)), 0),
    "bmp palette": (saved("bmp", palette()), np.asarray(palette().convert("RGB")), 0),
    "tiff": (saved("tiff", COLOUR), COLOURS, 0),
    "tiff lzw": (saved("tiff", COLOUR, compression="tiff_lzw"), COLOURS, 0),
    "tiff fax": (saved("tiff", INK, compression="group4"), thrice(255 * np.asarray(INK)), 0),
    "tiff 16 bit": (saved("tiff", Image.fromarray(BIG[..., 0])), GREYS, 0),
    "tiff cmyk": (saved("tiff", CMYK), INVERTED, 1),
    "tiff alpha": (saved("tiff", CLEAR), on_white(NOISE), 1),
    "tiff pages": (saved("tiff", COLOUR, **TWO), COLOURS, 0),
}


@pytest.mark.parametrize("suffix", ["own", "jpg", "tif"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_read_as_a_viewer_shows_it(kind: str, suffix: str, tmp_path: Path) -> None:
    """Whatever its suffix says: many a PNG is called .jpg."""
    content, expected, close = KINDS[kind]
    path = tmp_path / f"x.{kind.split()[0] if suffix == 'own' else suffix}"
    path.write_bytes(content)
    image = decode(path, path)
    assert image.mode == "RGB"
    assert np.asarray(image).shape == expected.shape
    assert np.abs(np.asarray(image, float) - expected).max() <= close


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_picture_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "half.png"
    content = KINDS[kind][0]
    path.write_bytes(content[: len(content) // 3])
    with pytest.raises(OvorError, match=r"half\.png cannot be read \(.+\): replace it"):
        decode(path, path)


@pytest.mark.parametrize("turned", range(1, 9))
@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "tiff"])
def test_all_eight_ways_to_lie(kind: str, turned: int, tmp_path: Path) -> None:
    """By the definition of the tag: where row 0 and column 0 of what is stored are shown."""
    upright = np.kron(np.array([[0, 85], [170, 255], [40, 210]], np.uint8), np.ones((8, 8)))
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: upright.T[::-1],  # its first row is shown on the right
        7: upright[::-1, ::-1].T,
        8: upright.T[:, ::-1],  # its first row is shown on the left
    }[turned]
    exif = Image.Exif()
    exif[0x0112] = turned
    lying = Image.fromarray(np.ascontiguousarray(stored).astype(np.uint8)).convert("RGB")
    options = {"lossless": True} if kind == "webp" else {}
    path = tmp_path / f"x.{kind}"
    lying.save(path, exif=exif, **options)
    shown = np.asarray(decode(path, path), float)
    assert shown.shape == (24, 16, 3)
    assert np.abs(shown - thrice(upright)).max() <= 2


def test_no_copy_is_saved_at_the_expense_of_a_pixel(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (9, 14, 4), dtype=np.uint8))
    for suffix, mode, turned in product(SUFFIXES, ("RGB", "L", "P", "RGBA", "CMYK"), range(1, 9)):
        path, exif = tmp_path / f"{mode}{turned}{suffix}", Image.Exif()
        exif[0x0112] = turned
        try:
            noise.convert(mode).save(path, exif=exif)
        except (OSError, ValueError):  # not every format has every mode
            continue
        with Image.open(path) as image:
            expected = to_rgb(ImageOps.exif_transpose(image)).copy()
        ours = decode(path, path)
        assert ours.mode == "RGB"
        assert np.array_equal(np.asarray(ours), np.asarray(expected)), path.name
        assert np.array_equal(np.asarray(ours.crop((1, 2, 7, 8))), np.asarray(ours)[2:8, 1:7])


REFUSED: dict[str, tuple[bytes | None, str]] = {
    "gone": (None, "cannot be read, as there is no such file: check the path"),
    "empty": (b"", r"cannot be read \(it is empty, or no image\): replace it"),
    "no image": (b"no image at all", r"cannot be read \(it is empty, or no image\): replace it"),
    "broken header": (b"\x89PNG\r\n\x1a\n broken", "cannot be read .*: replace it"),
    "of another format": (saved("ppm", FLAT), "cannot be read .*no image"),
    "floating point": (
        saved("tiff", Image.fromarray(np.full((4, 6), 0.5, np.float32))),
        "cannot be read .*save it with 8 or 16 bits",
    ),
    # 11 kB, and 90 million pixels: refused before it is decoded.
    "bomb": (saved("png", Image.new("1", (9500, 9500))), "has more than 89 million pixels"),
}


@pytest.mark.parametrize(("content", "match"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_image_is_named(content: bytes | None, match: str, tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OvorError, match=rf"The image .*x\.png {match}"):
        decode(path, path)


def test_an_image_is_checked_before_it_is_decoded() -> None:
    def refuse(image: Image.Image) -> None:
        raise ValueError(f"{image.width} x {image.height}")

    broken = KINDS["png"][0][:100]
    with pytest.raises(ValueError, match="36 x 24"):
        upright_rgb(broken, refuse)
    assert upright_rgb(KINDS["png"][0]).size == (36, 24)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P", "L", "RGB", "I;16", "I"])
def test_bands_are_no_different_from_the_whole(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (37, 11, 4), np.uint8)
    if mode in ("I;16", "I"):
        deep = noise[..., 0].astype(np.uint16 if mode == "I;16" else np.int32) * 300
        image = Image.fromarray(deep)
    else:
        image = Image.fromarray(noise).convert(mode)
    transparency = {"P": 3, "L": 7, "RGB": tuple(int(x) for x in noise[0, 0, :3])}
    if mode in transparency:
        image.info["transparency"] = transparency[mode]
    whole = np.asarray(images.to_rgb(image))
    monkeypatch.setattr(images, "BAND", 50)  # four rows
    np.testing.assert_array_equal(np.asarray(images.to_rgb(image)), whole)
