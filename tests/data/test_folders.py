import io
import struct
import zlib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from ovor.data import Dataset, load_dataset
from ovor.data.folders import Files
from ovor.data.images import SUFFIXES, read_image, to_rgb
from ovor.errors import OvorError


def paint(path: Path, color: str = "red", mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (6, 4), color).save(path)
    return path


def load(root: Path) -> Dataset:
    return load_dataset(f"folder:{root}")


def side(data: Dataset, name: str) -> set[str]:
    images = getattr(data, name)
    assert isinstance(images, Files)
    return {path.name for path in images.paths}


def center(path: Path) -> tuple[int, ...]:
    image = read_image(path)
    assert image.mode == "RGB"
    pixel = image.getpixel((image.width // 2, image.height // 2))
    assert isinstance(pixel, tuple)
    return pixel


def test_train_and_test_folders_are_taken_as_they_are(tmp_path: Path) -> None:
    for name in ("zebra", "ant"):
        paint(tmp_path / "train" / name / "1.png")
        paint(tmp_path / "train" / name / "deep" / "er" / "2.JPG")
    paint(tmp_path / "test" / "zebra" / "3.webp", "blue")
    data = load(tmp_path)
    assert data.class_names == ("ant", "zebra")
    assert data.train.labels.tolist() == [0, 0, 1, 1]
    assert data.test.labels.tolist() == [1]
    assert data.test.labels.dtype == np.int64
    red, _, blue = np.asarray(data.test.image(0)).mean((0, 1))
    assert blue > 200 > 50 > red


def test_every_usual_suffix_counts_and_nothing_else(tmp_path: Path) -> None:
    for suffix in ("jpg", "JPEG", "png", "webp", "gif", "bmp", "tif", "TIFF"):
        paint(tmp_path / "train" / "a" / f"x.{suffix}")
    paint(tmp_path / "train" / "a" / ".hidden.png")
    paint(tmp_path / "train" / "a" / ".cache" / "x.png")
    paint(tmp_path / "train" / ".thumbnails" / "x.png")
    (tmp_path / "train" / "a" / "notes.txt").write_text("no image")
    (tmp_path / "train" / "readme.md").write_text("no class")
    paint(tmp_path / "test" / "a" / "y.png")
    data = load(tmp_path)
    assert data.class_names == ("a",)
    assert len(data.train) == 8


def test_without_test_folder_about_a_fifth_is_kept_for_testing(tmp_path: Path) -> None:
    for k in range(400):
        path = tmp_path / f"class{k % 2}" / f"{k}.png"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    data = load(tmp_path)
    assert side(data, "train") | side(data, "test") == {f"{k}.png" for k in range(400)}
    assert len(data.train) + len(data.test) == 400
    assert 50 < len(data.test) < 110


def test_a_file_keeps_its_side_when_others_come_and_when_the_folder_moves(tmp_path: Path) -> None:
    def fill(root: Path, count: int) -> Dataset:
        (root / "a").mkdir(parents=True, exist_ok=True)
        for k in range(count):
            (root / "a" / f"{k}.png").touch()
        return load(root)

    few = fill(tmp_path / "here", 30)
    many = fill(tmp_path / "here", 60)
    moved = fill(tmp_path / "there", 30)
    for name in ("train", "test"):
        assert side(few, name) < side(many, name)
        assert side(few, name) == side(moved, name)


def test_every_class_keeps_a_training_image(tmp_path: Path) -> None:
    for k in range(60):
        (tmp_path / f"class{k}").mkdir()
        (tmp_path / f"class{k}" / "only.png").touch()
    data = load(tmp_path)
    assert data.train.labels.tolist() == list(range(60))
    assert len(data.test) == 0


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "1.png")
    paint(tmp_path / "bus" / "1.png")
    assert load(tmp_path).class_names == ("bus", "train")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OvorError, match=r"There is no folder .*nowhere"):
        load(tmp_path / "nowhere")


def test_images_without_class_folders_are_refused(tmp_path: Path) -> None:
    paint(tmp_path / "1.png")
    with pytest.raises(OvorError, match="no class folders"):
        load(tmp_path)


def test_empty_classes_are_named(tmp_path: Path) -> None:
    paint(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(OvorError, match="No images in 'dog'"):
        load(tmp_path)


def test_test_classes_that_are_never_trained_are_named(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "cat" / "1.png")
    paint(tmp_path / "test" / "cat" / "1.png")
    paint(tmp_path / "test" / "wolf" / "1.png")
    with pytest.raises(OvorError, match=r"'wolf' .*no training images"):
        load(tmp_path)


def test_train_without_test_is_not_taken_for_a_class(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "cat" / "1.png")
    paint(tmp_path / "val" / "cat" / "1.png")
    with pytest.raises(OvorError, match="not both 'train' and 'test'"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no image at all", b"\x89PNG\r\n\x1a\n broken"])
def test_an_unreadable_image_is_named(tmp_path: Path, content: bytes) -> None:
    paint(tmp_path / "train" / "a" / "fine.png")
    (tmp_path / "train" / "a" / "worse.png").write_bytes(content)
    paint(tmp_path / "test" / "a" / "fine.png")
    data = load(tmp_path)
    assert data.train.image(0).size == (6, 4)
    with pytest.raises(OvorError, match=r"worse\.png cannot be read"):
        data.train.image(1)


def test_a_truncated_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(OvorError, match=r"cut\.jpg cannot be read"):
        read_image(path)


def test_a_photo_that_lies_on_its_side_is_turned_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (60, 40), "black")
    image.paste("white", (0, 0, 30, 40))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    image.save(tmp_path / "side.jpg", exif=exif)
    upright = np.asarray(read_image(tmp_path / "side.jpg"))
    assert upright.shape == (60, 40, 3)
    assert upright[:25].mean() > 250
    assert upright[35:].mean() < 5


def test_transparent_pixels_show_white(tmp_path: Path) -> None:
    for mode, clear in (("RGBA", (9, 9, 9, 0)), ("LA", (9, 0))):
        Image.new(mode, (6, 4), clear).save(tmp_path / f"{mode}.png")
        assert center(tmp_path / f"{mode}.png") == (255, 255, 255)
    palette = Image.new("P", (6, 4), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(tmp_path / "opaque.png")
    palette.save(tmp_path / "clear.png", transparency=1)
    palette.save(tmp_path / "clear.gif", transparency=1)
    assert center(tmp_path / "opaque.png") == (10, 20, 30)
    assert center(tmp_path / "clear.png") == center(tmp_path / "clear.gif") == (255, 255, 255)


def test_half_transparent_red_on_white_is_pink(tmp_path: Path) -> None:
    Image.new("RGBA", (6, 4), (255, 0, 0, 51)).save(tmp_path / "pink.png")
    assert center(tmp_path / "pink.png") == (255, 204, 204)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_grey_keeps_its_shades(tmp_path: Path, suffix: str) -> None:
    for value, grey in ((0, 0), (128 * 257, 128), (65535, 255)):
        path = tmp_path / f"{value}.{suffix}"
        Image.fromarray(np.full((4, 6), value, np.uint16)).save(path)
        assert center(path) == (grey,) * 3


def test_grey_bilevel_and_cmyk_become_rgb(tmp_path: Path) -> None:
    Image.new("L", (6, 4), 77).save(tmp_path / "grey.png")
    Image.new("1", (6, 4), 1).save(tmp_path / "ink.png")
    Image.new("CMYK", (6, 4), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg", quality=100)
    assert center(tmp_path / "grey.png") == (77, 77, 77)
    assert center(tmp_path / "ink.png") == (255, 255, 255)
    red, green, blue = center(tmp_path / "cmyk.jpg")
    assert red > 240
    assert max(green, blue) < 15


def test_floating_point_pixels_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 6), 0.5, np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(OvorError, match=r"float\.tif cannot be read .*8 or 16 bits"):
        read_image(tmp_path / "float.tif")


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
        ours = read_image(path)
        assert ours.mode == "RGB"
        assert np.array_equal(np.asarray(ours), np.asarray(expected)), path.name
        assert np.array_equal(np.asarray(ours.crop((1, 2, 7, 8))), np.asarray(ours)[2:8, 1:7])


# --- every real kind of image, by its pixels

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
    image = read_image(path)
    assert image.mode == "RGB"
    assert np.asarray(image).shape == expected.shape
    assert np.abs(np.asarray(image, float) - expected).max() <= close


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_picture_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "half.png"
    content = KINDS[kind][0]
    path.write_bytes(content[: len(content) // 3])
    with pytest.raises(OvorError, match=r"half\.png cannot be read \(.+\): replace it"):
        read_image(path)


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
    lying.save(tmp_path / f"x.{kind}", exif=exif, **options)
    shown = np.asarray(read_image(tmp_path / f"x.{kind}"), float)
    assert shown.shape == (24, 16, 3)
    assert np.abs(shown - thrice(upright)).max() <= 2


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    Image.new("1", (9500, 9500)).save(tmp_path / "bomb.png")  # 11 kB, and 90 million pixels
    with pytest.raises(OvorError, match=r"bomb\.png has more than 89 million pixels"):
        read_image(tmp_path / "bomb.png")
