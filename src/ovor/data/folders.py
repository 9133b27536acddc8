"""A data set from folders of image files: PATH/train/CLASS and PATH/test/CLASS, or PATH/CLASS.

For anyone's own images, and for the paper's data sets once unpacked; classes are sorted by name.
"""

import hashlib
import os
import unicodedata
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from ovor.config import OvorError
from ovor.data.base import Dataset, Integers

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
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


def read_image(path: Path) -> Image.Image:
    """The picture as a viewer shows it: upright, on white where it is transparent, in RGB."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                ImageOps.exif_transpose(image, in_place=True)  # else it is copied even if upright
                return to_rgb(image)
    except Exception as error:  # Pillow's decoders raise a dozen kinds for a broken file
        raise OvorError(
            f"The image {path} cannot be read ({error}): replace it by a whole copy, or remove it."
        ) from error


def to_rgb(image: Image.Image) -> Image.Image:
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
    root = Path(path).expanduser()
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
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not folders:
        raise OvorError(f"{root} has no class folders: put the images of each class in one.")
    classes: dict[str, list[Path]] = {}
    others = sorted(p for p in root.iterdir() if not p.is_dir())
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
    return unicodedata.normalize("NFC", folder.name)


def find_images(folder: Path) -> tuple[list[Path], list[Path]]:
    """Image files in the folder and below it; and the others, hidden ones among them."""
    found: list[Path] = []
    others: list[Path] = []
    for parent, folders, names in os.walk(folder):
        hidden = [name for name in folders if name.startswith(".")]
        others += [Path(parent, name) for name in hidden]
        folders[:] = [name for name in folders if name not in hidden]
        for name in names:
            image = name.lower().endswith(SUFFIXES) and not name.startswith(".")
            (found if image else others).append(Path(parent, name))
    return sorted(found), sorted(others)


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
        chance = {path: _chance(path.relative_to(root)) for path in paths}
        bar = min(TEST_SHARE, max(chance.values()))
        train[class_name] = [path for path in paths if chance[path] >= bar]
        test[class_name] = [path for path in paths if chance[path] < bar]
    class_names = tuple(classes)
    return Dataset(name, class_names, _files(class_names, train), _files(class_names, test))


def _chance(path: Path) -> float:
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
    return ", ".join(f"'{name}'" for name in names[:5]) + (" and others" if len(names) > 5 else "")
