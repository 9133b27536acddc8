"""A data set of Hugging Face: from the hub by name, or from a folder of parquet or arrow files.

The `datasets` library maps its rows from the disk, so that any of them is at hand and none is held
in memory. It is an extra, and imported here only.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from PIL import Image

from ovor.data.base import Dataset, Images, Integers, Mask, chance, for_testing, trainable
from ovor.data.class_names import listed
from ovor.data.formats import reason
from ovor.data.hf_texts import TextRows, apart, text_columns, without
from ovor.data.images import at_home, decode
from ovor.data.sources import warn
from ovor.errors import OvorError

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
QUESTIONS = ("image", "text", "label", "train", "test", "unknown")
TESTS = ("test", "validation", "valid", "val")  # the first that there is
LOCAL = re.compile(r"[~./\\]|.*\\")  # how a path may begin that no name on the hub can be


@dataclass(frozen=True, eq=False)
class Rows(Images):
    """The images of one column, which are mapped from the disk, also in worker processes."""

    rows: Any  # datasets.Dataset with the images' column alone, undecoded
    column: str
    name: str
    numbers: Integers
    """of each image, its row"""
    labels: Integers

    def chosen(self, mask: Mask) -> "Rows":
        return replace(self, numbers=self.numbers[mask], labels=self.labels[mask])

    def image(self, index: int) -> Image.Image:
        return decode(self.origin(index), f"in row {self.numbers[index]} of {self.name}")

    def origin(self, index: int) -> bytes:
        """Read the file out of the column; or, where the column has a path only, from there."""
        row = int(self.numbers[index])
        image = self.rows[row][self.column]
        if image and image["bytes"]:
            return bytes(image["bytes"])
        try:
            return Path(image["path"]).read_bytes()
        except (TypeError, OSError) as error:
            raise OvorError(
                f"Row {row} of {self.name} has no image in its column {self.column!r}: remove the "
                "row, or fill it."
            ) from error


def hugging_face(text: str) -> Dataset:
    place, _, query = text.partition("?")
    asked = _asked(query)
    splits = _load(_library(), place)
    train, test = _sides(splits, asked, place)
    tables = {f"split {side!r} of hf:{place}": splits[side] for side in (train, test) if side}
    columns = splits[train].features
    image, texts = "", tuple[str, ...]()
    if _has_images(columns, asked):
        image = _column("image", columns, asked, place)
    else:
        texts = text_columns(columns, asked.get("text", ""), place)
        image = "" if texts else _column("image", columns, asked, place)
    label = _column("label", without(columns, texts), asked, place)
    if not _can_be_label(columns[label]):
        raise OvorError(
            f"The column {label!r} of hf:{place} holds neither numbers nor names: name another, as "
            f"hf:{place}?label=COLUMN."
        )
    items = texts or (image,)
    _check_alike([table.features for table in tables.values()], items, label, place)
    names, labels = _labels(tables, label)
    parts = [
        _rows(table, image, texts, source, own)
        for (source, table), own in zip(tables.items(), labels, strict=True)
    ]
    if not test:
        chances = np.array([chance(PurePosixPath(str(row))) for row in parts[0].numbers])
        tests = for_testing(chances, labels[0])
        parts = [parts[0].chosen(~tests), parts[0].chosen(tests)]
    found = Dataset(f"hf:{text}", names, *parts)
    return trainable(apart(found, asked["unknown"]) if "unknown" in asked else found)


def _rows(
    table: Any, image: str, texts: tuple[str, ...], source: str, labels: Integers
) -> Rows | TextRows:
    numbers = np.arange(len(labels))
    if texts:
        return TextRows(table.select_columns(list(texts)), texts, source, numbers, labels)
    return Rows(_undecoded(table, image), image, source, numbers, labels)


def _has_images(columns: Mapping[str, Any], asked: dict[str, str]) -> bool:
    """Tell whether the items are images; where nothing says so, texts are looked for first."""
    kinds = columns.values()
    typed = any(isinstance(kind, _library().Image) or _holds_bytes(kind) for kind in kinds)
    return "image" in asked or (typed and "text" not in asked)


def _library() -> ModuleType:
    try:
        import datasets
    except ImportError as error:
        raise OvorError(
            "Data sets of Hugging Face need the package datasets: pip install 'ovor[hf]'."
        ) from error
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)  # what it stumbles over is said once, by us
    return datasets  # type: ignore[no-any-return]


def _asked(query: str) -> dict[str, str]:
    asked = dict(parse_qsl(query, keep_blank_values=True))
    strange = [name for name in asked if name not in QUESTIONS]
    if strange or not all(asked.values()) or (query and not asked):
        raise OvorError(
            f"'?{query}' asks for nothing that is known: write ?image=COLUMN&label=COLUMN, or "
            "text=COLUMN, train=SPLIT&test=SPLIT, unknown=CLASS."
        )
    return asked


def _load(library: ModuleType, place: str) -> dict[str, Any]:
    """Load every split, by its name."""
    if not place:
        raise OvorError("hf: names no data set: write hf:NAME, hf:NAME:CONFIG or hf:PATH.")
    path = at_home(place)
    if LOCAL.match(place) and not path.is_dir():
        raise OvorError(f"There is no folder {path}: check the path.")
    try:
        if any((path / name).exists() for name in ("dataset_dict.json", "state.json")):
            found = library.load_from_disk(str(path))
        elif path.is_dir():
            found = library.load_dataset(str(path))
        else:
            name, _, config = place.partition(":")
            warn(f"Asking the Hugging Face hub for {name} ...")
            found = library.load_dataset(name, config or None)
    except Exception as error:  # of the library, of pyarrow, of the network: many kinds
        # The library says that something went wrong, and its cause says what.
        why = error.__cause__ if isinstance(error.__cause__, Exception) else error
        if path.is_dir():
            raise OvorError(
                f"{path} cannot be loaded as a data set ({reason(why)}): give a folder of whole "
                ".parquet files, such as train-0.parquet and test-0.parquet, or one that "
                "save_to_disk wrote."
            ) from error
        asked = all(os.environ.get(name, "0") in ("", "0") for name in OFFLINE)
        unset = f"unset {' and '.join(OFFLINE)}, by which the hub is not asked"
        raise OvorError(
            f"hf:{place} cannot be loaded ({reason(why)}), and there is no folder of that name: "
            f"{'check the name and the network' if asked else unset}, or fetch it elsewhere and "
            "give its folder, as hf:PATH."
        ) from error
    return dict(found) if isinstance(found, Mapping) else {"train": found}


def _sides(splits: dict[str, Any], asked: dict[str, str], place: str) -> tuple[str, str]:
    """Name the splits to train on and to test on; the latter is empty if there is none."""
    for name in filter(None, map(asked.get, ("train", "test"))):
        if name not in splits:
            raise OvorError(f"hf:{place} has no split {name!r}: choose from {', '.join(splits)}.")
    only = next(iter(splits)) if len(splits) == 1 else "train"
    train = asked.get("train", only)
    test = asked.get("test") or next((name for name in TESTS if name in splits), "")
    if train not in splits or (not test and len(splits) > 1):
        raise OvorError(
            f"hf:{place} has the splits {listed(list(splits))}: say which to use, as "
            f"hf:{place}?train=SPLIT&test=SPLIT."
        )
    return train, "" if test == train else test


def _holds_bytes(kind: Any) -> bool:
    inner = kind.get("bytes") if isinstance(kind, dict) else kind
    return getattr(inner, "dtype", None) in ("binary", "large_binary")


def _can_be_label(kind: Any) -> bool:
    return re.fullmatch("u?int[0-9]+|(large_)?string", str(getattr(kind, "dtype", ""))) is not None


def _column(what: str, features: Mapping[str, Any], asked: dict[str, str], place: str) -> str:
    """Choose the column that was asked for, or the one of type Image or ClassLabel.

    Files of other makers have no such types: then the one of bytes, or the one called label or else
    of numbers or text.
    """
    types = {"image": _library().Image, "label": _library().ClassLabel}
    may_be = {"image": _holds_bytes, "label": _can_be_label}
    typed = [name for name, kind in features.items() if isinstance(kind, types[what])]
    others = [name for name, kind in features.items() if may_be[what](kind)]
    called = [name for name in others if name == what == "label"]
    found = typed or called or others
    wanted = asked.get(what, "")
    if wanted in features:
        return wanted
    if wanted:
        raise OvorError(f"hf:{place} has no column {wanted!r}: choose from {', '.join(features)}.")
    if len(found) == 1:
        return found[0]
    said = f"no column that looks like the {what}, of {listed([*features])}"
    if found:
        said = f"several columns that may be the {what}, {listed(found)}"
    already = "".join(f"{name}={value}&" for name, value in asked.items())
    advice = f"say which, as hf:{place}?{already}{what}=COLUMN"
    if not found and at_home(place).is_dir():
        advice += f"; image files in a folder for each class are read as folder:{place}"
    raise OvorError(f"hf:{place} has {said}: {advice}.")


def _check_alike(sides: list[Any], items: tuple[str, ...], label: str, place: str) -> None:
    """Refuse splits that differ: even if saved together, a label could mean two things."""
    first, last = sides[0], sides[-1]
    names = [getattr(columns.get(label), "names", None) for columns in (first, last)]
    if not {*items, label} <= last.keys() or names[0] != names[1]:
        raise OvorError(
            f"The splits of hf:{place} differ in their columns {items[-1]!r} and {label!r}, or in "
            "their classes: save them anew with the same."
        )


def _undecoded(rows: Any, column: str) -> Any:
    """Return the column alone, with each image as its file's bytes."""
    try:
        return rows.select_columns([column]).cast_column(column, _library().Image(decode=False))
    except Exception as error:  # pyarrow's, for a column of something else
        raise OvorError(
            f"The column {column!r} holds no images ({reason(error)}): name another, as "
            "?image=COLUMN."
        ) from error


def _labels(tables: dict[str, Any], column: str) -> tuple[tuple[str, ...], list[Integers]]:
    """Return class names and each table's labels; labels without names are sorted by value."""
    arrays = {
        source: table.select_columns([column]).with_format("arrow")[:][column]
        for source, table in tables.items()
    }
    for source, array in arrays.items():
        if array.null_count:
            row = int(np.flatnonzero(array.is_null().to_numpy())[0])
            raise OvorError(
                f"Row {row} of {source} has no label in its column {column!r}: remove the row, "
                "or fill it."
            )
    names = getattr(next(iter(tables.values())).features[column], "names", None)
    if names is None:
        return _by_value([*arrays.values()])
    labels = [array.to_numpy().astype(np.int64) for array in arrays.values()]
    for source, own in zip(tables, labels, strict=True):
        strange = np.flatnonzero((own < 0) | (own >= len(names)))
        if len(strange):
            raise OvorError(
                f"Row {strange[0]} of {source} has the label {own[strange[0]]}, which is no "
                "class: test on another split, as ?test=SPLIT, or correct the row."
            )
    return tuple(names), labels


def _by_value(arrays: list[Any]) -> tuple[tuple[str, ...], list[Integers]]:
    distinct = sorted({value for array in arrays for value in array.unique().to_pylist()})
    position = {value: number for number, value in enumerate(distinct)}
    labels = []
    for array in arrays:
        encoded = array.combine_chunks().dictionary_encode()
        own = np.array([position[value] for value in encoded.dictionary.to_pylist()], np.int64)
        labels.append(own[encoded.indices.to_numpy()])
    return tuple(map(str, distinct)), labels
