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

from command import in_new_process
from ovor.data import load_dataset
from ovor.data.hf import Rows
from ovor.errors import OvorError
from shard_files import png, reds, refusal

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


def test_images_come_from_the_disk_in_their_order(tmp_path: Path) -> None:
    found = load_dataset(parquet(tmp_path / "d", train=rows(), test=rows(4)))
    assert found.class_names == ("0", "1")
    assert reds(found.train) == [0, 1, 2, 3, 4, 5]
    assert found.test.labels.tolist() == [0, 1, 0, 1]
    assert isinstance(found.train, Rows)
    assert found.train.rows.cache_files  # mapped from there, not held in memory
    found = load_dataset(parquet(tmp_path / "v", train=rows(), validation=rows(2)))
    assert (len(found.train), len(found.test)) == (6, 2)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([7, 3, 7, 10], ("3", "7", "10")),
        (["dog", "cat", "dog", "ähre"], ("cat", "dog", "ähre")),
    ],
)
def test_values_name_their_classes(
    tmp_path: Path, labels: list[Any], names: tuple[str, ...]
) -> None:
    given = {**rows(4), "label": labels}
    found = load_dataset(parquet(tmp_path / "d", train=given, test=given))
    assert found.class_names == names
    assert found.train.labels.tolist() == found.test.labels.tolist() == [1, 0, 1, 2]


def test_plain_bytes_are_images_too(tmp_path: Path) -> None:
    given = {"jpg": [png((i, 0, 0)) for i in range(4)], "kind": ["a", "b"] * 2}
    found = load_dataset(parquet(tmp_path / "d", train=given, test=given))
    assert reds(found.test) == [0, 1, 2, 3]
    assert found.class_names == ("a", "b")


def test_the_question_chooses_columns_and_splits(tmp_path: Path) -> None:
    given = {**rows(), "other": rows()["image"][::-1], "coarse": ["x", "y", "y"] * 2}
    name = parquet(tmp_path / "d", train=given, test=given, validation=given)
    assert "'image', 'other': say which, as hf:" in refusal(name)
    found = load_dataset(f"{name}?train=validation&test=test&image=other&label=coarse")
    assert reds(found.train) == [5, 4, 3, 2, 1, 0]
    assert found.class_names == ("x", "y")


@pytest.mark.parametrize("split", ["train", "test", "data"])
def test_a_single_split_is_split(tmp_path: Path, split: str) -> None:
    name = parquet(tmp_path / "d", **{split: rows(50)})
    found, again = load_dataset(name), load_dataset(name)
    assert sorted(reds(found.train) + reds(found.test)) == list(range(50))
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
        return {split: datasets.Dataset.from_dict(rows()) for split in ("train", "test")}

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    for name in ("owner/name", "owner/name:small", "mnist?label=label"):
        assert len(load_dataset(f"hf:{name}").train) == 6
    assert asked == [("owner/name", None), ("owner/name", "small"), ("mnist", None)]


def test_without_network_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*arguments: Any) -> Any:
        raise ConnectionError("Couldn't reach the Hugging Face Hub\nfor dataset 'owner/name'")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    sentence = refusal("hf:owner/name")
    assert "Couldn't reach the Hugging Face Hub for dataset" in sentence
    assert "as hf:PATH" in sentence


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'ovor[hf]'" in refusal("hf:owner/name")


def test_it_is_not_imported_for_other_data() -> None:
    code = "import sys, ovor.data; ovor.data.load_dataset('quickdraw'); print(*sys.modules)"
    done = in_new_process(code=code)
    assert done.returncode == 0
    assert not {"datasets", "pyarrow", "webdataset"} & set(done.stdout.split())


def changed(column: str, value: Any) -> Columns:
    """Return rows of which number 2 has another value."""
    given = rows()
    given[column][2] = value
    return given


def typed(folder: Path, given: Columns, train: list[str], test: list[str] | None = None) -> None:
    """Save a data set whose labels have names, which may differ between the splits."""
    made = {}
    for split, names in (("train", train), ("test", test or train)):
        kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=names)}
        made[split] = datasets.Dataset.from_dict(given, features=datasets.Features(kinds))
    datasets.DatasetDict(made).save_to_disk(folder)


def together(folder: Path, **splits: Columns) -> None:
    made = {name: datasets.Dataset.from_dict(columns) for name, columns in splits.items()}
    datasets.DatasetDict(made).save_to_disk(folder)


def test_classes_of_a_class_label(tmp_path: Path) -> None:
    typed(tmp_path / "d", rows(), ["cat", "dog"])
    assert load_dataset(f"hf:{tmp_path}/d").class_names == ("cat", "dog")


UNLABELLED = {"image": rows()["image"]}


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda d: typed(d, changed("label", None), ["a", "b"]), "Row 2 of .*no label"),
        (lambda d: typed(d, changed("label", -1), ["a", "b"]), "Row 2 .*label -1"),
        (lambda d: typed(d, rows(), ["a", "b", "c"]), "no training images of 'c'"),
        (lambda d: typed(d, rows(), ["a", "b"], ["b", "a"]), "or in their classes"),
        (lambda d: parquet(d, train={"x": [1]}, test={"x": [1]}), "no column .* the image"),
        (lambda d: parquet(d, train=UNLABELLED), "no column .* the label.*read as folder:"),
        (lambda d: together(d, a=rows(), b=rows()), "the splits 'a', 'b'"),
        (lambda d: together(d, train=rows(), b=rows()), "say which to use"),
        (lambda d: together(d, train=rows(), test=UNLABELLED), "differ in their"),
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
    assert re.search(match, refusal(f"hf:{tmp_path}/d"))


@pytest.mark.parametrize(
    ("question", "match"),
    [
        ("?image=x", "no column 'x'"),
        ("?label=x", "no column 'x'"),
        ("?image=label", "holds no images"),
        ("?test=x", "no split 'x'"),
        ("?column=x", "asks for nothing"),
        ("?image", "asks for nothing"),
        ("?label=image", "neither numbers nor names"),
    ],
)
def test_questions_are_checked(tmp_path: Path, question: str, match: str) -> None:
    name = parquet(tmp_path / "d", train=rows(), test=rows())
    assert len(load_dataset(f"{name}?").train) == 6
    assert re.search(match, refusal(name + question))


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
    name = parquet(tmp_path / "d", train=changed("image", value), test=rows())
    images = load_dataset(name).train
    assert np.asarray(images.image(1)).shape == (4, 6, 3)
    with pytest.raises(OvorError, match=match):
        images.image(2)


def test_what_was_said_already_stays_in_the_advice(tmp_path: Path) -> None:
    name = parquet(tmp_path / "d", train={"image": rows()["image"], "a": [0] * 6, "b": [1] * 6})
    assert "?image=image&label=COLUMN" in refusal(f"{name}?image=image")


def test_a_hub_that_is_not_asked_is_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # which the library has read before
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert "unset HF_HUB_OFFLINE" in refusal("hf:nobody/nothing")
