"""Which files are images, what other files are called, and how a reader's error is said.

Pillow knows more kinds than are read here, some of them programs. HEIC and AVIF are read where this
machine's Pillow can; what strangers send is never opened as one of those.
"""

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePath

from PIL import Image, UnidentifiedImageError

from ovor.errors import OvorError

MODERN = (".heic", ".heif", ".hif", ".avif")
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", *MODERN)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
PLUGINS = ("pillow_heif", "pi_heif")  # either teaches Pillow to read HEIC
TEXT_SUFFIXES = (".txt",)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # a Path has one slash of two left
HEAD = 1024  # bytes by which a file is told

# What files are that people keep beside photographs, by their suffixes.
OTHERS = {
    "an SVG drawing": (".svg", ".svgz"),
    "a PDF document": (".pdf",),
    "a video": (".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".3gp"),
    "a camera's raw file": (".cr2", ".cr3", ".nef", ".arw", ".dng", ".orf", ".rw2", ".raf"),
    "a Photoshop file": (".psd",),
    "a JPEG XL image": (".jxl",),
    "a JPEG 2000 image": (".jp2", ".j2k"),
    "an archive": (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar"),
}
IMAGE_HEADS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*")
BY_SUFFIX = {suffix: kind for kind, suffixes in OTHERS.items() for suffix in suffixes}
BY_HEAD = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "an archive"),
    (b"\x1f\x8b", "an archive"),
    (b"\x1aE\xdf\xa3", "a video"),
    (b"8BPS", "a Photoshop file"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (b"\0\0\x01\xba", "a video"),  # MPEG, and next of it without sound
    (b"\0\0\x01\xb3", "a video"),
    (b"0&\xb2u\x8ef\xcf\x11", "a video"),  # Windows Media
    (b"FLV\x01", "a video"),
    (b"OggS", "a video"),
    (b"version https://git-lfs", "a pointer of Git LFS (git lfs pull fetches what it points to)"),
)
QUICKTIME = (b"moov", b"mdat", b"wide", b"free", b"skip")  # what old films begin with
PAGE = re.compile(rb"\s*<(!doctype html|html|head|body)\b", re.IGNORECASE)
SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


@dataclass(frozen=True)
class FileKind:
    """Files of one kind, told by their names."""

    one: str
    many: str
    suffixes: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Tell by its name whether a file is of this kind; hidden files are not."""
        return name.lower().endswith(self.suffixes) and not name.startswith(".")


IMAGE_FILES = FileKind("image", "images", SUFFIXES)
TEXT_FILES = FileKind("text", "texts", TEXT_SUFFIXES)
is_image = IMAGE_FILES.has


def with_kind(path: PurePath) -> str:
    """Quote a path for a sentence, with what it is if its suffix says that."""
    kind = BY_SUFFIX.get(path.suffix.lower())
    return repr(str(path)) + (f" ({kind})" if kind else "")


def kind_of(head: bytes, name: str = "") -> str | None:
    """Return what a file is that is no usual image, by its first bytes, else by its name."""
    found, named = _kind_by_head(head), BY_SUFFIX.get(PurePath(name).suffix.lower())
    return named or found if found in (None, "an archive") else found


def _kind_by_head(head: bytes) -> str | None:
    if head[4:8] == b"ftyp":
        box = head[8 : int.from_bytes(head[:4])]
        brands = {box[i : i + 4] for i in (0, *range(8, len(box), 4))}  # after the first a version
        if brands & {b"avif", b"avis"}:
            return "AVIF"
        return "HEIC" if box[:4] in HEIC else "a video"
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return "a video"
    if head[4:8] in QUICKTIME or (head[:1] == b"G" and head[188:189] == b"G"):  # or broadcast
        return "a video"
    if PAGE.match(head):
        return "a web page"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"<svg" in head:
        return "an SVG drawing"
    return next((kind for start, kind in BY_HEAD if head.startswith(start)), None)


@lru_cache
def reader(kind: str) -> str | None:
    """Return Pillow's name of what reads HEIC or AVIF here, once it is at hand; None without."""
    Image.init()
    if kind == "HEIC" and "HEIF" not in Image.OPEN:
        for name in PLUGINS:
            try:
                import_module(name).register_heif_opener()
                break
            except ImportError:
                continue
    name = {"HEIC": "HEIF"}.get(kind, kind)
    return name if name in Image.OPEN else None


def check_is_file(path: Path) -> None:
    """Refuse what one could wait for for ever; that nothing is there is found when it is opened."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    kind = SPECIAL.get(stat.S_IFMT(mode))
    if kind:
        raise OvorError(
            f"{path} is {kind}, not a file: save what comes from it as a file, and give that."
        )


def unreadable(name: object, kind: str) -> OvorError:
    """Say what a file is, and what to do with it."""
    if kind == "HEIC":
        return OvorError(
            f"The image {name} is HEIC, as telephones make it, and what reads it is not installed: "
            "pip install pillow-heif, or save it as JPEG."
        )
    if kind == "AVIF":
        return OvorError(
            f"The image {name} is AVIF, which this Pillow cannot read: pip install --upgrade "
            "pillow (11.3 or later), or save it as JPEG."
        )
    return OvorError(
        f"{name} is {kind}, not an image that is read here: save what it shows as JPEG or PNG, or "
        "remove it."
    )


def missing(path: object, what: str = "file") -> OvorError:
    """Say that nothing is there, and of an address that nothing is downloaded."""
    if ADDRESS.match(str(path)):
        address = re.sub(r":/(?!/)", "://", str(path), count=1)
        return OvorError(
            f"{address} is an address, and nothing is downloaded here: download it first, and give "
            "the path of what you have then."
        )
    return OvorError(f"There is no {what} {path}: check the path.")


def reason(error: Exception) -> str:
    """Say an error in brackets after a path: on one line, without the path that some repeat."""
    if isinstance(error, UnidentifiedImageError):
        return "it is empty, or no image"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()).rstrip(".") or type(error).__name__
