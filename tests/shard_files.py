"""Shards and parquet files of the images in a folder, by the libraries that people use for them."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import pytest
import webdataset
from PIL import Image

from ovor.data import load_dataset
from ovor.data.base import Images
from ovor.data.folders import Files
from ovor.errors import OvorError


def reds(images: Images) -> list[int]:
    """Return the red of every image, by which the images can be told apart."""
    return [images.image(i).getpixel((0, 0))[0] for i in range(len(images))]


def refusal(name: str) -> str:
    """Return the sentence with which a data set is refused."""
    with pytest.raises(OvorError) as error:
        load_dataset(name)
    assert str(error.value).endswith(".")
    return str(error.value)


def write_shard(path: Path, samples: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with webdataset.TarWriter(str(path)) as writer:
        for sample in samples:
            writer.write(sample)
    return path


def png(color: str | tuple[int, int, int] = "red", size: tuple[int, int] = (6, 4)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, "png")
    return file.getvalue()


def write_shards(images: Files, root: Path, part: str, each: int = 17) -> list[Path]:
    """The same files in the same order, `each` to a shard."""
    samples = [
        {"__key__": f"{path.parent.name}/{path.stem}", "png": path.read_bytes(), "cls": int(label)}
        for path, label in zip(images.paths, images.labels, strict=True)
    ]
    starts = range(0, len(samples), each)
    return [
        write_shard(root / f"{part}-{number:03}.tar", samples[start : start + each])
        for number, start in enumerate(starts)
    ]


def write_manifest(root: Path, **said: Any) -> Path:
    path = root / "manifest.json"
    path.write_text(json.dumps(said))
    return path


def as_hugging_face(images: Images, names: tuple[str, ...]) -> Any:
    assert isinstance(images, Files)
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(names))}
    )
    rows = {
        "image": [{"bytes": path.read_bytes(), "path": path.name} for path in images.paths],
        "label": images.labels.tolist(),
    }
    return datasets.Dataset.from_dict(rows, features=features)
