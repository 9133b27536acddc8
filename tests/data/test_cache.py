import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from ovor.config import Transform
from ovor.data import Dataset, load_dataset
from ovor.data import folders as folders_module
from ovor.data.cache import HEADER, admitted, cached
from ovor.data.loader import test_batches as plain_batches
from ovor.data.loader import train_batches
from ovor.errors import OvorError

TRANSFORM = Transform(size=16)
COUNT = 9
PLENTY = 10**9


@pytest.fixture
def photos(tmp_path: Path) -> Dataset:
    """JPEGs of many shapes, some turned by their EXIF entry, one grey and one transparent PNG."""
    rng = np.random.default_rng(0)
    for number in range(COUNT):
        image = Image.fromarray(rng.integers(0, 256, (20 + number, 31, 3), dtype=np.uint8))
        exif = Image.Exif()
        exif[0x0112] = 6 if number % 2 else 1
        path = tmp_path / "photos" / "train" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, exif=exif)
    for number, mode in enumerate(("L", "RGBA")):
        path = tmp_path / "photos" / "test" / f"class{number}" / "x.png"
        path.parent.mkdir(parents=True)
        image.convert(mode).save(path)
    return load_dataset(f"folder:{tmp_path / 'photos'}")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The image files that are decoded from now on."""
    seen: list[Path] = []
    read = folders_module.decode

    def counted(path: Path, name: object) -> Image.Image:
        seen.append(path)
        return read(path, name)

    monkeypatch.setattr(folders_module, "decode", counted)
    return seen


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def kept(photos: Dataset, cache: Path) -> Dataset:
    """The same, cached without a limit."""
    return cached(photos, PLENTY, str(cache))


def epoch(dataset: Dataset, number: int = 0, workers: int = 0) -> list[Tensor]:
    """One epoch of training views, then all test images."""
    given = [
        (part, np.arange(len(part)), part.labels, TRANSFORM)
        for part in (dataset.train, dataset.test)
    ]
    how = {"batch_size": 4, "workers": workers}
    train = train_batches(*given[0], seed=1, task=0, epoch=number, **how)
    return [tensor for batch in (*train, *plain_batches(*given[1], **how)) for tensor in batch]


def equal(ours: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.npy"))


def same(ours: Image.Image, theirs: Image.Image) -> bool:
    return np.array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_the_same_to_the_bit(
    photos: Dataset, kept: Dataset, cache: Path, workers: int
) -> None:
    for number in range(3):
        assert equal(epoch(kept, number, workers), epoch(photos, number))
    assert len(entries(cache)) == COUNT + 2


def test_each_image_is_decoded_once(photos: Dataset, cache: Path, opened: list[Path]) -> None:
    for number in range(4):
        epoch(cached(photos, PLENTY, str(cache)), number)  # by another run, too
        assert len(opened) == len(set(opened)) == COUNT + 2


def test_what_workers_decoded_is_not_decoded_again(
    photos: Dataset, kept: Dataset, tmp_path: Path
) -> None:
    before = epoch(kept, workers=2)
    for path in (tmp_path / "photos").rglob("*.*"):
        stat = path.stat()
        path.write_bytes(bytes(stat.st_size))  # no image any more, though of the same age and size
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert equal(epoch(kept, workers=2), before)
    with pytest.raises(OvorError):
        epoch(photos)


def test_a_changed_file_is_decoded_anew(kept: Dataset, tmp_path: Path) -> None:
    kept.train.item(0)
    path = tmp_path / "photos" / "train" / "class0" / "0.jpg"
    Image.new("RGB", (5, 6), "blue").save(path)
    assert kept.train.item(0).size == (5, 6)


def test_the_limit_bounds_the_folder_and_the_rest_is_decoded_each_time(
    photos: Dataset, cache: Path, opened: list[Path]
) -> None:
    sizes = [20 * 31 * 3 + HEADER, 22 * 31 * 3 + HEADER]  # numbers 0 and 2, the first of class 0
    plain = [photos.train.item(index) for index in range(3)]
    opened.clear()
    kept = cached(photos, sum(sizes), str(cache))
    for _ in range(3):
        assert all(same(kept.train.item(index), plain[index]) for index in range(3))
    assert sorted(path.stat().st_size for path in entries(cache)) == sizes
    assert len(opened) == 1 + 1 + 3
    cached(photos, PLENTY, str(cache)).train.item(2)
    assert len(entries(cache)) == 3


def test_nothing_is_cached_without_limit_or_of_what_is_in_memory(
    photos: Dataset, cache: Path
) -> None:
    assert cached(photos, 0, str(cache)) is photos
    assert not cache.exists()
    cached(load_dataset("quickdraw-dev"), PLENTY, str(cache)).train.item(0)
    assert entries(cache) == []


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"rubbish" * 50])
def test_a_damaged_entry_is_replaced(kept: Dataset, cache: Path, damage: bytes) -> None:
    expected = kept.train.item(0)
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    vast = whole.replace(b"(20, 31, 3)", b"(9999999, 9999999, 3)").replace(b" " * 10, b"", 1)
    for content in (damage, whole[:-1], whole + b"x", vast):
        entry.write_bytes(content)
        assert same(kept.train.item(0), expected)
        assert entry.read_bytes() == whole


def test_a_file_that_is_gone_or_broken_keeps_its_own_error(
    kept: Dataset, cache: Path, tmp_path: Path
) -> None:
    first, second = sorted((tmp_path / "photos" / "train" / "class0").iterdir())[:2]
    first.unlink()
    second.write_bytes(b"no image")
    for index, path in enumerate((first, second)):
        with pytest.raises(OvorError, match=f"{path.name} cannot be read"):
            kept.train.item(index)
    assert entries(cache) == []


def test_a_folder_that_cannot_be_made_is_named(photos: Dataset, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OvorError, match=r"cache folder .*file/cache cannot be made"):
        cached(photos, PLENTY, str(tmp_path / "file" / "cache"))


def test_a_full_disk_only_costs_time(
    photos: Dataset, kept: Dataset, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert equal(epoch(kept), epoch(photos))
    assert [path.name for path in cache.rglob("*.*")] == []


def _book(ledger: Path, attempts: int) -> int:
    return sum(admitted(ledger, 7, limit=1000) for _ in range(attempts))


def test_processes_together_stay_within_the_limit(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        admitted = sum(pool.starmap(_book, [(tmp_path / "sizes", 60)] * 4))
    assert 1000 // 7 - 3 <= admitted <= 1000 // 7
