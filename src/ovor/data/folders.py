"""A data set from folders of image files: PATH/train/CLASS and PATH/test/CLASS, or PATH/CLASS.

For anyone's own images, and for the paper's data sets once unpacked; classes are sorted by name.
"""

import hashlib
import os
import unicodedata
import warnings
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ovor.data.base import Dataset, Integers
from ovor.errors import OvorError

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # Pillow knows more, some of them programs
SPLITS = {"train", "test", "val", "valid", "validation"}
TEST_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Files:
    """Image files, read when asked for."""

    paths: tuple[Path, ...]
    labels: Integers

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> Image.Image:
        return read_image(self.paths[index])

    def origin(self, index: int) -> bytes | None:
        """For the cache: the file by its name and times, as reading it takes longer."""
        path = self.paths[index]
        try:
            stat = path.stat()
        except OSError:
            return None
        return f"{stat.st_size} {stat.st_mtime_ns} ".encode() + os.fsencode(path.absolute())


def read_image(path: Path) -> Image.Image:
    return decoded(path, path)


def decoded(source: Path | IO[bytes], name: object) -> Image.Image:
    """The picture as a viewer shows it: upright, on white where it is transparent, in RGB.

    `name` is for sentences about it, and becomes text only there.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow can mend is no news
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source, formats=FORMATS) as image:
                image.load()  # here, where what is broken is caught
                turn_upright(image)
                return to_rgb(image)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise OvorError(
            f"The image {name} has more than {(Image.MAX_IMAGE_PIXELS or 0) // 10**6} million "
            "pixels, which could fill the memory: make it smaller, or remove it."
        ) from error
    except FileNotFoundError as error:
        raise OvorError(
            f"The image {name} cannot be read, as there is no such file: check the path."
        ) from error
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise OvorError(
            f"The image {name} cannot be read ({reason(error)}): replace it by a whole copy, or "
            "remove it."
        ) from error


def turn_upright(image: Image.Image) -> None:
    try:
        ImageOps.exif_transpose(image, in_place=True)  # else it is copied even if upright
    except Exception:  # the pixels are whole, and without its EXIF a picture shows as it lies
        return


def reason(error: Exception) -> str:
    """In brackets after a path: without the path, which some errors repeat, and on one line."""
    if isinstance(error, UnidentifiedImageError):
        return "it is empty, or no image"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(said.split()).rstrip(".") or type(error).__name__


def to_rgb(image: Image.Image) -> Image.Image:
    if not all(image.size):
        raise ValueError("it has no pixel")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed white; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # 16-bit grey; Pillow's own conversion may clip it to white
        high_bytes = np.asarray(image).clip(0, 65535) >> 8
        image = Image.fromarray(high_bytes.astype(np.uint8))
    elif image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")  # convert always copies


def folder(path: str) -> Dataset:
    root = at_home(path)
    if not path:  # it would be the current folder
        raise OvorError("folder: names no folder: write folder:PATH.")
    if not root.is_dir():
        raise OvorError(f"There is no folder {root}: give the path of one with a folder per class.")
    name = f"folder:{path}"
    if (root / "train").is_dir() and (root / "test").is_dir():
        return _given_split(name, _classes(root / "train"), _classes(root / "test"), root)
    classes = _classes(root)
    if classes.keys() <= SPLITS:  # else they would silently be learned as classes
        raise OvorError(
            f"{root} has {listed(list(classes))} but not both 'train' and 'test': "
            "add the missing one, or give the folder that holds the class folders."
        )
    return _own_split(name, classes, root)


def _classes(root: Path) -> dict[str, list[Path]]:
    return find_classes(root)[0]


def find_classes(root: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """The image files of every class folder, however deep they lie in it; and the other files."""
    entries = sorted(root.iterdir())
    hidden = (".", "__MACOSX")  # the latter comes of archives made on a Mac
    folders = [path for path in entries if path.is_dir() and not path.name.startswith(hidden)]
    if not folders:
        raise OvorError(f"{root} has no class folders: put the images of each class in one.")
    classes: dict[str, list[Path]] = {}
    others = [path for path in entries if path not in folders]
    for folder in folders:
        name = class_name(folder)
        if name in classes:
            raise OvorError(f"Two folders of {root} are both called {name!r}: rename one of them.")
        classes[name], strange = find_images(folder)
        others += strange
    empty = [name for name, paths in classes.items() if not paths]
    if empty:
        raise OvorError(
            f"No images in {listed(empty)} of {root}: "
            f"add some ({' '.join(SUFFIXES)}) or remove the folder."
        )
    return classes, others


def class_name(folder: Path) -> str:
    """The folder's name, with accents as one character each: some systems write them as two."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        shown = folder.name.encode("utf-8", "surrogateescape")
        raise OvorError(f"The folder {shown!r} has a name that is not UTF-8: rename it.") from None
    return as_name(folder.name)


def as_name(text: str) -> str:
    """With accents as one character each, however they were typed."""
    return unicodedata.normalize("NFC", text)


def at_home(path: str | Path) -> Path:
    """With the home folder for a ~; unlike `Path.expanduser`, a file may be called ~x.jpg."""
    return Path(os.path.expanduser(path))


def find_images(folder: Path) -> tuple[list[Path], list[Path]]:
    """Image files in the folder and below it; and the others, hidden ones among them.

    Links to folders are not followed, as they may lead in circles; what is no regular file, such as
    a pipe, is no image whatever its name.
    """
    found: list[Path] = []
    others: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_closed):
        left = [n for n in folders if n.startswith(".") or os.path.islink(os.path.join(parent, n))]
        others += [Path(parent, name) for name in left]
        folders[:] = [name for name in folders if name not in left]
        for name in names:
            path = Path(parent, name)
            image = name.lower().endswith(SUFFIXES) and not name.startswith(".")
            (found if image and path.is_file() else others).append(path)
    return sorted(found), sorted(others)


def _closed(error: OSError) -> None:
    """Without it a folder that may not be read would count as empty."""
    raise OvorError(
        f"The folder {error.filename} cannot be read ({error.strerror}): change its permissions, "
        "or remove it."
    ) from error


def _given_split(
    name: str, train: dict[str, list[Path]], test: dict[str, list[Path]], root: Path
) -> Dataset:
    strange = sorted(test.keys() - train.keys())
    if strange:
        raise OvorError(
            f"{listed(strange)} of {root / 'test'} has no training images: "
            f"add a folder of that name to {root / 'train'} or remove it."
        )
    class_names = tuple(train)
    return Dataset(name, class_names, _files(class_names, train), _files(class_names, test))


def _own_split(name: str, classes: dict[str, list[Path]], root: Path) -> Dataset:
    """About one file in five is for testing, by a hash of its name.

    So a file stays on its side when others come and go. The exception: where a class has test
    files only, the one with the largest hash trains until a training file comes. A class of a few
    files may have none for testing.
    """
    train: dict[str, list[Path]] = {}
    test: dict[str, list[Path]] = {}
    for class_name, paths in classes.items():
        chances = {path: chance(path.relative_to(root)) for path in paths}
        bar = min(TEST_SHARE, max(chances.values()))
        train[class_name] = [path for path in paths if chances[path] >= bar]
        test[class_name] = [path for path in paths if chances[path] < bar]
    class_names = tuple(classes)
    return Dataset(name, class_names, _files(class_names, train), _files(class_names, test))


def chance(path: PurePath) -> float:
    """A number in [0, 1) that looks random and is always the same for this name."""
    digest = hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:6]) / 2**48


def _files(class_names: tuple[str, ...], paths: dict[str, list[Path]]) -> Files:
    counts = [len(paths.get(name, ())) for name in class_names]
    return Files(
        tuple(path for name in class_names for path in paths.get(name, ())),
        np.repeat(np.arange(len(class_names)), counts),
    )


def listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (" and others" if len(names) > 5 else "")
