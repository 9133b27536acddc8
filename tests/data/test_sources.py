"""The paper's data sets that come as files and lists, on miniature copies in the true layouts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from ovor.data import SOURCES, Dataset, describe, load_dataset
from ovor.data.cub_200 import cub_200, cub_200_pilot
from ovor.data.imagenet_a import imagenet_a
from ovor.data.imagenet_r import imagenet_r, imagenet_r_pilot
from ovor.data.sources import Expected, data_folder
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
MINI = Expected(classes=3, train=4, test=3)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    return tmp_path


def paint(path: Path, grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (grey, grey, grey)).save(path, quality=100)


def shade(dataset: Dataset, part: str, index: int) -> int:
    """The grey of an image: in the miniatures it tells which file was read."""
    return round(float(np.asarray(getattr(dataset, part).image(index)).mean()))


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
        paint(root / wnid / f"{name}.jpg", grey=number * 20)
    (root / "README.txt").write_text("n01443537 goldfish")
    write_list(root / "imagenet-r_train.yaml", TRAIN)
    write_list(root / "imagenet-r_test.yaml", TEST)
    return root


def test_imagenet_r_has_the_labels_and_the_split_of_its_lists(renditions: Path) -> None:
    dataset = imagenet_r(MINI)
    assert dataset.name == "imagenet-r"
    assert dataset.class_names == WNIDS
    assert dataset.class_names != tuple(sorted(WNIDS))
    assert dataset.train.labels.tolist() == [2, 0, 1, 0]
    assert dataset.test.labels.tolist() == [1, 2, 0]
    assert dataset.train.labels.dtype == np.int64
    assert [shade(dataset, "train", i) for i in range(4)] == [0, 20, 40, 60]
    assert [shade(dataset, "test", i) for i in range(3)] == [80, 100, 120]


def test_imagenet_r_lists_may_lie_in_splits_and_name_any_parent_folder(renditions: Path) -> None:
    for part, images in (("train", TRAIN), ("test", TEST)):
        (renditions / f"imagenet-r_{part}.yaml").unlink()
        path = renditions / "splits" / f"imagenet-r_{part}.yaml"
        write_list(path, images, prefix="/somewhere/else/train/")
    assert imagenet_r(MINI).train.labels.tolist() == [2, 0, 1, 0]


def test_imagenet_r_lists_find_images_that_another_split_moved(renditions: Path) -> None:
    for number, wnid in enumerate(WNIDS):
        target = renditions / ("train", "test")[number % 2] / wnid
        target.parent.mkdir(exist_ok=True)
        (renditions / wnid).rename(target)
    dataset = imagenet_r(MINI)
    assert dataset.test.labels.tolist() == [1, 2, 0]
    assert [shade(dataset, "test", i) for i in range(3)] == [80, 100, 120]


def test_imagenet_r_without_lists_says_which_and_where_from(renditions: Path) -> None:
    (renditions / "imagenet-r_test.yaml").unlink()
    with pytest.raises(
        OvorError, match=r"no file imagenet-r_test\.yaml.*GT-RIPL/CODA-Prompt"
    ) as error:
        imagenet_r(MINI)
    assert "pilot" not in str(error.value)


def test_imagenet_r_as_folders_points_to_the_pilot_split(data: Path) -> None:
    for part in ("train", "test"):
        paint(data / "imagenet-r" / part / "n01443537" / "1.jpg")
    with pytest.raises(OvorError, match=r"it holds test, train: .*choose imagenet-r:pilot"):
        imagenet_r(MINI)


def test_imagenet_r_names_missing_images(renditions: Path) -> None:
    (renditions / "n02165456" / "toy_3.jpg").unlink()
    with pytest.raises(OvorError, match=r"lacks 1 of 4 images, such as n02165456/toy_3\.jpg"):
        imagenet_r(MINI)


@pytest.mark.parametrize(
    "content",
    [
        "data: [a/b.jpg\n",
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
    ],
)
def test_a_damaged_list_is_named(renditions: Path, content: str) -> None:
    (renditions / "imagenet-r_train.yaml").write_text(content)
    with pytest.raises(OvorError, match=r"imagenet-r_train\.yaml is not a list") as error:
        imagenet_r(MINI)
    assert "\n" not in str(error.value)


def test_an_image_in_both_lists_or_twice_in_one_is_refused(renditions: Path) -> None:
    write_list(renditions / "imagenet-r_test.yaml", [*TEST, TRAIN[0]])
    with pytest.raises(OvorError, match=r"share 1 images, such as n01443537/art_0\.jpg"):
        imagenet_r(MINI)
    write_list(renditions / "imagenet-r_test.yaml", [*TEST, TEST[0]])
    with pytest.raises(OvorError, match="names an image twice"):
        imagenet_r(MINI)


@pytest.mark.parametrize("targets", [[0, 0, 1, 2], [1, 2, 3, 2], [0, 1, 2, 1]])
def test_labels_that_do_not_fit_the_folders_are_refused(
    renditions: Path, targets: list[int]
) -> None:
    path = renditions / "imagenet-r_train.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"targets": targets}))
    with pytest.raises(OvorError, match="do not give each class folder one label"):
        imagenet_r(MINI)


# CUB-200


BIRDS = ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross")
CUB_ROWS = [(0, 1), (0, 0), (1, 0), (1, 1), (2, 1), (2, 1), (2, 0)]  # class, whether for training
CUB_MINI = Expected(classes=3, train=4, test=3)


def write_cub(root: Path) -> Path:
    names = [f"{BIRDS[label]}/Bird_{row:04}.jpg" for row, (label, _) in enumerate(CUB_ROWS)]
    for row, name in enumerate(names):
        paint(root / "images" / name, grey=row * 20)
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


@pytest.mark.parametrize("place", ["CUB_200_2011", "cub-200/CUB_200_2011", "cub-200"])
def test_cub_has_its_official_split(data: Path, place: str) -> None:
    write_cub(data / place)
    dataset = cub_200(CUB_MINI)
    assert dataset.name == "cub-200"
    assert dataset.class_names == BIRDS
    assert dataset.train.labels.tolist() == [0, 1, 2, 2]
    assert dataset.test.labels.tolist() == [0, 1, 2]
    assert [shade(dataset, "train", i) for i in range(4)] == [0, 60, 80, 100]
    assert [shade(dataset, "test", i) for i in range(3)] == [20, 40, 120]


def test_cub_lists_are_matched_by_id_not_by_line(data: Path) -> None:
    root = write_cub(data / "CUB_200_2011")
    for name in ("image_class_labels.txt", "train_test_split.txt"):
        lines = (root / name).read_text().splitlines()
        (root / name).write_text("\n".join(reversed(lines)))
    assert cub_200(CUB_MINI).train.labels.tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    "name", ["images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt"]
)
def test_cub_names_the_list_that_is_missing(data: Path, name: str) -> None:
    root = write_cub(data / "CUB_200_2011")
    (root / name).unlink()
    with pytest.raises(OvorError, match=rf"has no file {name}, it holds .*: get CUB_200_2011\.tgz"):
        cub_200(CUB_MINI)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("images.txt", "", "empty"),
        ("images.txt", "1 a.jpg\n1 b.jpg\n", "line '1 b.jpg' where a new id"),
        ("images.txt", "one a.jpg\n", "line 'one a.jpg' where"),
        ("images.txt", "1\n", "line '1' where"),
        ("images.txt", "1 a.jpg\n" + "9" * 5000 + " b.jpg\n", "line '999"),
        ("images.txt", "\udcff\udcfe\n", "where a new id"),
        ("image_class_labels.txt", "1 1\n99 1\n", "has image 99, but images.txt has not"),
        ("classes.txt", "2 a\n3 b\n", "does not count"),
        ("image_class_labels.txt", "1 4\n", "has 4 for image 1 .*from 1 to 3"),
        ("train_test_split.txt", "1 1\n2 yes\n", "has yes for image 2 .*from 0 to 1"),
        ("train_test_split.txt", "1 1\n", "has nothing for image 2"),
    ],
)
def test_cub_names_what_is_wrong_in_a_list(data: Path, name: str, content: str, found: str) -> None:
    path = write_cub(data / "CUB_200_2011") / name
    path.write_text(content, errors="surrogateescape")
    with pytest.raises(OvorError, match=rf"{name} .*{found}"):
        cub_200(CUB_MINI)


def test_cub_names_missing_images(data: Path) -> None:
    root = write_cub(data / "CUB_200_2011")
    (root / "images" / BIRDS[1] / "Bird_0002.jpg").unlink()
    with pytest.raises(OvorError, match=r"lacks 1 of 7 images, such as .*Bird_0002\.jpg"):
        cub_200(CUB_MINI)


# Splits as folders


def write_folders(root: Path, classes: tuple[str, ...] = ("n02", "n01")) -> None:
    for number, name in enumerate(sorted(classes)):
        paint(root / "train" / name / "a.jpg", grey=number * 20)
        paint(root / "train" / name / "b.jpg", grey=number * 20)
        paint(root / "test" / name / "c.jpg", grey=100 + number * 20)


FOLDERS = Expected(classes=2, train=4, test=2)
AS_FOLDERS: list[tuple[str, str, Callable[[Expected], Dataset]]] = [
    ("imagenet-a", "imagenet-a", imagenet_a),
    ("imagenet-r:pilot", "imagenet-r", imagenet_r_pilot),
    ("cub-200:pilot", "cub-200", cub_200_pilot),
    ("cub-200:pilot", "cub", cub_200_pilot),
]


@pytest.mark.parametrize(("name", "place", "load"), AS_FOLDERS)
def test_folders_are_labelled_in_the_order_of_their_names(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    place: str,
    load: Callable[[Expected], Dataset],
) -> None:
    write_folders(data / place)
    dataset = load(FOLDERS)
    assert dataset.name == name
    assert dataset.class_names == ("n01", "n02")
    assert dataset.train.labels.tolist() == [0, 0, 1, 1]
    assert [shade(dataset, "test", i) for i in range(2)] == [100, 120]
    said = capsys.readouterr().err
    assert ("not comparable" in said) == name.endswith(":pilot")


def test_the_original_imagenet_a_has_no_split(data: Path) -> None:
    paint(data / "imagenet-a" / "n01498041" / "1.jpg")
    with pytest.raises(OvorError, match=r"holds n01498041 .*RevisitingCIL.*has no split"):
        imagenet_a(FOLDERS)


def test_a_truncated_image_is_named_when_it_is_read(data: Path) -> None:
    write_folders(data / "imagenet-a")
    path = data / "imagenet-a" / "train" / "n01" / "b.jpg"
    path.write_bytes(path.read_bytes()[:300])
    dataset = imagenet_a(FOLDERS)
    with pytest.raises(OvorError, match=r"b\.jpg cannot be read"):
        dataset.train.image(1)


# What all have in common


def test_a_wrong_number_of_images_is_only_told(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folders(data / "imagenet-a")
    imagenet_a(FOLDERS)
    assert capsys.readouterr().err == ""
    imagenet_a(Expected(classes=2, train=5981, test=2))
    said = capsys.readouterr().err
    assert "4 training and 2 test images where imagenet-a has 5,981 and 2" in said


@pytest.mark.parametrize("classes", [1, 3])
def test_a_wrong_number_of_classes_is_an_error(data: Path, classes: int) -> None:
    write_folders(data / "imagenet-a")
    with pytest.raises(OvorError, match=f"has 2 classes, but imagenet-a has {classes}"):
        imagenet_a(Expected(classes=classes, train=4, test=2))


def test_a_class_without_test_images_is_an_error(data: Path) -> None:
    write_folders(data / "imagenet-a")
    (data / "imagenet-a" / "test" / "n02" / "c.jpg").unlink()
    (data / "imagenet-a" / "test" / "n02").rmdir()
    with pytest.raises(OvorError, match=r"no test images of 1 of the 2 classes .*'n02'"):
        imagenet_a(FOLDERS)


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


def test_a_file_in_the_place_of_a_folder_is_called_one(data: Path) -> None:
    for place, name in (("imagenet-r", "imagenet-r"), ("CUB_200_2011", "cub-200")):
        (data / place).write_text("")
        with pytest.raises(OvorError, match=rf"{place} has no file .*it is a file, not a folder"):
            load_dataset(name)


@pytest.mark.parametrize("damage", ["train/n01", "test/n01"])
def test_a_published_split_is_not_repaired_by_removing_a_class(data: Path, damage: str) -> None:
    write_folders(data / "imagenet-a")
    for path in (data / "imagenet-a" / damage).iterdir():
        path.unlink()
    with pytest.raises(OvorError, match=r"'n01' .* A whole imagenet-a .*unpack it anew"):
        imagenet_a(FOLDERS)


def test_what_may_not_be_read_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_cub(data / "CUB_200_2011")

    def refuse(*_: object) -> str:
        raise PermissionError(13, "Permission denied", str(root / "classes.txt"))

    monkeypatch.setattr(Path, "read_text", refuse)
    sentence = r"classes\.txt cannot be read \(Permission denied\): allow this user"
    with pytest.raises(OvorError, match=sentence):
        load_dataset("cub-200")
    described = {description.name: description for description in describe()}
    assert "Permission denied" in described["cub-200"].problem


def test_the_data_folder_is_in_the_cache_unless_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OVOR_DATA", raising=False)
    assert data_folder() == tmp_path / ".cache" / "ovor" / "data"
    monkeypatch.setenv("OVOR_DATA", "~/images")
    assert data_folder() == tmp_path / "images"


def test_a_data_folder_that_does_not_exist_holds_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(OvorError, match="nowhere, which does not exist"):
        load_dataset("cub-200")


def test_describe_tells_found_broken_and_missing_apart(data: Path) -> None:
    write_folders(data / "imagenet-a", tuple(f"n{number:03}" for number in range(200)))
    (data / "CUB_200_2011").mkdir()
    described = {description.name: description for description in describe()}
    assert list(described) == list(SOURCES)
    assert described["imagenet-a"].found == data / "imagenet-a"
    assert described["imagenet-a"].problem == ""
    assert described["cub-200"].found == data / "CUB_200_2011"
    assert "has no file classes.txt, it is empty" in described["cub-200"].problem
    assert described["cifar-100"].found is None
    assert data / "cifar-100-python.tar.gz" in described["cifar-100"].looked
    assert "University of Toronto" in described["cifar-100"].advice


def found() -> dict[str, Path]:
    return {item.name: item.found for item in describe() if item.found}


def test_a_copy_with_lists_is_not_the_pilot_split(renditions: Path, data: Path) -> None:
    root = write_cub(data / "cub-200")
    assert found() == {"imagenet-r": renditions, "cub-200": root}
    described = {description.name: description for description in describe()}
    assert described["imagenet-r:pilot"].problem == ""
    assert "LAMDA-PILOT" in described["imagenet-r:pilot"].advice


def test_the_pilot_split_is_not_the_papers(data: Path) -> None:
    write_folders(data / "imagenet-r")
    write_folders(data / "cub-200")
    assert found() == {"imagenet-r:pilot": data / "imagenet-r", "cub-200:pilot": data / "cub-200"}


def test_each_split_is_found_beside_the_other(data: Path) -> None:
    write_cub(data / "cub-200" / "CUB_200_2011")
    write_folders(data / "cub")
    assert cub_200(CUB_MINI).class_names == BIRDS
    assert cub_200_pilot(FOLDERS).class_names == ("n01", "n02")
