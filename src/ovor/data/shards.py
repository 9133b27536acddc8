"""A data set from WebDataset shards: plain tar files with an image and a label for each sample.

Written as shards:PATTERN, where the pattern is a glob, a brace range, a folder of .tar files or its
manifest.json; docs/data.md has the layouts. Images stay in the order of the shards and of the tar.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import numpy as np

from ovor.data.base import Dataset
from ovor.data.braces import expand
from ovor.data.folders import at_home
from ovor.data.manifest import NAME, Manifest, Splits, read_manifest
from ovor.data.sources import warn
from ovor.data.splits import tested, trainable
from ovor.data.tar_images import tar_images
from ovor.data.tar_index import Rule, Samples, Shard, kept_index, make_index, stamped
from ovor.errors import OvorError

SIDE = re.compile(r"(?<![a-z])(train|test|val(?![a-z])|valid)")
LONG = 2**30  # bytes of shards whose index takes long enough to say so
Part = tuple[Shard, Samples]


@dataclass(frozen=True)
class Sides:
    """Shards to train on and to test on; without the latter, some images of the former test."""

    train: list[Path]
    test: list[Path]


def shards(pattern: str) -> Dataset:
    if not all(pattern.split("::")):
        raise OvorError("shards: names no shards before or after a '::': write shards:PATTERN.")
    if "://" in pattern:
        raise OvorError(
            f"{pattern} is an address, but shards are read from a disk: download them, or mount "
            "what holds them."
        )
    manifest, sides = _given(pattern)
    rule = Rule(manifest.label, manifest.image, manifest.classes)
    parts = _indexed([*sides.train, *sides.test], rule)
    labels = np.concatenate([samples["label"] for _, samples in parts]).astype(np.int64)
    names = manifest.classes
    if not names:  # then the labels name the classes, and may leave numbers out
        numbers, labels = np.unique(labels, return_inverse=True)
        names = tuple(map(str, numbers))
    tests = np.repeat(np.arange(len(parts)) >= len(sides.train), [len(s) for _, s in parts])
    if not sides.test:
        tests = tested(np.concatenate([samples["chance"] for _, samples in parts]), labels)
    images = tar_images(parts, labels)
    name = f"shards:{pattern}"
    return trainable(Dataset(name, names, images.chosen(~tests), images.chosen(tests)))


def _given(pattern: str) -> tuple[Manifest, Sides]:
    """The pattern names shards, a folder of them, or a manifest; one may also lie beside them."""
    path = at_home(pattern)
    if (path / NAME).exists():
        path /= NAME
    if path.suffix == ".json":
        manifest = read_manifest(path)
        if manifest.splits:
            return manifest, _listed(manifest.splits, path)
        return manifest, _by_name(_in_folder(path.parent))
    files = _in_folder(path) if path.is_dir() else find(pattern.split("::"))
    found = [place for place in sorted({file.parent / NAME for file in files}) if place.exists()]
    if len(found) > 1:
        raise OvorError(
            f"{found[0]} and {found[1]} both lie beside the shards: give one, as shards:{found[0]}."
        )
    manifest = read_manifest(found[0]) if found else Manifest()
    if not manifest.splits:
        return manifest, _by_name(files)
    return manifest, _some_of(_listed(manifest.splits, found[0]), files, found[0])


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.tar"))
    if not found:
        packed = next(folder.glob("*.tar.*"), None) or next(folder.glob("*.tgz"), None)
        advice = f"unpack {packed.name} to a plain .tar" if packed else "name the folder of shards"
        raise OvorError(
            f"{folder} has no .tar files: {advice}; image files in a folder for each class are "
            f"read as folder:{folder}."
        )
    return found


def find(patterns: Iterable[str], folder: Path = Path()) -> list[Path]:
    """The files that the patterns name, each once; relative ones are in the folder."""
    found: list[Path] = []
    for text in (name for pattern in patterns for name in expand(os.path.expanduser(pattern))):
        names = [text] if (folder / text).exists() else sorted(glob(text, root_dir=folder))
        if not names:
            raise OvorError(
                f"There is no shard {folder / text}: check the path, and quote the pattern, so "
                "that the shell leaves it alone."
            )
        found += [folder / name for name in names]
    return list(dict.fromkeys(found))


def _listed(splits: Splits, manifest: Path) -> Sides:
    sides = Sides(find(splits.train, manifest.parent), find(splits.test, manifest.parent))
    both = [path for path in sides.test if path in sides.train]
    if both:
        raise OvorError(f"{manifest} lists {both[0].name} for training and for testing: drop one.")
    return sides


def _some_of(sides: Sides, files: list[Path], manifest: Path) -> Sides:
    """Those that the pattern names; it may not name others."""
    wanted = {file.resolve() for file in files}
    train = [path for path in sides.train if path.resolve() in wanted]
    test = [path for path in sides.test if path.resolve() in wanted]
    strange = sorted(wanted - {path.resolve() for path in (*train, *test)})
    if strange:
        raise OvorError(
            f"{manifest} does not list {strange[0].name}: add it to its splits, or leave it out."
        )
    if not train or not test:
        raise OvorError(
            f"The pattern names no {'test' if train else 'training'} shard of {manifest}: widen "
            f"it, or give shards:{manifest}."
        )
    return Sides(train, test)


def _by_name(files: list[Path]) -> Sides:
    """By a word in the names; if none has one, or all have the same, images are split instead."""
    named = {path: set(SIDE.findall(path.name.lower())) for path in files}
    words = set().union(*named.values())
    train = [path for path in files if named[path] == {"train"}]
    test = [path for path in files if named[path] and "train" not in named[path]]
    if len(words) < 2:
        return Sides(files, [])
    if len(words) > 2 or len(train) + len(test) < len(files) or not train:
        raise OvorError(
            f"The names of the shards, such as {files[0].name}, do not tell which are for training "
            f"and which for testing: list them in {files[0].parent / NAME}, as "
            '"splits": {"train": [...], "test": [...]}.'
        )
    return Sides(train, test)


def _indexed(files: list[Path], rule: Rule) -> list[Part]:
    stamps = [stamped(path) for path in files]
    kept = {shard: kept_index(shard, rule) for shard in stamps}
    size = sum(shard.size for shard, samples in kept.items() if samples is None)
    if size > LONG:
        warn(f"Indexing {size / 1e9:.0f} GB of shards, which is done once.")
    parts = []
    for shard, samples in kept.items():
        parts.append((shard, make_index(shard, rule) if samples is None else samples))
    return parts
