from pathlib import Path

import numpy as np
import pytest

from drawings import paint
from ovor.data import Dataset, load_dataset
from ovor.data.folders import Files
from ovor.errors import OvorError


def load(root: Path) -> Dataset:
    return load_dataset(f"folder:{root}")


def fill(root: Path, count: int) -> Dataset:
    """Make so many empty files in two classes."""
    for k in range(count):
        path = root / f"class{k % 2}" / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return load(root)


def side(data: Dataset, name: str) -> set[str]:
    images = getattr(data, name)
    assert isinstance(images, Files)
    return {path.name for path in images.paths}


def test_train_and_test_folders_are_taken_as_they_are(tmp_path: Path) -> None:
    for name in ("zebra", "ant"):
        paint(tmp_path / "train" / name / "1.png")
        paint(tmp_path / "train" / name / "deep" / "er" / "2.JPG")
    paint(tmp_path / "test" / "zebra" / "3.webp", "blue")
    data = load(tmp_path)
    assert data.class_names == ("ant", "zebra")
    assert data.train.labels.tolist() == [0, 0, 1, 1]
    assert data.test.labels.tolist() == [1]
    assert data.test.labels.dtype == np.int64
    red, _, blue = np.asarray(data.test.image(0)).mean((0, 1))
    assert blue > 200 > 50 > red


def test_every_usual_suffix_counts_and_nothing_else(tmp_path: Path) -> None:
    for suffix in ("jpg", "JPEG", "png", "webp", "gif", "bmp", "tif", "TIFF"):
        paint(tmp_path / "train" / "a" / f"x.{suffix}")
    (tmp_path / "train" / "a" / "x.HEIC").touch()
    paint(tmp_path / "train" / "a" / ".hidden.png")
    paint(tmp_path / "train" / "a" / ".cache" / "x.png")
    paint(tmp_path / "train" / ".thumbnails" / "x.png")
    (tmp_path / "train" / "a" / "notes.txt").write_text("no image")
    (tmp_path / "train" / "readme.md").write_text("no class")
    paint(tmp_path / "test" / "a" / "y.png")
    data = load(tmp_path)
    assert data.class_names == ("a",)
    assert len(data.train) == 9


def test_without_test_folder_about_a_fifth_is_kept_for_testing(tmp_path: Path) -> None:
    data = fill(tmp_path, 400)
    assert side(data, "train") | side(data, "test") == {f"{k}.png" for k in range(400)}
    assert len(data.train) + len(data.test) == 400
    assert 50 < len(data.test) < 110


def test_a_file_keeps_its_side_when_others_come_and_when_the_folder_moves(tmp_path: Path) -> None:
    few = fill(tmp_path / "here", 30)
    many = fill(tmp_path / "here", 60)
    moved = fill(tmp_path / "there", 30)
    for name in ("train", "test"):
        assert side(few, name) < side(many, name)
        assert side(few, name) == side(moved, name)


def test_every_class_keeps_a_training_image(tmp_path: Path) -> None:
    for k in range(60):
        (tmp_path / f"class{k}").mkdir()
        (tmp_path / f"class{k}" / "only.png").touch()
    data = load(tmp_path)
    assert data.train.labels.tolist() == list(range(60))
    assert len(data.test) == 0


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    paint(tmp_path / "train" / "1.png")
    paint(tmp_path / "bus" / "1.png")
    assert load(tmp_path).class_names == ("bus", "train")
    paint(tmp_path / "test" / "1.png")
    assert load(tmp_path).class_names == ("bus", "test", "train")


def test_a_stray_image_does_not_make_a_part_a_class(tmp_path: Path) -> None:
    for name in ("train/cat/1.png", "train/all-of-them.png", "test/cat/1.png"):
        paint(tmp_path / name)
    assert load(tmp_path).class_names == ("cat",)


# The files and, with a slash at the end, the empty folders of a folder that is refused, and why.
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "missing": ((), "There is no folder .*data"),
    "no class folders": (("1.png",), "no class folders"),
    "an empty class": (("cat/1.png", "dog/"), "No images in 'dog'"),
    "tested, never trained": (
        ("train/cat/1.png", "test/cat/1.png", "test/wolf/1.png"),
        "'wolf' .*no training images",
    ),
    "train without test": (("train/cat/1.png", "val/cat/1.png"), "not both 'train' and 'test'"),
    "two names that look alike": (("caf\u00e9/1.png", "cafe\u0301/1.png"), "both called 'café'"),
}


@pytest.mark.parametrize(("files", "match"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_a_folder_is_named(
    files: tuple[str, ...], match: str, tmp_path: Path
) -> None:
    for name in files:
        path = tmp_path / "data" / name
        path.mkdir(parents=True) if name.endswith("/") else paint(path)
    with pytest.raises(OvorError, match=match):
        load(tmp_path / "data")
