"""ImageNet-R in the split of CODA-Prompt, which the paper uses (Sec. 5.1): two lists in YAML.

Labels are the lists' own. They do not follow the names of the folders, so that neither the split
nor the class order could be made from the images alone. `imagenet-r:pilot` is the other published
split, as folders.
"""

from pathlib import Path
from typing import Any

import numpy as np
import yaml  # type: ignore[import-untyped]  # its stubs: one more package for one call

from ovor.data.base import Dataset
from ovor.data.folders import Files
from ovor.data.sources import Expected, Source, published_folders
from ovor.errors import OvorError

LISTS = ("imagenet-r_train.yaml", "imagenet-r_test.yaml")
Listed = dict[str, int]  # CLASS/FILE -> label, in the list's order


def _read(source: Source, root: Path) -> Dataset:
    train, test = (_listed(_split_file(source, root, name)) for name in LISTS)
    both = train.keys() & test.keys()
    if both:
        raise OvorError(
            f"The lists in {root} share {len(both)} images, such as {min(both)}: take both from "
            "the same copy of CODA-Prompt."
        )
    # All images, also in a copy that was sorted into train and test by another split.
    folders = (root / "train", root / "test", root)
    on_disk = {f"{p.parent.name}/{p.name}": p for folder in folders for p in folder.glob("*/*")}
    names = _class_names(root, train | test)
    parts = (_files(root, listed, on_disk) for listed in (train, test))
    return Dataset(source.name, names, *parts)


def _split_file(source: Source, root: Path, name: str) -> Path:
    for path in (root / name, root / "splits" / name):
        if path.is_file():
            return path
    raise source.lacks(root, f"{name}, here or in splits")


def _listed(path: Path) -> Listed:
    try:
        content = yaml.load(path.read_text("utf-8"), _LOADER)
        paths, labels = _column(content, "data"), _column(content, "targets")
        if len(paths) != len(labels):
            raise ValueError(f"it has {len(paths):,} images and {len(labels):,} labels")
        pairs = [_pair(path, label) for path, label in zip(paths, labels, strict=True)]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise OvorError(
            f"{path} is not a list of images under 'data' with as many labels under 'targets' "
            f"({reason}): copy it anew from dataloaders/splits of GT-RIPL/CODA-Prompt."
        ) from error
    listed = dict(pairs)
    if len(listed) != len(pairs):
        raise OvorError(f"{path} names an image twice: copy it anew from GT-RIPL/CODA-Prompt.")
    return listed


# The same as safe_load, but in C where PyYAML has it: 0.3 instead of 2 seconds for these lists.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _column(content: object, name: str) -> list[object]:
    column = content.get(name) if isinstance(content, dict) else None
    if not isinstance(column, list) or not column:
        raise ValueError(f"it has no list '{name}'")
    return column


def _pair(path: object, label: object) -> tuple[str, int]:
    """Return CLASS/FILE, as copies of the lists differ in the folders before it, and the label."""
    if not isinstance(path, str) or "/" not in path:
        raise ValueError(f"{path!r} is no path of the form CLASS/FILE")
    if type(label) is not int or label < 0:
        raise ValueError(f"{label!r} is no label")
    return "/".join(path.split("/")[-2:]), label


def _class_names(root: Path, listed: Listed) -> tuple[str, ...]:
    """Name each label by its folder; every label from 0 on must have one, and no two the same."""
    pairs = sorted({(label, path.split("/")[0]) for path, label in listed.items()})
    names = tuple(name for _, name in pairs)
    if [label for label, _ in pairs] != list(range(len(pairs))) or len(set(names)) != len(names):
        raise OvorError(
            f"The lists in {root} do not give each class folder one label, from 0 on without "
            "gaps: take both from the same copy of CODA-Prompt."
        )
    return names


def _files(root: Path, listed: Listed, on_disk: dict[str, Path]) -> Files:
    missing = [path for path in listed if path not in on_disk]
    if missing:
        raise OvorError(
            f"{root} lacks {len(missing):,} of {len(listed):,} images, such as {missing[0]}: "
            "unpack imagenet-r.tar there anew."
        )
    return Files(
        tuple(on_disk[path] for path in listed), np.array(list(listed.values()), dtype=np.int64)
    )


SOURCE = Source(
    name="imagenet-r",
    places=("imagenet-r",),
    get="imagenet-r.tar, which its authors publish in hendrycks/imagenet-r on GitHub, and the "
    "lists imagenet-r_train.yaml and imagenet-r_test.yaml from dataloaders/splits of "
    "GT-RIPL/CODA-Prompt on GitHub",
    layout="imagenet-r/WNID/*.jpg, imagenet-r/imagenet-r_train.yaml and "
    "imagenet-r/imagenet-r_test.yaml",
    expected=Expected(classes=200, train=24_000, test=6_000),
    read=_read,
    lists=(*LISTS, "splits"),
)
PILOT = Source(
    name="imagenet-r:pilot",
    places=("imagenet-r",),
    get="ImageNet-R as split by the authors of LAMDA-PILOT, whose page on GitHub links to it",
    layout="imagenet-r/train/CLASS/*.jpg and imagenet-r/test/CLASS/*.jpg",
    expected=SOURCE.expected,
    read=published_folders,
)
