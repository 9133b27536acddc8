"""Texts as people have them: tables, folders, zips, lists; and what is no text."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ovor.data.texts import (
    READ,
    find_texts,
    kind_held,
    quoted,
    read_texts,
    spread_texts,
    to_text,
)
from ovor.errors import OvorError

WANTED = {"a": ["one, two", "three"], "b": ['say "four"\nfive']}


def table(path: Path, head: str = "text,label", end: str = "\n", mark: bytes = b"") -> Path:
    rows = [head, '"one, two",a', '"say ""four""\nfive",b', "three,a"]
    path.write_bytes(mark + end.join(rows).encode() + end.encode())
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_csv_with_quotes_and_newlines_inside(tmp_path: Path, end: str, mark: bytes) -> None:
    assert read_texts(table(tmp_path / "t.csv", end=end, mark=mark), None, "train")[0] == WANTED


@pytest.mark.parametrize(
    "head", ["text,label", "Sentence,Intent", "body,topic", "utterance,category", "MESSAGE,class"]
)
def test_columns_are_found_by_their_names(tmp_path: Path, head: str) -> None:
    assert read_texts(table(tmp_path / "t.csv", head), None, "train")[0] == WANTED


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "was,wozu")
    with pytest.raises(OvorError, match="no column of texts"):
        read_texts(path, None, "train")
    assert read_texts(path, None, "train", ("was", "Wozu"))[0] == WANTED
    assert kind_held(path) is None
    assert kind_held(path, ("was", "wozu")) == "texts"


def test_a_column_of_paths_is_of_images_unless_something_says_texts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("file,message,label\nx.eml,hello,a\n")
    assert kind_held(path) == "images"
    assert kind_held(path, ("message", None)) == "texts"
    assert kind_held(path, wanted="texts") == "texts"
    assert kind_held(path, ("file", None)) == "images"
    assert kind_held(path, ("mesage", None)) is None
    path.write_text("file,label\nx.png,a\n")
    assert kind_held(path, wanted="texts") == "images"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0", "is an image, not a text"),
        ("a", b"\xff\xd8\xff\xe0", "is an image, not a text"),
        ("a.pdf", b"%PDF-1.7\n\0\xff", "is a PDF document, not a text"),
        ("a.txt", "schön".encode("latin-1"), "Line 1 of .* is not UTF-8"),
    ],
)
def test_what_is_no_text_is_called_what_it_is(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OvorError, match=says):
        to_text(tmp_path / name)


def test_a_title_comes_before_its_text(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("subject\tbody\tlabel\nHello\tI am here\ta\n\tno subject\ta\nonly one\t\tb\n")
    assert read_texts(path, None, "train")[0] == {
        "a": ["Hello\nI am here", "no subject"],
        "b": ["only one"],
    }
    path.write_text("title\tlabel\nHello\ta\n")
    assert read_texts(path, None, "train")[0] == {"a": ["Hello"]}


def test_jsonl_and_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"text": "one", "label": 3, "split": "train"},
        {"text": "two \ud83d", "label": 3, "split": "train"},
        {"text": "three", "label": "x", "split": "test"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    train, notes = read_texts(path, None, "train")
    assert (list(train), train["3"][0]) == (["3"], "one")
    assert to_text(train["3"][1]) == "two \ufffd"  # half a character is none
    assert "Took the rows" in notes[0]
    assert read_texts(path, None, "test")[0] == {"x": ["three"]}


def test_the_same_text_counts_as_often_as_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\nhi,a\nhi,a\nhi,b\n")
    groups, notes = read_texts(path, None, "train")
    assert groups == {"a": ["hi", "hi"], "b": ["hi"]}
    assert "more than one label" in notes[0]


def test_folders_of_txt_and_zips_of_them(tmp_path: Path) -> None:
    for name, own in WANTED.items():
        (tmp_path / "all" / name).mkdir(parents=True)
        for number, text in enumerate(own):
            (tmp_path / "all" / name / f"{number}.txt").write_text(text)
    (tmp_path / "all/a/notes.doc").write_bytes(b"x")
    groups, notes = read_texts(tmp_path / "all", None, "train")
    assert {name: list(map(to_text, own)) for name, own in groups.items()} == WANTED
    assert "notes.doc" in notes[0]
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((tmp_path / "all").rglob("*.txt")):
            file.write(path, path.relative_to(tmp_path))
    packed, _ = read_texts(archive, None, "train")
    assert {name: list(map(to_text, own)) for name, own in packed.items()} == WANTED
    assert len(read_texts(tmp_path / "all/a", "a", "train")[0]["a"]) == 2
    assert {kind_held(tmp_path / "all"), kind_held(archive)} == {"texts"}
    with pytest.raises(OvorError, match="no class folders"):
        read_texts(tmp_path / "all/a", None, "train")


def test_a_zip_of_a_table(tmp_path: Path) -> None:
    archive = tmp_path / "t.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(table(tmp_path / "t.csv"), "inner/t.csv")
    groups, notes = read_texts(archive, None, "train")
    assert groups == WANTED
    assert "Took the texts from" in notes[0]
    assert kind_held(archive) == "texts"


def test_what_is_wrong_with_the_one_table_of_a_zip_is_said(tmp_path: Path) -> None:
    archive = tmp_path / "t.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("t.csv", "text,body,label\na,b,c\n")
    with pytest.raises(OvorError, match="either may be the texts: name the one that is"):
        read_texts(archive, None, "train")
    assert read_texts(archive, None, "train", ("body", None))[0] == {"c": ["b"]}


def test_python_lists_pairs_and_frames() -> None:
    pandas = pytest.importorskip("pandas")
    texts, labels = ["one", "two", "three"], ["a", "b", "a"]
    wanted = {"a": ["one", "three"], "b": ["two"]}
    frame = pandas.DataFrame({"text": texts, "label": labels})
    given: list[tuple[Any, Any]] = [
        (texts, labels),
        (np.array(texts), labels),
        (list(zip(texts, labels, strict=True)), None),
        ({"a": ["one", "three"], "b": "two"}, None),
        (frame, None),
        (frame["text"], frame["label"]),
    ]
    for source, names in given:
        assert read_texts(source, names, "train")[0] == wanted
    assert read_texts("not a file at all", "a", "train")[0] == {"a": ["not a file at all"]}
    assert spread_texts(io.StringIO("open")) == ["open"]
    assert to_text(spread_texts(io.BytesIO(b"open"))[0]) == "open"


def test_a_path_is_a_file_and_a_str_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfwritten\r\n")
    assert [to_text(item).strip() for item in spread_texts([path, str(path)])] == [
        "written",
        str(path),
    ]
    with pytest.raises(OvorError, match="There is no file or folder"):
        spread_texts(tmp_path / "b.txt")
    with pytest.raises(OvorError, match="cannot be a float"):
        to_text(0.5)


def test_texts_of_a_table_need_no_labels_to_be_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\none\ntwo\n")
    assert find_texts(path) == ["one", "two"]
    assert find_texts(table(tmp_path / "u.csv"), "b") == WANTED["b"]
    with pytest.raises(OvorError, match="no line of 'c'"):
        find_texts(tmp_path / "u.csv", "c")


@pytest.mark.parametrize("text", ["", " \t\r\n", "\0\0\0", "\x01\x7f", "\ufeff"])
def test_what_has_nothing_to_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    for item in (text, tmp_path / "a.txt"):
        with pytest.raises(OvorError, match="is empty, or has nothing"):
            to_text(item)


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("first\nsch\u00f6n\n".encode("latin-1"))
    with pytest.raises(OvorError, match=r"Line 2 of .*a\.txt is not UTF-8"):
        to_text(tmp_path / "a.txt")
    (tmp_path / "t.csv").write_bytes("text,label\nsch\u00f6n,a\n".encode("latin-1"))
    with pytest.raises(OvorError, match=r"Line 2 of .*t\.csv is not UTF-8"):
        read_texts(tmp_path / "t.csv", None, "train")


def test_bytes_in_memory_are_called_a_text() -> None:
    (item,) = spread_texts(b"sch\xf6n")
    with pytest.raises(OvorError, match="Line 1 of a text in memory is not UTF-8"):
        to_text(item)
    (item,) = spread_texts(b"")
    with pytest.raises(OvorError, match="A text is empty"):
        to_text(item)


def test_of_a_huge_file_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\u00e4".encode() * READ)  # the cut goes through a character
    text = to_text(path)
    assert set(text) == {"\u00e4"}
    assert READ // 2 - 1 <= len(text) <= READ // 2
    cells = tmp_path / "t.csv"
    cells.write_text(f"text,label\n{'word ' * 200_000},a\n")
    assert len(read_texts(cells, None, "train")[0]["a"][0]) == 999_999


def test_a_kind_is_told_by_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("path,label\na.png,a\n")
    (tmp_path / "both.csv").write_text("image,text,label\na.png,x,a\n")
    (tmp_path / "c.txt").write_text("x")
    assert kind_held(tmp_path / "t.csv") == "images"
    assert kind_held(tmp_path / "both.csv") == "images"
    assert kind_held(tmp_path / "c.txt") == "texts"
    assert kind_held(["a", "b"]) is None
    assert kind_held("x" * 5000) is None
    (tmp_path / "empty").mkdir()
    assert kind_held(tmp_path / "empty") is None


def test_long_texts_are_quoted_short() -> None:
    assert quoted("a\n  b") == "a b"
    shown = quoted("word " * 100_000)
    assert len(shown) <= 60
    assert shown.endswith("…")
    assert quoted(Path("x.txt")) == "x.txt"
