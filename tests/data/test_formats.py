"""HEIC and AVIF where this machine can read them; other files are called what they are."""

import io
import os
import socket
import sys
import zipfile
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError, features

from ovor.data import formats
from ovor.data.formats import kind_of, missing, reader
from ovor.data.image_files import find_images, instead
from ovor.data.images import decode, to_image, upright_rgb
from ovor.errors import OvorError
from ovor.web.images import UnusableImage
from ovor.web.images import decode as decode_upload
from ovor.web.settings import Limits

FLAT = Image.new("RGB", (24, 16), (200, 60, 30))
avif = pytest.mark.skipif(not features.check("avif"), reason="this Pillow has no AVIF")


def saved(kind: str, image: Image.Image = FLAT) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, quality=95)
    return file.getvalue()


def box(brand: bytes, *others: bytes) -> bytes:
    """Return the beginning of a file of the kinds that films and telephones' photographs are."""
    content = b"ftyp" + brand + bytes(4) + b"".join(others)
    return (len(content) + 4).to_bytes(4) + content + bytes(100)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a machine whose Pillow reads neither HEIC nor AVIF."""
    Image.init()
    for name in formats.PLUGINS:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("AVIF", "HEIF"):
        monkeypatch.delitem(Image.OPEN, name, raising=False)
    monkeypatch.setattr(formats, "reader", reader.__wrapped__)
    monkeypatch.setattr("ovor.data.images.reader", reader.__wrapped__)


@avif
def test_avif_is_read_from_files_and_zips_and_found_in_folders(tmp_path: Path) -> None:
    path = tmp_path / "x.avif"
    path.write_bytes(saved("AVIF"))
    assert np.abs(np.asarray(to_image(path), float) - np.asarray(FLAT)).max() < 8
    assert find_images(tmp_path)[0] == [path]
    path.rename(tmp_path / "x.jpg")  # whatever it is called
    assert decode(tmp_path / "x.jpg", "x.jpg").size == FLAT.size


@pytest.mark.parametrize("turned", [1, 6])
def test_heic_is_read_upright_where_its_plugin_is(turned: int, tmp_path: Path) -> None:
    plugin = pytest.importorskip("pillow_heif")
    stored = np.kron(np.array([[0, 255, 90], [170, 40, 210]], np.uint8), np.ones((16, 16)))
    exif = Image.Exif()
    exif[0x0112] = turned
    lying = Image.fromarray(stored.astype(np.uint8)).convert("RGB")
    path = tmp_path / "x.heic"
    plugin.from_pillow(lying).save(path, quality=-1, exif=exif.tobytes())
    shown = np.asarray(to_image(path), float)[..., 0]
    assert np.abs(shown - (stored if turned == 1 else np.rot90(stored, -1))).max() <= 3


def test_without_a_reader_a_sentence_says_what_to_install(
    nothing_installed: None, tmp_path: Path
) -> None:
    path = tmp_path / "x.heic"
    path.write_bytes(box(b"heic", b"mif1"))
    with pytest.raises(OvorError, match=r"x\.heic is HEIC.*not installed: pip install pillow-heif"):
        to_image(path)
    path.write_bytes(box(b"avif", b"mif1"))
    with pytest.raises(OvorError, match=r"x\.heic is AVIF.*pip install --upgrade pillow"):
        to_image(path)


@avif
def test_uploads_are_never_opened_as_either(tmp_path: Path) -> None:
    content = saved("AVIF")
    assert to_image(_file(tmp_path, content)).size == FLAT.size  # even once it can be read
    with pytest.raises(UnusableImage, match=r"x\.avif is AVIF: send JPEG, PNG"):
        decode_upload("x.avif", content, Limits(), light=False)
    with pytest.raises(UnidentifiedImageError):
        upright_rgb(content)


def test_an_upload_that_is_an_archive_or_a_table_is_no_image(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("cat/1.png", saved("PNG"))
    table = b"path,label\n/etc/passwd,cat\n"
    for content, kind in (
        ((tmp_path / "a.zip").read_bytes(), "an archive"),
        (table, "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG drawing"),
        (box(b"isom"), "a video"),
    ):
        with pytest.raises(UnusableImage, match=f"x is {kind}: send JPEG"):
            decode_upload("x", content, Limits(), light=False)


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "upload"
    path.write_bytes(content)
    return path


OTHERS = {
    "pdf": (b"%PDF-1.7 ...", "is a PDF document, not an image that is read here"),
    "svg": (b'<?xml version="1.0"?>\n<svg width="1"/>', "is an SVG drawing"),
    "svg with a mark": (b"\xef\xbb\xbf\n<svg/>", "is an SVG drawing"),
    "mp4": (box(b"isom", b"mp42"), "is a video"),
    "mov": (box(b"qt  "), "is a video"),
    "mkv": (b"\x1aE\xdf\xa3....", "is a video"),
    "avi": (b"RIFF\0\0\0\0AVI LIST", "is a video"),
    "zip": (b"PK\x03\x04....", "is an archive"),
    "psd": (b"8BPS\0\1", "is a Photoshop file"),
    "web page": (b"\n<!DOCTYPE html><html>", "is a web page"),
    "mpeg": (b"\0\0\x01\xba", "is a video"),
    "wmv": (bytes.fromhex("3026b2758e66cf11"), "is a video"),
    "flv": (b"FLV\x01", "is a video"),
    "old mov": (b"\0\0\0\x08wide\0\0\0\x10mdat", "is a video"),
    "broadcast": (b"G" + bytes(187) + b"G", "is a video"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
    "cut heic": (box(b"heic", b"mif1"), "is HEIC"),
    "cut avif": (box(b"avif", b"mif1"), "is AVIF"),
    "xml": (b"<?xml version='1.0'?><x/>", r"cannot be read \(it is empty, or no image\)"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_called_what_they_are(kind: str, tmp_path: Path) -> None:
    content, match = OTHERS[kind]
    path = tmp_path / "x.jpg"
    path.write_bytes(content)
    with pytest.raises(OvorError, match=rf"x\.jpg {match}"):
        decode(path, path)


@pytest.mark.parametrize("kind", OTHERS)
def test_so_they_are_in_memory(kind: str) -> None:
    content, match = OTHERS[kind]
    with pytest.raises(OvorError, match=rf"in memory {match}"):
        to_image(content)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("x.svg", b"<!-- " + b"x" * 2000 + b"--><svg/>", "is an SVG drawing"),
        ("x.SVG", "<svg/>".encode("utf-16"), "is an SVG drawing"),
        ("x.svgz", b"\x1f\x8b\x08", "is an SVG drawing"),
        ("x.pdf", b"\n%PDF-1.7", "is a PDF document"),
        ("x.mp4", b"damaged", "is a video"),
        ("x.cr2", b"II*\0\x10\0\0\0CR", "is a camera's raw file"),
        ("x.tar.gz", b"\x1f\x8b\x08", "is an archive"),
        ("x.pdf", box(b"isom"), "is a video"),  # whatever it is called
    ],
)
def test_where_the_content_does_not_tell_the_name_does(
    name: str, content: bytes, match: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OvorError, match=match):
        to_image(tmp_path / name)


def test_a_folder_of_films_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    (tmp_path / "notes.txt").touch()
    said = instead(find_images(tmp_path)[1])
    assert said == f", where '{tmp_path / 'a.mp4'}' (a video) is none"
    (tmp_path / "a.mp4").unlink()
    assert instead(find_images(tmp_path)[1]) == ""


def test_nobody_waits_for_a_pipe_a_socket_or_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "link.png").symlink_to("a.png")
    with socket.socket(socket.AF_UNIX) as there, chdir(tmp_path):
        there.bind("s.png")
        for path, kind in (
            ("a.png", "a named pipe"),
            ("link.png", "a named pipe"),
            ("s.png", "a socket"),
            ("/dev/zero", "a device"),
        ):
            with pytest.raises(OvorError, match=f"{path} is {kind}, not a file: save what comes"):
                to_image(path)
        assert find_images(tmp_path)[0] == []


def test_a_box_that_says_nothing_or_too_much_is_no_trouble() -> None:
    for content in (b"", b"\0\0\0\x08ftyp", b"\xff\xff\xff\xffftypheic", b"\0\0\0\0ftypavif"):
        kind_of(content)
    assert kind_of(box(b"mif1", b"heic")) == "HEIC"
    assert kind_of(box(b"mif1", b"avif")) == "AVIF"


@pytest.mark.parametrize("address", ["http://a.b/c", "https:/a.b/c", "s3://a/b", "gs://a/b"])
def test_an_address_is_to_be_downloaded_first(address: str) -> None:
    with pytest.raises(OvorError, match=r"://a.* is an address, .*: download it first"):
        to_image(address)
    assert "There is no file C:/a: check" in str(missing("C:/a"))
