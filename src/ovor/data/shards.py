"""A data set from WebDataset shards: plain tar files with an image and a label for each sample.

Written as shards:PATTERN, where the pattern is a glob, a brace range, a folder of .tar files or its
manifest.json; docs/data.md has the layouts. Images stay in the order of the shards and of the tar.
"""

import os
import re
from collections.abc import Iterable
from glob import glob
from itertools import accumulate
from pathlib import Path

import bracex
import numpy as np
from pydantic import TypeAdapter, ValidationError

from ovor.data.base import Dataset, for_testing, trainable
from ovor.data.images import at_home
from ovor.data.tar_images import PLACE, Manifest, Splits, TarImages, indexed
from ovor.errors import OvorError, explain

MANIFEST = "manifest.json"
SIDE = re.compile(r"(?<![a-z])(train|test|val(?![a-z])|valid)")
MOST = 1_000_000  # names that a pattern may stand for; more is a slip of the pen
Sides = tuple[list[Path], list[Path]]  # to train on and to test on; the latter may be empty


def shards(pattern: str) -> Dataset:
    if not all(pattern.split("::")):
        raise OvorError("shards: names no shards before or after a '::': write shards:PATTERN.")
    if "://" in pattern:
        raise OvorError(
            f"{pattern} is an address, but shards are read from a disk: download them, or mount "
            "what holds them."
        )
    manifest, (train, test) = _given(pattern)
    files, parts = zip(*indexed([*train, *test], manifest), strict=True)
    counts, samples = [len(part) for part in parts], np.concatenate(parts)
    names, labels = manifest.classes, samples["label"].astype(np.int64)
    if not names:  # then the labels name the classes, and may leave numbers out
        numbers, labels = np.unique(labels, return_inverse=True)
        names = tuple(map(str, numbers))
    shard = np.repeat(np.arange(len(files)), counts)
    places = np.rec.fromarrays([shard, samples["offset"], samples["size"]], PLACE)
    images = TarImages(files, places, labels)
    tests = shard >= len(train) if test else for_testing(samples["chance"], labels)
    name = f"shards:{pattern}"
    return trainable(Dataset(name, names, images.chosen(~tests), images.chosen(tests)))


def _given(pattern: str) -> tuple[Manifest, Sides]:
    """Find the shards and the manifest of a pattern, which names shards, their folder or it."""
    path = at_home(pattern)
    if (path / MANIFEST).exists():
        path /= MANIFEST
    if path.suffix == ".json":
        manifest = _read_manifest(path)
        if manifest.splits:
            return manifest, _listed(manifest.splits, path)
        return manifest, _by_name(_in_folder(path.parent))
    files = _in_folder(path) if path.is_dir() else _find(pattern.split("::"))
    beside = sorted({file.parent / MANIFEST for file in files})
    found = [place for place in beside if place.exists()]
    if len(found) > 1:
        raise OvorError(
            f"{found[0]} and {found[1]} both lie beside the shards: give one, as shards:{found[0]}."
        )
    manifest = _read_manifest(found[0]) if found else Manifest()
    if not manifest.splits:
        return manifest, _by_name(files)
    return manifest, _some_of(_listed(manifest.splits, found[0]), files, found[0])


def _read_manifest(path: Path) -> Manifest:
    try:
        return TypeAdapter(Manifest).validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise OvorError(f"There is no manifest {path}: check the path.") from error
    except ValidationError as error:
        raise OvorError(
            f'{path} is no manifest of shards ({explain(error)}): write {{"classes": [...], '
            '"splits": {"train": [...], "test": [...]}, "label": "cls"}, of which all may be left '
            "out."
        ) from error


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


def _find(patterns: Iterable[str], folder: Path = Path()) -> list[Path]:
    """List the files that the patterns name, each once; relative ones are in the folder."""
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


def expand(pattern: str) -> list[str]:
    """List the names that braces stand for, as in train-{000..009}.tar, in their order."""
    depths = [*accumulate(((letter == "{") - (letter == "}") for letter in pattern), initial=0)]
    if min(depths) < 0 or depths[-1]:  # bracex would leave such braces as they are
        raise OvorError(
            f"{pattern!r} opens or closes a brace too many: write it as a-{{00..09}}.tar."
        )
    literal = pattern.replace("\\", r"\\")  # a backslash parts folders here, and escapes nothing
    try:
        return bracex.expand(literal, limit=MOST, return_empty=True)
    except bracex.ExpansionLimitException as error:
        raise OvorError(
            f"{pattern!r} stands for over {MOST:,} names: correct the range."
        ) from error


def _listed(splits: Splits, manifest: Path) -> Sides:
    train, test = (_find(names, manifest.parent) for names in (splits.train, splits.test))
    both = [path for path in test if path in train]
    if both:
        raise OvorError(f"{manifest} lists {both[0].name} for training and for testing: drop one.")
    return train, test


def _some_of(sides: Sides, files: list[Path], manifest: Path) -> Sides:
    """Keep the manifest's shards that the pattern names, which may not name others."""
    wanted = {file.resolve() for file in files}
    train, test = ([path for path in side if path.resolve() in wanted] for side in sides)
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
    return train, test


def _by_name(files: list[Path]) -> Sides:
    """Tell the sides by a word in the names; without one, images will be split instead."""
    named = {path: set(SIDE.findall(path.name.lower())) for path in files}
    words = set().union(*named.values())
    train = [path for path in files if named[path] == {"train"}]
    test = [path for path in files if named[path] and "train" not in named[path]]
    if len(words) < 2:
        return files, []
    if len(words) > 2 or len(train) + len(test) < len(files) or not train:
        raise OvorError(
            f"The names of the shards, such as {files[0].name}, do not tell which are for training "
            f"and which for testing: list them in {files[0].parent / MANIFEST}, as "
            '"splits": {"train": [...], "test": [...]}.'
        )
    return train, test
