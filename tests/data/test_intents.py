"""Data sets of short texts, as miniatures in the layouts in which their makers publish them."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ovor.data import SOURCES, Dataset, load_dataset
from ovor.data.sources import Expected
from ovor.errors import OvorError

Rows = list[tuple[str, str]]
TRAIN = [("how old is it", "age"), ('say "hi", then\nleave', "greet"), ("what is its age", "age")]
TEST = [("hello", "greet"), ("its age, please", "age")]
MINI = Expected(classes=2, train=3, test=2)
PLAIN = [(text.replace("\n", " "), label) for text, label in TRAIN]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    return tmp_path


def rows(dataset: Dataset, part: str) -> Rows:
    items = dataset.train if part == "train" else dataset.test
    return [(items.item(i), dataset.class_names[k]) for i, k in enumerate(items.labels)]


def load(name: str, expected: Expected = MINI) -> Dataset:
    return replace(SOURCES[name], expected=expected).load()


def write_table(path: Path, content: Rows) -> None:
    """Write a table as PolyAI and DialoGLUE have it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "category"])
        table.writerows(content)


def write_lines(folder: Path, content: Rows) -> None:
    """Write texts and labels as the collection Few-Shot-Intent-Detection has them."""
    folder.mkdir(parents=True)
    (folder / "seq.in").write_text("".join(f"{text}\n" for text, _ in content))
    (folder / "label").write_text("".join(f"{label}\n" for _, label in content))


def clinc_file(root: Path) -> None:
    parts = {
        "oos_val": [["no idea", "oos"]],
        "val": [["how old", "age"]],
        "train": TRAIN,
        "oos_test": [["who won in 1974", "oos"], ["sing", "oos"]],
        "test": TEST,
        "oos_train": [["not this", "oos"]],
    }
    (root / "clinc150").mkdir()
    (root / "clinc150/data_full.json").write_text(json.dumps(parts))


def tables(folder: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_table(root / folder / "train.csv", TRAIN)
        write_table(root / folder / "test.csv", TEST)
        (root / folder / "categories.json").write_text(json.dumps(["age", "greet"]))

    return write


def lines(folder: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_lines(root / folder / "train", PLAIN)
        write_lines(root / folder / "train_5", PLAIN[:1])
        write_lines(root / folder / "valid", PLAIN[:1])
        write_lines(root / folder / "test", TEST)
        if folder == "CLINC150":
            write_lines(root / folder / "oos/test", [("who won in 1974", "oos"), ("sing", "oos")])

    return write


def dbpedia_files(root: Path) -> None:
    folder = root / "dbpedia_csv"
    folder.mkdir()
    (folder / "classes.txt").write_text("Company\nVillage\n")
    (folder / "train.csv").write_text(
        '1,"Acme"," Acme makes ""everything"", and more."\n2,"Oda"," Oda is a village."\n'
        '2,"Ura"," So is Ura."\n'
    )
    (folder / "test.csv").write_text('2,"Ida"," Another one."\n1,"Bolt"," It sells bolts."\n')


@pytest.mark.parametrize(
    ("name", "write", "train"),
    [
        ("clinc150", clinc_file, TRAIN),
        ("clinc150", lines("CLINC150"), PLAIN),
        ("banking77", tables("banking_data"), TRAIN),
        ("banking77", lines("BANKING77"), PLAIN),
        ("hwu64", tables("hwu"), TRAIN),
        ("hwu64", lines("HWU64"), PLAIN),
    ],
    ids=["clinc-json", "clinc-lines", "banking-csv", "banking-lines", "hwu-csv", "hwu-lines"],
)
def test_intents_are_read_in_the_layouts_of_their_makers(
    data: Path, name: str, write: Callable[[Path], None], train: Rows
) -> None:
    write(data)
    found = load(name)
    assert found.class_names == ("age", "greet")
    assert rows(found, "train") == train
    assert rows(found, "test") == TEST
    unknown = found.unknown
    if name == "clinc150":
        assert unknown is not None
        assert [unknown.item(i) for i in range(len(unknown))] == ["who won in 1974", "sing"]
    else:
        assert unknown is None


def test_dbpedia_is_title_and_description(data: Path) -> None:
    dbpedia_files(data)
    found = load("dbpedia")
    assert rows(found, "train")[0] == ('Acme\nAcme makes "everything", and more.', "Company")
    assert [name for _, name in rows(found, "train")] == ["Company", "Village", "Village"]
    assert rows(found, "test")[0] == ("Ida\nAnother one.", "Village")


def no_test(root: Path) -> None:
    tables("banking77")(root)
    (root / "banking77/test.csv").unlink()


def no_columns(root: Path) -> None:
    tables("banking77")(root)
    (root / "banking77/test.csv").write_text("a,b\n1,2\n")


def too_few_labels(root: Path) -> None:
    lines("BANKING77")(root)
    (root / "BANKING77/train/label").write_text("age\n")


def not_utf_8(root: Path) -> None:
    tables("banking77")(root)
    (root / "banking77/train.csv").write_bytes(b"text,category\ncaf\xe9,food\n")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (no_test, r"has no test\.csv: get train\.csv"),
        (no_columns, r"test\.csv is damaged or has another layout"),
        (too_few_labels, "3 texts and 1 labels"),
        (not_utf_8, r"train\.csv is damaged or has another layout"),
    ],
)
def test_a_copy_that_is_not_whole_is_refused(
    data: Path, write: Callable[[Path], None], said: str
) -> None:
    write(data)
    with pytest.raises(OvorError, match=said):
        load_dataset("banking77")


def test_other_copies_are_refused_too(data: Path) -> None:
    (data / "clinc150").mkdir()
    (data / "clinc150/data_full.json").write_text('{"train": [["a", "b", "c"]]}')
    with pytest.raises(OvorError, match=r"data_full\.json is damaged or has another layout"):
        load_dataset("clinc150")
    dbpedia_files(data)
    (data / "dbpedia_csv/test.csv").write_text('3,"Of no class","x"\n')
    with pytest.raises(OvorError, match="line 1 has the class 3, of 2"):
        load_dataset("dbpedia")
    (data / "hwu64").mkdir()
    with pytest.raises(OvorError, match=r"no train/seq\.in: get train\.csv"):
        load_dataset("hwu64")


def test_a_copy_of_other_size_is_told(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clinc_file(data)
    load("clinc150", replace(MINI, test=7))
    assert "3 training and 2 test texts where clinc150 has 3 and 7" in capsys.readouterr().err
    with pytest.raises(OvorError, match="has 2 classes, but clinc150 has 150"):
        load_dataset("clinc150")
