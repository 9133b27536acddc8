"""The paper's data sets that come as files and lists, on miniature copies in the true layouts."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from drawings import paint
from ovor.data import SOURCES, Dataset, Description, describe, load_dataset
from ovor.data.base import Images
from ovor.data.sources import Expected
from ovor.errors import OvorError

# As in the true lists, neither labels nor images follow the names of the folders.
WNIDS = ("n02165456", "n03594945", "n01443537")
TRAIN = [
    ("n01443537", "art_0"),
    ("n02165456", "toy_3"),
    ("n03594945", "art_0"),
    ("n02165456", "art_1"),
]
TEST = [("n03594945", "misc_7"), ("n01443537", "sketch_2"), ("n02165456", "art_0")]
MINI = Expected(classes=3, train=4, test=3)  # of ImageNet-R and of CUB
FOLDERS = Expected(classes=2, train=4, test=2)
Damage = Callable[[Path], object]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    return tmp_path


def grey(path: Path, value: int = 0) -> Path:
    return paint(path, (value, value, value))


def load(name: str, expected: Expected = MINI) -> Dataset:
    """Load a data set of the paper as if it had as few images as the miniatures."""
    return replace(SOURCES[name], expected=expected).load()


def shades(images: Images) -> list[int]:
    """Return the grey of every image: in the miniatures it tells which file was read."""
    return [round(float(np.asarray(images.image(i)).mean())) for i in range(len(images))]


def gone(name: str) -> Damage:
    return lambda root: (root / name).unlink()


def holds(name: str, content: str) -> Damage:
    return lambda root: (root / name).write_text(content, errors="surrogateescape")


# ImageNet-R


def write_list(path: Path, images: list[tuple[str, str]], prefix: str = "data/imagenet-r/") -> None:
    content = {
        "data": [f"{prefix}{wnid}/{name}.jpg" for wnid, name in images],
        "targets": [WNIDS.index(wnid) for wnid, _ in images],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))


@pytest.fixture
def renditions(data: Path) -> Path:
    root = data / "imagenet-r"
    for number, (wnid, name) in enumerate(TRAIN + TEST):
        grey(root / wnid / f"{name}.jpg", number * 20)
    (root / "README.txt").write_text("n01443537 goldfish")
    write_list(root / "imagenet-r_train.yaml", TRAIN)
    write_list(root / "imagenet-r_test.yaml", TEST)
    return root


def lists_in_splits(root: Path) -> None:
    for part, images in (("train", TRAIN), ("test", TEST)):
        (root / f"imagenet-r_{part}.yaml").unlink()
        path = root / "splits" / f"imagenet-r_{part}.yaml"
        write_list(path, images, prefix="/somewhere/else/train/")


def moved_by_another_split(root: Path) -> None:
    for number, wnid in enumerate(WNIDS):
        target = root / ("train", "test")[number % 2] / wnid
        target.parent.mkdir(exist_ok=True)
        (root / wnid).rename(target)


@pytest.mark.parametrize("arrange", [lambda root: None, lists_in_splits, moved_by_another_split])
def test_imagenet_r_has_the_labels_and_the_split_of_its_lists(
    arrange: Damage, renditions: Path
) -> None:
    arrange(renditions)
    dataset = load("imagenet-r")
    assert dataset.name == "imagenet-r"
    assert dataset.class_names == WNIDS
    assert dataset.train.labels.tolist() == [2, 0, 1, 0]
    assert dataset.test.labels.tolist() == [1, 2, 0]
    assert dataset.train.labels.dtype == np.int64
    assert shades(dataset.train) == [0, 20, 40, 60]
    assert shades(dataset.test) == [80, 100, 120]


def of_lists(train: Any, test: Any = TEST) -> Damage:
    """Lists of (folder, file) pairs, or the text of the first."""

    def damage(root: Path) -> None:
        if isinstance(train, str):
            (root / "imagenet-r_train.yaml").write_text(train, errors="surrogateescape")
        else:
            write_list(root / "imagenet-r_train.yaml", train)
        write_list(root / "imagenet-r_test.yaml", test)

    return damage


def labels(*targets: int) -> Damage:
    def damage(root: Path) -> None:
        path = root / "imagenet-r_train.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"targets": [*targets]}))

    return damage


NO_LISTS = (
    "data: [a/b.jpg\n",
    "\udcff\udcfe",
    "just words",
    "- a\n- b\n",
    "data: [c/a.jpg]\n",
    "",
    "5",
    "data: []\ntargets: []\n",
    "data: {c/a.jpg: 0}\ntargets: {0: 0}\n",
    "data: " + "[" * 3000 + "]" * 3000 + "\ntargets: [0]\n",
    "data: [c/a.jpg, c/b.jpg]\ntargets: [0]\n",
    "data: [c/a.jpg]\ntargets: [zero]\n",
    "data: [c/a.jpg]\ntargets: [-1]\n",
    "data: [7]\ntargets: [0]\n",
    "data: [a.jpg]\ntargets: [0]\n",
    "data: !!python/object/apply:os.getcwd []\ntargets: [0]\n",
)
ONE_LABEL = "do not give each class folder one label"
RENDITIONS: dict[str, tuple[Damage, str]] = {
    **{f"list {i}": (of_lists(x), r"train\.yaml is not a list") for i, x in enumerate(NO_LISTS)},
    "no list": (gone("imagenet-r_test.yaml"), r"no file imagenet-r_test\.yaml.*RIPL/CODA-Prompt"),
    "no image": (gone("n02165456/toy_3.jpg"), r"lacks 1 of 4 images, such as n02165456/toy_3\.jpg"),
    "in both": (of_lists(TRAIN, [*TEST, TRAIN[0]]), r"share 1 images, .* n01443537/art_0\.jpg"),
    "twice": (of_lists(TRAIN, [*TEST, TEST[0]]), "names an image twice"),
    "two labels a folder": (labels(0, 0, 1, 2), ONE_LABEL),
    "no label 0": (labels(1, 2, 3, 2), ONE_LABEL),
    "two folders a label": (labels(0, 1, 2, 1), ONE_LABEL),
}


@pytest.mark.parametrize(("damage", "match"), RENDITIONS.values(), ids=RENDITIONS)
def test_what_is_wrong_with_imagenet_r_is_named(
    damage: Damage, match: str, renditions: Path
) -> None:
    damage(renditions)
    with pytest.raises(OvorError, match=match) as error:
        load("imagenet-r")
    assert "\n" not in str(error.value)
    assert "pilot" not in str(error.value)


def test_imagenet_r_as_folders_points_to_the_pilot_split(data: Path) -> None:
    write_folders(data / "imagenet-r")
    with pytest.raises(OvorError, match=r"it holds test, train: .*choose imagenet-r:pilot"):
        load("imagenet-r")


# CUB-200


BIRDS = ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross")
CUB_ROWS = [(0, 1), (0, 0), (1, 0), (1, 1), (2, 1), (2, 1), (2, 0)]  # class, whether for training


def write_cub(root: Path) -> Path:
    names = [f"{BIRDS[label]}/Bird_{row:04}.jpg" for row, (label, _) in enumerate(CUB_ROWS)]
    for row, name in enumerate(names):
        grey(root / "images" / name, row * 20)
    lists = {
        "classes.txt": list(BIRDS),
        "images.txt": names,
        "image_class_labels.txt": [str(label + 1) for label, _ in CUB_ROWS],
        "train_test_split.txt": [str(training) for _, training in CUB_ROWS],
    }
    for name, values in lists.items():
        lines = [f"{number} {value}\n" for number, value in enumerate(values, 1)]
        (root / name).write_text("".join(lines))
    return root


@pytest.mark.parametrize("order", [1, -1])  # lists are matched by id, not by line
@pytest.mark.parametrize("place", ["CUB_200_2011", "cub-200/CUB_200_2011", "cub-200"])
def test_cub_has_its_official_split(data: Path, place: str, order: int) -> None:
    root = write_cub(data / place)
    for name in ("image_class_labels.txt", "train_test_split.txt"):
        (root / name).write_text("\n".join((root / name).read_text().splitlines()[::order]))
    dataset = load("cub-200")
    assert dataset.name == "cub-200"
    assert dataset.class_names == BIRDS
    assert dataset.train.labels.tolist() == [0, 1, 2, 2]
    assert dataset.test.labels.tolist() == [0, 1, 2]
    assert shades(dataset.train) == [0, 60, 80, 100]
    assert shades(dataset.test) == [20, 40, 120]


CUB_LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
BIRD = f"images/{BIRDS[1]}/Bird_0002.jpg"
DAMAGED_CUB: list[tuple[Damage, str]] = [
    *((gone(x), rf"no file {x}, it holds .*: get CUB_200_2011\.tgz") for x in CUB_LISTS),
    (gone(BIRD), r"lacks 1 of 7 images, such as .*Bird_0002\.jpg"),
    (holds("images.txt", ""), "images.txt is empty"),
    (holds("images.txt", "1 a.jpg\n1 b.jpg\n"), "images.txt .*line '1 b.jpg' where a new id"),
    (holds("images.txt", "one a.jpg\n"), "line 'one a.jpg' where"),
    (holds("images.txt", "1\n"), "line '1' where"),
    (holds("images.txt", "1 a.jpg\n" + "9" * 5000 + " b.jpg\n"), "line '999"),
    (holds("images.txt", "\udcff\udcfe\n"), "where a new id"),
    (holds("classes.txt", "2 a\n3 b\n"), "classes.txt does not count"),
    (holds("image_class_labels.txt", "1 1\n99 1\n"), "has image 99, but images.txt has not"),
    (holds("image_class_labels.txt", "1 4\n"), "has 4 for image 1 .*from 1 to 3"),
    (holds("train_test_split.txt", "1 1\n2 yes\n"), "has yes for image 2 .*from 0 to 1"),
    (holds("train_test_split.txt", "1 1\n"), "split.txt has nothing for image 2"),
]


@pytest.mark.parametrize(("damage", "match"), DAMAGED_CUB)
def test_what_is_wrong_with_cub_is_named(damage: Damage, match: str, data: Path) -> None:
    damage(write_cub(data / "CUB_200_2011"))
    with pytest.raises(OvorError, match=match):
        load("cub-200")


# Splits as folders


def write_folders(root: Path, classes: tuple[str, ...] = ("n02", "n01")) -> None:
    for number, name in enumerate(sorted(classes)):
        grey(root / "train" / name / "a.jpg", number * 20)
        grey(root / "train" / name / "b.jpg", number * 20)
        grey(root / "test" / name / "c.jpg", 100 + number * 20)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("imagenet-a", "imagenet-a"),
        ("imagenet-r:pilot", "imagenet-r"),
        ("cub-200:pilot", "cub-200"),
        ("cub-200:pilot", "cub"),
    ],
)
def test_folders_are_labelled_in_the_order_of_their_names(
    data: Path, capsys: pytest.CaptureFixture[str], name: str, place: str
) -> None:
    write_folders(data / place)
    dataset = load(name, FOLDERS)
    assert dataset.name == name
    assert dataset.class_names == ("n01", "n02")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert shades(dataset.test) == [100, 120]
    said = capsys.readouterr().err
    assert ("not comparable" in said) == name.endswith(":pilot")


def emptied(name: str) -> Damage:
    return lambda root: [path.unlink() for path in (root / name).iterdir()]


FOLDERS_REFUSED: dict[str, tuple[Damage, Expected, str]] = {
    "the original": (
        lambda root: (root / "train").rename(root / "n01498041") and shutil.rmtree(root / "test"),
        FOLDERS,
        r"holds n01498041 .*RevisitingCIL.*has no split",
    ),
    "fewer expected": (lambda _: None, replace(FOLDERS, classes=1), "has 2 .*imagenet-a has 1"),
    "more expected": (lambda _: None, replace(FOLDERS, classes=3), "has 2 .*imagenet-a has 3"),
    "no test images": (
        lambda root: shutil.rmtree(root / "test" / "n02"),
        FOLDERS,
        r"no test images of 1 of the 2 classes .*'n02'",
    ),
    # A published split is not repaired by removing a class.
    "empty, train": (emptied("train/n01"), FOLDERS, "'n01' .* A whole imagenet-a .*unpack it anew"),
    "no folder": (
        lambda root: shutil.rmtree(root / "train/n01"),
        FOLDERS,
        "'n01' .*unpack it anew",
    ),
    "empty, test": (emptied("test/n01"), FOLDERS, "'n01' .* A whole imagenet-a .*unpack it anew"),
}


@pytest.mark.parametrize(
    ("damage", "expected", "match"), FOLDERS_REFUSED.values(), ids=FOLDERS_REFUSED
)
def test_what_is_wrong_with_a_split_as_folders_is_named(
    damage: Damage, expected: Expected, match: str, data: Path
) -> None:
    write_folders(data / "imagenet-a")
    damage(data / "imagenet-a")
    with pytest.raises(OvorError, match=match):
        load("imagenet-a", expected)


# What all have in common


def test_a_wrong_number_of_images_is_only_told(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folders(data / "imagenet-a")
    load("imagenet-a", FOLDERS)
    assert capsys.readouterr().err == ""
    load("imagenet-a", Expected(classes=2, train=5981, test=2))
    said = capsys.readouterr().err
    assert "4 training and 2 test images where imagenet-a has 5,981 and 2" in said


@pytest.mark.parametrize("name", list(SOURCES))
def test_missing_data_says_what_to_get_and_where_it_must_lie(data: Path, name: str) -> None:
    (data / "lost").mkdir()
    with pytest.raises(OvorError) as error:
        load_dataset(name)
    sentence = str(error.value)
    source = SOURCES[name]
    assert sentence.startswith(f"{name} is not in {data}, which holds lost ")
    for part in ("OVOR_DATA", "~/.cache/ovor/data", source.get, source.layout):
        assert part in sentence
    assert "\n" not in sentence


def test_what_may_not_be_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_cub(data / "CUB_200_2011")

    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied", str(root / "classes.txt"))

    monkeypatch.setattr(Path, "read_text", refuse)
    sentence = r"classes\.txt cannot be read \(Permission denied\): allow this user"
    with pytest.raises(OvorError, match=sentence):
        load_dataset("cub-200")
    assert "Permission denied" in described()["cub-200"].problem


@pytest.mark.parametrize(("named", "place"), [("", ".cache/ovor/data"), ("~/images", "images")])
def test_the_data_folder_is_in_the_cache_unless_named(
    named: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OVOR_DATA", named)
    with pytest.raises(OvorError, match=f"is not in {tmp_path / place}, which does not exist"):
        load_dataset("cub-200")


def described() -> dict[str, Description]:
    return {description.name: description for description in describe()}


def test_describe_tells_found_broken_and_missing_apart(data: Path) -> None:
    write_folders(data / "imagenet-a", tuple(f"n{number:03}" for number in range(200)))
    (data / "CUB_200_2011").mkdir()
    found = described()
    assert list(found) == list(SOURCES)
    assert found["imagenet-a"].found == str(data / "imagenet-a")
    assert found["imagenet-a"].problem == ""
    assert found["cub-200"].found == str(data / "CUB_200_2011")
    assert "has no file classes.txt, it is empty" in found["cub-200"].problem
    assert found["cifar-100"].found is None
    assert "University of Toronto" in found["cifar-100"].advice


def places() -> dict[str, Path]:
    return {item.name: Path(item.found) for item in describe() if item.found}


def test_a_copy_with_lists_is_not_the_pilot_split(renditions: Path, data: Path) -> None:
    root = write_cub(data / "cub-200")
    assert places() == {"imagenet-r": renditions, "cub-200": root}
    pilot = described()["imagenet-r:pilot"]
    assert pilot.problem == ""
    assert "LAMDA-PILOT" in pilot.advice


def test_the_pilot_split_is_not_the_papers(data: Path) -> None:
    write_folders(data / "imagenet-r")
    write_folders(data / "cub-200")
    assert places() == {"imagenet-r:pilot": data / "imagenet-r", "cub-200:pilot": data / "cub-200"}


def test_each_split_is_found_beside_the_other(data: Path) -> None:
    write_cub(data / "cub-200" / "CUB_200_2011")
    write_folders(data / "cub")
    assert load("cub-200").class_names == BIRDS
    assert load("cub-200:pilot", FOLDERS).class_names == ("n01", "n02")
