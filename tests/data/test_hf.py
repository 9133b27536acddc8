import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ovor.data import Dataset, load_dataset
from ovor.data.hf import Rows
from ovor.errors import OvorError
from shard_files import png

Columns = dict[str, list[Any]]


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")


def rows(count: int = 6) -> Columns:
    return {
        "image": [{"bytes": png((i, 9, 9)), "path": None} for i in range(count)],
        "label": [i % 2 for i in range(count)],
    }


def parquet(folder: Path, **splits: Columns) -> str:
    """As pandas and others write it, without the types of Hugging Face."""
    folder.mkdir(exist_ok=True)
    for split, columns in splits.items():
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{split}-0.parquet")
    return f"hf:{folder}"


def reds(images: Any) -> list[int]:
    return [images.image(i).getpixel((0, 0))[0] for i in range(len(images))]


def said(name: str) -> str:
    with pytest.raises(OvorError) as error:
        load_dataset(name)
    assert str(error.value).endswith(".")
    return str(error.value)


def test_images_come_from_the_disk_in_their_order(tmp_path: Path) -> None:
    found = load_dataset(parquet(tmp_path / "d", train=rows(), test=rows(4)))
    assert found.class_names == ("0", "1")
    assert reds(found.train) == [0, 1, 2, 3, 4, 5]
    assert found.test.labels.tolist() == [0, 1, 0, 1]
    assert isinstance(found.train, Rows)
    assert found.train.rows.cache_files  # mapped from there, not held in memory


@pytest.mark.parametrize(
    ("labels", "names", "positions"),
    [
        ([7, 3, 7, 10], ("3", "7", "10"), [1, 0, 1, 2]),
        (["dog", "cat", "dog", "ähre"], ("cat", "dog", "ähre"), [1, 0, 1, 2]),
    ],
)
def test_values_name_their_classes(
    tmp_path: Path, labels: list[Any], names: tuple[str, ...], positions: list[int]
) -> None:
    given = {**rows(4), "label": labels}
    found = load_dataset(parquet(tmp_path / "d", train=given, test=given))
    assert found.class_names == names
    assert found.train.labels.tolist() == found.test.labels.tolist() == positions


def test_plain_bytes_are_images_too(tmp_path: Path) -> None:
    given = {"jpg": [png((i, 0, 0)) for i in range(4)], "kind": ["a", "b"] * 2}
    found = load_dataset(parquet(tmp_path / "d", train=given, test=given))
    assert reds(found.test) == [0, 1, 2, 3]
    assert found.class_names == ("a", "b")


def test_the_question_chooses_columns_and_splits(tmp_path: Path) -> None:
    given = {**rows(), "other": rows()["image"][::-1], "coarse": ["x", "y", "y"] * 2}
    name = parquet(tmp_path / "d", train=given, test=given, validation=given)
    assert "'image', 'other': say which, as hf:" in said(name)
    found = load_dataset(f"{name}?train=validation&test=test&image=other&label=coarse")
    assert reds(found.train) == [5, 4, 3, 2, 1, 0]
    assert found.class_names == ("x", "y")


def test_validation_tests_where_there_is_no_test(tmp_path: Path) -> None:
    found = load_dataset(parquet(tmp_path / "d", train=rows(), validation=rows(2)))
    assert (len(found.train), len(found.test)) == (6, 2)


def both(found: Dataset) -> list[int]:
    return sorted([*reds(found.train), *reds(found.test)])


@pytest.mark.parametrize("split", ["train", "test", "data"])
def test_a_single_split_is_split(tmp_path: Path, split: str) -> None:
    name = parquet(tmp_path / "d", **{split: rows(50)})
    found, again = load_dataset(name), load_dataset(name)
    assert both(found) == list(range(50))
    assert 3 <= len(found.test) <= 17
    assert reds(again.test) == reds(found.test)
    assert all(found.train.labels[i] == red % 2 for i, red in enumerate(reds(found.train)))


def test_rows_that_were_chosen_before_saving(tmp_path: Path) -> None:
    """`select` keeps a list of rows beside the table, which must be followed."""
    whole = datasets.Dataset.from_dict(rows(10)).select([8, 3, 5, 0])
    datasets.DatasetDict({"train": whole, "test": whole}).save_to_disk(tmp_path / "d")
    found = load_dataset(f"hf:{tmp_path}/d")
    assert reds(found.train) == [8, 3, 5, 0]
    assert found.train.labels.tolist() == [0, 1, 1, 0]


def test_images_by_path(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png((77, 0, 0)))
    given = rows(2)
    given["image"][0] = {"bytes": None, "path": str(tmp_path / "a.png")}
    found = load_dataset(parquet(tmp_path / "d", train=given, test=given))
    assert reds(found.train) == [77, 1]


def test_a_name_with_a_config_goes_to_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def from_hub(*arguments: Any) -> Any:
        asked.append(arguments)
        return datasets.DatasetDict({s: datasets.Dataset.from_dict(rows()) for s in SIDES})

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    for name in ("owner/name", "owner/name:small", "mnist?label=label"):
        assert len(load_dataset(f"hf:{name}").train) == 6
    assert asked == [("owner/name", None), ("owner/name", "small"), ("mnist", None)]


SIDES = ("train", "test")


def test_without_network_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: Any) -> Any:
        raise ConnectionError("Couldn't reach the Hugging Face Hub\nfor dataset 'owner/name'")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    sentence = said("hf:owner/name")
    assert "Couldn't reach the Hugging Face Hub for dataset" in sentence
    assert "as hf:PATH" in sentence


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'ovor[hf]'" in said("hf:owner/name")


def test_it_is_not_imported_for_other_data() -> None:
    import subprocess

    code = "import sys, ovor.data; ovor.data.load_dataset('quickdraw'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"datasets", "pyarrow", "webdataset"} & set(done.stdout.split())


def changed(column: str, value: Any) -> Callable[[Columns], Columns]:
    return lambda given: {**given, column: [*given[column][:2], value, *given[column][3:]]}


def typed(names: list[str]) -> Callable[[Path, Columns], None]:
    def write(folder: Path, given: Columns) -> None:
        kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}
        made = datasets.Dataset.from_dict(given, features=datasets.Features(kinds))
        datasets.DatasetDict({"train": made, "test": made}).save_to_disk(folder)

    return write


def together(folder: Path, **splits: Columns) -> None:
    made = {name: datasets.Dataset.from_dict(columns) for name, columns in splits.items()}
    datasets.DatasetDict(made).save_to_disk(folder)


def test_splits_with_other_classes_are_refused(tmp_path: Path) -> None:
    for part, names in (("train", ["cat", "dog"]), ("test", ["dog", "cat"])):
        typed(names)(tmp_path / part, rows())
    parts = {p: datasets.load_from_disk(tmp_path / p)[p] for p in ("train", "test")}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "d")
    assert "or in their classes" in said(f"hf:{tmp_path}/d")


def test_classes_of_a_class_label(tmp_path: Path) -> None:
    typed(["cat", "dog"])(tmp_path / "d", rows())
    assert load_dataset(f"hf:{tmp_path}/d").class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda d: typed(["cat", "dog"])(d, changed("label", None)(rows())), "Row 2 of .*no label"),
        (lambda d: typed(["cat", "dog"])(d, changed("label", -1)(rows())), "Row 2 .*label -1"),
        (lambda d: typed(["a", "b", "c"])(d, rows()), "no training images of 'c'"),
        (lambda d: parquet(d, train={"x": [1]}, test={"x": [1]}), "no column .* the image"),
        (
            lambda d: parquet(d, train={"image": rows()["image"]}),
            "no column .* the label.*read as folder:",
        ),
        (lambda d: together(d, a=rows(), b=rows()), "the splits 'a', 'b'"),
        (lambda d: together(d, train=rows(), b=rows()), "say which to use"),
        (lambda d: together(d, train=rows(), test={"image": rows()["image"]}), "differ in their"),
        (lambda d: parquet(d, train=rows(), test={"x": [1]}), "cannot be loaded .*column names"),
        (lambda d: parquet(d, train=rows(0), test=rows()), "cannot be loaded"),
        (lambda d: d.mkdir(), "cannot be loaded as a data set"),
        (lambda d: (d.mkdir(), (d / "train.parquet").write_bytes(b"PAR1")), "cannot be loaded"),
        (lambda d: (d.mkdir(), (d / "state.json").write_text("{")), "cannot be loaded"),
        (lambda d: None, "There is no folder"),
    ],
)
def test_damage_is_named(tmp_path: Path, write: Callable[[Path], object], match: str) -> None:
    write(tmp_path / "d")
    assert re.search(match, said(f"hf:{tmp_path}/d"))


@pytest.mark.parametrize(
    ("question", "match"),
    [
        ("?", None),
        ("?image=x", "no column 'x'"),
        ("?label=x", "no column 'x'"),
        ("?image=label", "holds no images"),
        ("?test=x", "no split 'x'"),
        ("?column=x", "asks for nothing"),
        ("?image", "asks for nothing"),
        ("?label=image", "neither numbers nor names"),
    ],
)
def test_questions_are_checked(tmp_path: Path, question: str, match: str | None) -> None:
    name = parquet(tmp_path / "d", train=rows(), test=rows()) + question
    if match is None:
        assert len(load_dataset(name).train) == 6
    else:
        assert re.search(match, said(name))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (None, "Row 2 of split 'train' of .* has no image in its column 'image'"),
        ({"bytes": None, "path": None}, "Row 2 of split 'train'"),
        ({"bytes": None, "path": "/nowhere.png"}, "Row 2 of split 'train'"),
        ({"bytes": b"no picture", "path": None}, "The image in row 2 of split 'train' of .*read"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, value: Any, match: str) -> None:
    name = parquet(tmp_path / "d", train=changed("image", value)(rows()), test=rows())
    images = load_dataset(name).train
    assert np.asarray(images.image(1)).shape == (4, 6, 3)
    with pytest.raises(OvorError, match=match):
        images.image(2)


def test_what_was_said_already_stays_in_the_advice(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"image": rows()["image"], "a": [0] * 6, "b": [1] * 6})
    assert "?image=image&label=COLUMN" in said(f"{name}?image=image")


def test_a_hub_that_is_not_asked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # which the library has read before
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert "unset HF_HUB_OFFLINE" in said("hf:nobody/nothing")
