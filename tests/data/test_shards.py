import gzip
import io
import os
import re
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import webdataset
from braceexpand import braceexpand
from hypothesis import given
from hypothesis import strategies as st

from ovor.data import Dataset, load_dataset
from ovor.data import tar_images as index_module
from ovor.data.shards import expand
from ovor.data.tar_images import OPEN
from ovor.errors import OvorError
from shard_files import png, reds, refusal, write_manifest, write_shard

Damage = Callable[[Path], object]
TRAIN, LABELLED = "train-0.tar", {"png": png(), "cls": b"0"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def samples(count: int, classes: int = 2, key: str = "") -> list[dict[str, Any]]:
    return [
        {"__key__": f"{key}{number:03}", "png": png((number, 9, 9)), "cls": number % classes}
        for number in range(count)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two shards to train on, one to test on."""
    for name, count in (("train-0", 5), ("train-1", 3), ("test-0", 4)):
        write_shard(tmp_path / "data" / f"{name}.tar", samples(count, key=f"{name}/"))
    return tmp_path / "data"


def load(*parts: Any) -> Dataset:
    return load_dataset(f"shards:{'::'.join(map(str, parts))}")


@pytest.mark.parametrize(
    "pattern",
    ["*.tar", "{train-{0..1},test-0}.tar", "train-{0..1}.tar::{0}/test-*.tar", "t*-[01].tar", ""],
)
def test_patterns_name_the_same_shards(data: Path, pattern: str) -> None:
    found = load(f"{data}/{pattern.replace('{0}', str(data))}")
    assert found.class_names == ("0", "1")
    assert reds(found.train) == [0, 1, 2, 3, 4, 0, 1, 2]
    assert found.train.labels.tolist() == [0, 1, 0, 1, 0, 0, 1, 0]
    assert reds(found.test) == [0, 1, 2, 3]


NUMBER = st.text("0123456789", min_size=1, max_size=2)
RANGE = st.builds("{{{}..{}}}".format, NUMBER, NUMBER)
STEPS = st.builds("{{{}..{}..{}}}".format, NUMBER, NUMBER, st.integers(0, 40))


def braced(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    listed = st.lists(inner, min_size=1, max_size=3).map(",".join)
    return listed.map("{{{}}}".format) | st.lists(inner, max_size=2).map("".join)


@given(st.recursive(st.text("ab-._/*0", max_size=3) | RANGE | STEPS, braced, max_leaves=3))
def test_braces_mean_what_they_mean_to_webdataset(pattern: str) -> None:
    assert expand(f"{pattern}.tar") == list(braceexpand(f"{pattern}.tar"))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", [""]),
        ("/d/{008..010}.tar", ["/d/008.tar", "/d/009.tar", "/d/010.tar"]),
        ("{a,b}-{0..1}.tar", ["a-0.tar", "a-1.tar", "b-0.tar", "b-1.tar"]),
        (r"C:\d\{0..1}.tar", [r"C:\d\0.tar", r"C:\d\1.tar"]),
    ],
)
def test_braces_as_people_write_them(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


def test_relative_patterns_and_home(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    assert len(load("data/*.tar").train) == 8
    data.rename(home / "mine")
    assert len(load("~/mine/*.tar").train) == 8


def test_the_same_samples_as_webdataset_reads(tmp_path: Path) -> None:
    """Keys with folders and dots, long names, endings of several parts and in capitals."""
    made = [
        {"__key__": "a/1", "png": png((1, 0, 0)), "cls": b"0"},
        {"__key__": "a.b/1", "PNG": png((2, 0, 0)), "cls": b"1", "json": b"{}"},
        {"__key__": "deep/" * 30 + "1", "left.png": png((3, 0, 0)), "cls.txt": b" 1\n"},
        {"__key__": "ä" * 60, "jpg": png((4, 0, 0)), "cls": b"0"},
    ]
    path = tmp_path / "x.tar"
    with webdataset.TarWriter(str(path), encoder=False) as writer:
        for sample in made:
            writer.write(sample)
    theirs = []
    for sample in webdataset.WebDataset(str(path), shardshuffle=False):
        image = next(v for k, v in sample.items() if k.endswith(("png", "jpg")))
        theirs.append((int(sample.get("cls", sample.get("cls.txt"))), image))
    found = load(path)
    parts = (found.train, found.test)
    ours = [(int(part.labels[i]), part.origin(i)) for part in parts for i in range(len(part))]
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == 4


def test_a_manifest_gives_names_splits_and_the_field_of_the_label(tmp_path: Path) -> None:
    for name, kinds in (("a", ["cat", "dog", "cat"]), ("b", ["dog", 1])):
        made = [
            {"__key__": str(i), "jpg": png(), "mask.png": png(), "json": {"kind": kind}}
            for i, kind in enumerate(kinds)
        ]
        write_shard(tmp_path / f"{name}.tar", made)
    splits = {"train": ["a.tar"], "test": ["b*.tar"]}
    rest = {"label": "json:kind", "image": "jpg"}
    path = write_manifest(tmp_path, classes=["dog", "cat"], splits=splits, **rest)
    for pattern in (path, tmp_path, tmp_path / "*.tar"):
        found = load(pattern)
        assert found.class_names == ("dog", "cat")
        assert found.train.labels.tolist() == [1, 0, 1]
        assert found.test.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("names", "train", "test"),
    [
        (["x-train-0", "x-val-0"], 10, 10),
        (["training_0", "validation_0"], 10, 10),
        (["Train1", "Test1"], 10, 10),
        (["latest-0", "carnival-1"], 16, 4),  # no word of a split, so the images are split
        (["train-0", "train-1"], 16, 4),
    ],
)
def test_the_names_of_shards_tell_their_side(
    tmp_path: Path, names: list[str], train: int, test: int
) -> None:
    for name in names:
        write_shard(tmp_path / f"{name}.tar", samples(10, key=name[:3] + name[-1]))
    found = load(tmp_path / "*.tar")
    assert len(found.train) + len(found.test) == 20
    assert abs(len(found.train) - train) <= 3 * (test == 4)


def test_a_tar_of_a_folder_is_split_as_the_folder_is(tmp_path: Path) -> None:
    for number in range(80):
        path = tmp_path / "photos" / f"c{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png((number, 9, 9)))
        path.with_suffix(".cls").write_text(str(number % 2))
    # In the order of names, as `tar --sort=name` writes.
    with tarfile.open(tmp_path / "sorted.tar", "w") as archive:
        for path in sorted((tmp_path / "photos").rglob("*.*")):
            archive.add(path, f"./{path.relative_to(tmp_path / 'photos')}")
    folder, found = load_dataset(f"folder:{tmp_path}/photos"), load(tmp_path / "sorted.tar")
    for ours, theirs in ((found.train, folder.train), (found.test, folder.test)):
        assert sorted(reds(ours)) == sorted(reds(theirs))
        assert ours.labels.tolist() == [red % 2 for red in reds(ours)]


def test_labels_may_leave_numbers_out(tmp_path: Path) -> None:
    made = [{"__key__": str(i), "png": png(), "cls": own} for i, own in enumerate([7, 3, 12, 3])]
    found = load(write_shard(tmp_path / "x.tar", made))
    assert found.class_names == ("3", "7", "12")
    assert sorted([*found.train.labels, *found.test.labels]) == [0, 0, 1, 2]


def test_what_is_no_sample_is_left_alone(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("README", "notes.txt", "._1.png", "__meta__/1.png"):
            add(archive, name, b"x")
        add(archive, "1.png", png())
        add(archive, "1.cls", b"0")
        folder = tarfile.TarInfo("dir.png")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    assert len(load(tmp_path / "x.tar").train) == 1


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def test_the_index_is_made_once_and_again_when_a_shard_changes(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[str] = []
    walk = index_module.members

    def counted(path: Path) -> Any:
        walked.append(path.name)
        return walk(path)

    monkeypatch.setattr(index_module, "members", counted)
    load(data)
    assert sorted(walked) == ["test-0.tar", "train-0.tar", "train-1.tar"]
    walked.clear()
    load(data)
    assert walked == []
    write_shard(data / "train-1.tar", samples(6))
    assert len(load(data).train) == 11
    assert walked == ["train-1.tar"]
    assert len(list((home / ".cache/ovor/shards").iterdir())) == 3  # replaced, not added


@pytest.mark.parametrize("keep", [0, 100, -30])
def test_a_damaged_index_is_made_anew(data: Path, home: Path, keep: int) -> None:
    expected = reds(load(data).train)
    kept = home / ".cache/ovor/shards"
    for path in kept.iterdir():
        path.write_bytes(path.read_bytes()[:keep])
    assert reds(load(data).train) == expected
    for path in kept.iterdir():  # a flipped bit in the samples
        content = bytearray(path.read_bytes())
        content[content.index(b"\x93NUMPY", content.index(b"samples")) + 140] ^= 1
        path.write_bytes(content)
    assert reds(load(data).train) == expected


def test_without_a_place_for_the_index_it_is_made_each_time(data: Path, home: Path) -> None:
    home.write_text("a file where the home folder should be")
    assert len(load(data).train) == 8


def test_more_shards_than_a_process_may_open(tmp_path: Path) -> None:
    for number in range(OPEN + 20):
        write_shard(tmp_path / f"x-{number}.tar", samples(2, key=str(number)))
    found = load(tmp_path / f"x-{{0..{OPEN + 19}}}.tar")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert set(reds(found.train)) == {0, 1}
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + OPEN


def test_threads_may_share_it(data: Path) -> None:
    images = load(data).train
    with ThreadPoolExecutor(4) as pool:
        assert all(found == reds(images) for found in pool.map(reds, [images] * 8))


def write(name: str, content: bytes) -> Damage:
    def damage(data: Path) -> None:
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(content)

    return damage


def cut(name: str, where: Callable[[tarfile.TarInfo], int]) -> Damage:
    """Before, in or after its second member."""

    def damage(data: Path) -> None:
        path = plain(data / name)
        with tarfile.open(path) as archive:
            keep = where(archive.getmembers()[1])
        path.write_bytes(path.read_bytes()[:keep])

    return damage


def plain(path: Path) -> Path:
    """Without the extended headers that WebDataset writes, whose damage `tarfile` notices."""
    with tarfile.open(path) as archive:
        kept = [(m.name, archive.extractfile(m).read()) for m in archive]  # type: ignore[union-attr]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in kept:
            add(archive, name, content)
    return path


def shard(name: str, *samples: dict[str, Any]) -> Damage:
    def damage(data: Path) -> None:
        with webdataset.TarWriter(str(data / name), encoder=False) as writer:
            for number, sample in enumerate(samples):
                writer.write({"__key__": f"s{number}", **sample})

    return damage


def label(content: bytes) -> Damage:
    return shard(TRAIN, {**LABELLED, "cls": content})


def manifest(**fields: Any) -> Damage:
    return lambda data: write_manifest(data, **fields)


def flip(data: Path) -> None:
    """In the second header of the shard, which then fails its checksum."""
    content = bytearray(plain(data / TRAIN).read_bytes())
    content[content.index(b"train-0/001.") + 1] ^= 1
    (data / TRAIN).write_bytes(content)


LISTS = {"train": [TRAIN], "test": ["test-0.tar"]}
CASES: list[tuple[str, Damage, str, str]] = [
    ("none", lambda data: None, "x-*.tar", "There is no shard .*x-\\*.tar"),
    ("missing", lambda data: None, "train-{0..2}.tar", "There is no shard .*train-2.tar"),
    ("unclosed", lambda data: None, "train-{0..2.tar", "brace too many"),
    ("unopened", lambda data: None, "train-0..2}.tar", "brace too many"),
    ("unclosed inside", lambda data: None, "{a,{b}", "brace too many"),
    ("inside out", lambda data: None, "}{", "brace too many"),
    ("absurd", lambda data: None, "a-{0..99999999999}.tar", "over 1,000,000 .*correct the range"),
    ("not a tar", write(TRAIN, b"<html>404</html>" * 99), "*.tar", "train-0.tar is no tar file"),
    ("empty", write(TRAIN, b""), "*.tar", "train-0.tar is no tar file, .*empty"),
    ("gz", write(TRAIN, gzip.compress(b"x")), "*.tar", "train-0.tar is compressed.*unpack"),
    ("cut, content", cut(TRAIN, lambda m: m.offset_data + 1), "*.tar", "train-0.tar is no tar "),
    ("cut, header", cut(TRAIN, lambda m: m.offset + 99), "*.tar", "cut off at byte 1,024"),
    ("cut between", cut(TRAIN, lambda m: m.offset), "*.tar", "cut off at byte 1,024"),
    ("cut, extended", lambda data: os.truncate(data / TRAIN, 700), "*.tar", "train-0.tar is no"),
    ("flipped", flip, "*.tar", "train-0.tar is damaged or cut off at byte"),
    ("no label", shard(TRAIN, {"png": png()}), "*.tar", "'s0' of .*train-0.tar has an image but"),
    ("no image", shard(TRAIN, {"cls": b"1"}), "*.tar", "'s0' of .*train-0.tar has a label but"),
    ("two images", shard(TRAIN, {**LABELLED, "b.png": b""}), "*.tar", "'b.png', 'png': say which"),
    ("twice", shard(TRAIN, *[{**LABELLED, "__key__": "a"}] * 2), "*.tar", "'a' twice"),
    ("no number", label(b"cat"), "*.tar", "s0.cls .*'cat'.*whole number.*all names as \"classes\""),
    ("negative", label(b"-1"), "*.tar", "is -1, but"),
    ("binary", label(b"\xff"), "*.tar", "s0.cls of .*cannot be read"),
    ("huge", label(b"9" * 5000), "*.tar", "s0.cls of"),
    ("large", label(b"9" * 12), "*.tar", "from 0 to 2,147,483,647"),
    ("out of range", manifest(classes=["a"]), "", "001.cls of .* is 1, but .*from 0 to 0"),
    ("no training", manifest(classes=["a", "b", "c"]), "", "no training images of 'c'"),
    ("no json", manifest(label="json:kind", classes=["a", "b"]), "", "no .json next to it"),
    ("bad json", write("manifest.json", b"{"), "", "manifest.json is no manifest"),
    ("strange field", manifest(classes=["a", "b"], split={}), "", "no manifest of shards .split"),
    ("strange type", manifest(classes=[0, 1]), "", "valid string"),
    ("class twice", manifest(classes=["a", "a"]), "", "'a' is listed twice"),
    ("label rule", manifest(label="txt"), "", "label"),
    ("listed, gone", manifest(splits={**LISTS, "test": ["x.tar"]}), "", "no shard .*/x.tar"),
    ("in both", manifest(splits={**LISTS, "test": ["*.tar"]}), "", "training and for testing"),
    ("not listed", manifest(splits=LISTS), "*.tar", "does not list train-1.tar"),
    ("one side", manifest(splits=LISTS), "train-0.tar", "no test shard of"),
    ("no sample", shard("x.tar"), "x.tar", "has no training images: add some"),
    ("no tar", lambda data: (data / "sub").mkdir(), "sub", "sub has no .tar files.*folder:.*sub"),
    ("packed", write("sub/x.tar.gz", b""), "sub", "sub has no .tar files: unpack x.tar.gz"),
    ("half", lambda data: None, "*.tar::", "names no shards before or after"),
    ("no manifest", lambda data: None, "other.json", "There is no manifest"),
    ("unclear names", shard("more.tar", LABELLED), "*.tar", "do not tell which"),
    ("three sides", shard("val.tar", LABELLED), "*.tar", "do not tell which"),
    ("a folder", lambda data: (data / "x.tar").mkdir(), "x.tar", "x.tar has no .tar files"),
]


@pytest.mark.parametrize(
    ("damage", "pattern", "match"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_damage_is_named(data: Path, damage: Damage, pattern: str, match: str) -> None:
    damage(data)
    assert re.search(match, refusal(f"shards:{data}/{pattern}" if pattern else f"shards:{data}"))


@pytest.mark.parametrize("content", [b"", b"no picture", png()[:40]])
def test_an_unreadable_image_is_named_with_its_shard(tmp_path: Path, content: bytes) -> None:
    long = "deep/" * 40 + "1"
    made = [{"__key__": "0", "png": png(), "cls": 0}, {"__key__": long, "png": content, "cls": 1}]
    path = write_shard(tmp_path / "x.tar", made)
    with pytest.raises(OvorError, match=re.escape(f"The image {long}.png in {path} cannot be")):
        load(path).train.image(1)


def test_a_shard_that_changes_or_goes_during_the_run_is_named(data: Path) -> None:
    images = load(data).train
    images.image(0)
    write_shard(data / "train-0.tar", samples(7))
    with pytest.raises(OvorError, match=r"train-0.tar changed during the run"):
        images.image(0)
    (data / "train-1.tar").unlink()
    with pytest.raises(OvorError, match=r"train-1.tar cannot be opened any more"):
        images.image(7)
