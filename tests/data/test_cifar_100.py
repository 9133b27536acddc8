"""The pickles of CIFAR-100, written by the tests as Python 2 wrote them."""

import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from ovor.data import Dataset
from ovor.data.cifar_100 import SOURCE
from ovor.data.sources import Expected
from ovor.errors import OvorError

NAMES = ["apple", "aquarium_fish", "baby"]
LABELS = {"train": [2, 0, 1, 0], "test": [1, 2, 0]}
MINI = Expected(classes=3, train=4, test=3)
RNG = np.random.default_rng(0)
PIXELS = {
    part: RNG.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    for part, labels in LABELS.items()
}


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined,misc]  # the one that is Python
    """Protocol 2 with byte strings as Python 2 had them, which Python 3 cannot write itself."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_bytes(self, value: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def dumped(value: Any) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, 2).dump(value)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def batch(part: str, **changes: Any) -> dict[bytes, Any]:
    labels = LABELS[part]
    fields: dict[bytes, Any] = {
        b"filenames": [f"thing_s_{number:06}.png".encode() for number in range(len(labels))],
        b"batch_label": f"{part}ing batch 1 of 1".encode(),
        b"fine_labels": labels,
        b"coarse_labels": [0] * len(labels),
        b"data": PIXELS[part],
    }
    return fields | {name.encode(): value for name, value in changes.items()}


META = {
    b"fine_label_names": [name.encode() for name in NAMES],
    b"coarse_label_names": [b"things"],
}


def load() -> Dataset:
    return replace(SOURCE, expected=MINI).load()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def unpacked(data: Path) -> Path:
    root = data / "cifar-100-python"
    root.mkdir()
    contents = {"train": batch("train"), "test": batch("test"), "meta": META}
    for name, content in contents.items():
        (root / name).write_bytes(dumped(content))
    assert b"cnumpy.core.multiarray\n_reconstruct\n" in (root / "train").read_bytes()
    return root


def pack(root: Path, place: str = ".") -> Path:
    """Into an archive at a place in the data folder, beside which nothing is found any more."""
    archive = root.parent / place / "cifar-100-python.tar.gz"
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:gz") as file:
        file.add(root, "cifar-100-python")
    root.rename(root.parent / "elsewhere")
    return archive


def expected_image(part: str, index: int) -> NDArray[np.uint8]:
    """1024 red bytes, then green, then blue, each row by row."""
    red, green, blue = PIXELS[part][index].reshape(3, 32, 32)
    return np.dstack([red, green, blue])


def check() -> None:
    dataset = load()
    assert dataset.name == "cifar-100"
    assert dataset.class_names == tuple(NAMES)
    for part, images in (("train", dataset.train), ("test", dataset.test)):
        assert images.labels.tolist() == LABELS[part]
        assert images.labels.dtype == np.int64
        for index in range(len(images)):
            assert images.image(index).mode == "RGB"
            assert np.array_equal(np.asarray(images.image(index)), expected_image(part, index))


def move(root: Path, place: str) -> None:
    (root.parent / place).mkdir(exist_ok=True)
    root.rename(root.parent / place / root.name)


@pytest.mark.parametrize("place", [".", "cifar-100"])
@pytest.mark.parametrize("arrange", [move, pack])
def test_the_files_are_read_from_a_folder_or_an_archive(
    unpacked: Path, arrange: Callable[[Path, str], object], place: str
) -> None:
    arrange(unpacked, place)
    before = sorted(unpacked.parent.rglob("*"))
    check()
    assert sorted(unpacked.parent.rglob("*")) == before  # nothing is unpacked


@pytest.mark.parametrize("protocol", [3, 4])
def test_files_pickled_anew_by_python_3_and_columns_first_are_read(
    unpacked: Path, protocol: int
) -> None:
    column_major = np.asfortranarray(PIXELS["train"])
    (unpacked / "train").write_bytes(dumped(batch("train", data=column_major)))
    check()
    for name in ("train", "test", "meta"):
        content = pickle.loads((unpacked / name).read_bytes(), encoding="latin1")
        (unpacked / name).write_bytes(pickle.dumps(content, protocol))
    check()


def test_folders_of_images_are_an_alternative(data: Path) -> None:
    for part, labels in LABELS.items():
        for index, label in enumerate(labels):
            path = data / "cifar-100" / part / NAMES[label] / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(expected_image(part, index)).save(path)
    dataset = load()
    assert dataset.name == "cifar-100"
    assert dataset.class_names == tuple(NAMES)
    assert dataset.train.labels.tolist() == [0, 0, 1, 2]
    assert np.array_equal(np.asarray(dataset.train.image(3)), expected_image("train", 0))


class Malicious:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


@pytest.mark.parametrize("where", ["instead", "inside"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["train", "meta"])
def test_what_a_pickle_wants_to_run_is_refused(
    unpacked: Path, where: str, packed: bool, name: str
) -> None:
    trace = unpacked.parent / "trace"
    attack = Malicious(os.mkdir, str(trace))
    content = attack if where == "instead" else batch("train", filenames=[attack])
    (unpacked / name).write_bytes(dumped(content))
    if packed:
        pack(unpacked)
    with pytest.raises(OvorError, match=r"it asks for \w+\.mkdir, which was not executed"):
        load()
    assert not trace.exists()
    pickle.loads(dumped(attack))
    assert trace.exists(), "the attack itself would have worked"


def fields(**changes: Any) -> bytes:
    return dumped(batch("train", **changes))


def names(value: Any) -> bytes:
    return dumped({b"fine_label_names": value})


# A file, what it holds instead, and why that is refused.
DAMAGED = "is damaged or not CIFAR-100's"
REFUSED: list[tuple[str, bytes, str]] = [
    # other ways to name code
    ("meta", b"cbuiltins\neval\n(S'1'\ntR.", DAMAGED),
    ("meta", b"cnumpy\nload\n(S'x'\ntR.", DAMAGED),
    ("meta", b"cnumpy.core.multiarray\nfromstring\n(S'x'\ntR.", DAMAGED),
    ("meta", b"cnumpy\nndarray.tofile\n(S'x'\ntR.", DAMAGED),
    ("meta", b"\x80\x04\x8c\x05numpy\x8c\x07dtype.x\x93.", DAMAGED),
    ("meta", b"(S'x'\nios\nmkdir\n.", DAMAGED),
    ("meta", b"\x80\x02\x82\x01.", DAMAGED),
    ("meta", b"Px\n.", DAMAGED),
    # contents that do not fit
    ("train", fields()[:-200], rf"{DAMAGED} .*download cifar-100-python\.tar\.gz"),
    ("train", fields(fine_labels=[0, 1, 2]), DAMAGED),
    ("train", fields(fine_labels=[0, 1, 2, 3]), DAMAGED),
    ("train", fields(fine_labels=[0, 1, 2, -1]), DAMAGED),
    ("train", fields(fine_labels=[[0], [1], [2], [0]]), DAMAGED),
    ("train", fields(fine_labels=[0.5, 1.5, 2.0, 0.0]), DAMAGED),
    ("train", fields(fine_labels=b"none"), "no list 'fine_labels'"),
    ("train", fields(data=PIXELS["train"][:, :3000]), DAMAGED),
    ("train", fields(data=PIXELS["train"].astype(np.float32)), DAMAGED),
    ("train", fields(data=[1, 2, 3]), DAMAGED),
    ("meta", names(5), DAMAGED),
    ("meta", names([[1]] * 3), DAMAGED),
    ("meta", names([b"\xff", b"a", b"b"]), DAMAGED),
    ("meta", dumped({b"label_names": [b"airplane"]}), "fine_label_names"),  # CIFAR-10's
]


@pytest.mark.parametrize(("name", "content", "match"), REFUSED)
def test_what_is_wrong_with_a_file_is_named(
    name: str, content: bytes, match: str, unpacked: Path
) -> None:
    (unpacked / name).write_bytes(content)
    with pytest.raises(OvorError, match=f"cifar-100-python/{name} .*{match}"):
        load()


@pytest.mark.parametrize("damage", [lambda whole: whole[:-200], lambda _: b"<html>gone</html>"])
def test_a_damaged_archive_is_named(unpacked: Path, damage: Callable[[bytes], bytes]) -> None:
    archive = pack(unpacked)
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(OvorError, match=r"tar\.gz is damaged"):
        load()


@pytest.mark.parametrize("packed", [False, True])
def test_a_missing_file_is_named(unpacked: Path, packed: bool) -> None:
    (unpacked / "meta").unlink()
    if packed:
        pack(unpacked)
    with pytest.raises(OvorError, match=r"no (file|cifar-100-python/)\s?meta.*: get cifar"):
        load()
