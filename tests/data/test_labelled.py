"""Labelled images as people have them: each kind gives the same classes, and faults are named."""

import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ovor.data.packed as packed
from drawings import paint
from ovor.data.images import to_image
from ovor.data.labelled import from_folder, read_images, read_labelled
from ovor.data.parts import Part
from ovor.data.task_data import read_lesson
from ovor.errors import OvorError

COLOURS = {"cat": "red", "dog": "blue"}
FILES = ("cat/1.png", "cat/deep/er/2.JPG", "dog/3.png")


def photographs(root: Path, *names: str) -> Path:
    """Write images whose colours tell their classes."""
    for name in names or FILES:
        colour = next((COLOURS[part] for part in Path(name).parts if part in COLOURS), "green")
        paint(root / name, colour)
    return root


def zipped(root: Path, archive: Path, prefix: str = "") -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                file.write(path, prefix + path.relative_to(root).as_posix())
    return archive


def names_of(source: Any, labels: Any = None, part: Part = "train") -> dict[str, list[str]]:
    """Return the file names of each class, after looking that the colours are right."""
    groups, _ = read_labelled(source, labels, part)
    found = {}
    for name, items in groups.items():
        for item in items:
            red, _, blue = np.asarray(to_image(item), float).mean((0, 1))
            assert labels or name not in COLOURS or (red > blue) == (name == "cat")
        found[name] = [Path(getattr(item, "name", item)).name for item in items]
    return found


def notes_of(source: Path, part: Part = "train") -> str:
    return " ".join(read_labelled(source, None, part)[1])


BOTH = {"cat": ["1.png", "2.JPG"], "dog": ["3.png"]}
ROWS = {
    "t.csv": "Path,Label\ncat/1.png,cat\ncat/deep/er/2.JPG,cat\ndog/3.png,dog\n",
    "semicolons.csv": "\ufefflabel;file\ncat;cat/1.png\ncat;cat/deep/er/2.JPG\n\ndog;dog/3.png\n",
    "quoted.csv": '"filename","x","class"\r\n"cat/1.png","a, b",cat\r\ncat/deep/er/2.JPG,"1\n2",'
    "cat\r\ndog/3.png,,dog\r\n",
    "windows.csv": "image,category\ncat\\1.png,cat\ncat\\deep\\er\\2.JPG,cat\ndog\\3.png,dog\n",
    "t.tsv": "image\tcategory\ncat/1.png\tcat\n./cat/deep/er/2.JPG\tcat\ndog/3.png\tdog\n",
    "t.jsonl": '{"path": "cat/1.png", "label": "cat"}\n\n{"label": "cat", "path": '
    '"cat/deep/er/2.JPG"}\n{"path": "dog/3.png", "label": "dog"}\n',
}


def test_a_folder_may_be_nested(tmp_path: Path) -> None:
    assert names_of(photographs(tmp_path)) == BOTH


@pytest.mark.parametrize("name", ROWS)
def test_a_table_gives_the_same(name: str, tmp_path: Path) -> None:
    (photographs(tmp_path) / name).write_bytes(ROWS[name].encode())
    assert names_of(tmp_path / name) == BOTH
    assert names_of(str(tmp_path / name)) == BOTH


def test_a_table_may_name_files_anywhere_and_numbers_as_labels(tmp_path: Path) -> None:
    image = photographs(tmp_path / "far") / "cat/1.png"
    table = tmp_path / "t.jsonl"
    table.write_text(f'{{"path": "{image}", "label": 7}}\n')
    assert names_of(table) == {"7": ["1.png"]}


def test_a_line_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    table = photographs(tmp_path) / "t.csv"
    table.write_text("path,label\ncat/1.png,cat\ncat/1.png,cat\n")
    assert names_of(table) == {"cat": ["1.png"]}
    assert "1 lines twice" in notes_of(table)


# What a table of paths and labels says, and what is said of it.
BROKEN: dict[str, tuple[str, str]] = {
    "no path.csv": ("label\ncat\n", r"has no column of paths: .*'path' in line 1 \(it has 'label'"),
    "no label.csv": ("path,colour\n1.png,red\n", "has no column of labels: .*'label' in line 1"),
    "no header.csv": ("cat/1.png,cat\ncat/1.png,cat\n", "no column of paths"),
    "two.csv": ("path,file,label\na,b,c\n", "columns 'path' and 'file', and either may be"),
    "empty.csv": ("", "has no rows"),
    "header.csv": ("path,label\n", "has no rows"),
    "no value.csv": ("path,label\ncat/1.png,cat\n\ncat/1.png, \n", "Line 4 of .* has no label"),
    "no path in.csv": ("path,label\n,cat\n", "Line 2 of .* has no path"),
    "short.csv": ("path,label\ncat/1.png\n", "Line 2 of .* has 1 values, and there are 2 columns"),
    "long.csv": ("path,label\ncat/1.png,a,b\n", "Line 2 of .* has 3 values"),
    "quotes.csv": ('path,label\n"cat/1.png,cat\n', "Line 2 of .* is broken"),
    "gone.csv": ("path,label\ncat/1.png,a\n9.png,a\n", "Line 3 of .* names 9.png, .*no such file"),
    "folder.csv": ("path,label\ncat,a\n", "Line 2 of .* names cat, and there is no such file"),
    "other.csv": ("path,label\ncat/1.png,a\ncat/1.png,b\n", "Line 3 of .*'b', and line 2 .*'a'"),
    "web.csv": ("path,label\nhttps://x.y/1.png,a\n", "Line 2 of .* address https://x.y/1.png"),
    "no.jsonl": ('{"path": "cat/1.png", "label": "a"}\n{"path"\n', "Line 2 of .* is not JSON"),
    "list.jsonl": ("[1]\n", "Line 1 of .* is no object"),
    "none.jsonl": ('{"path": "cat/1.png", "label": null}\n', "Line 1 of .* has no label"),
    "keys.jsonl": ('{"path": "cat/1.png"}\n', "Line 1 of .* says no labels: give every line"),
    "later.jsonl": (
        '{"path": "cat/1.png", "label": "a"}\n{"path": "dog/3.png"}\n',
        "Line 2 of .* has no label",
    ),
    "deep.jsonl": ("[" * 100_000, "Line 1 of .* is not JSON"),
    "split.csv": ("path,label,split\ncat/1.png,a,holdout\n", "'holdout', and none is called"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_table_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    text, match = BROKEN[name]
    table = photographs(tmp_path) / name
    table.write_text(text)
    with pytest.raises(OvorError, match=match):
        read_labelled(table, None, "train")


def test_a_table_that_is_not_utf_8(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes("path,label\ncafé.png,x\n".encode("latin-1"))
    with pytest.raises(OvorError, match=r"Line 2 of .*t\.csv is not UTF-8: save"):
        read_labelled(table, None, "train")


def test_a_column_may_say_what_is_for_testing(tmp_path: Path) -> None:
    table = photographs(tmp_path) / "t.csv"
    table.write_text("path,label,Split\ncat/1.png,cat,Train\ndog/3.png,dog,val\n")
    assert names_of(table) == {"cat": ["1.png"]}
    assert names_of(table, part="test") == {"dog": ["3.png"]}
    assert "rows of" in notes_of(table)
    assert "that are 'train', not 'val'" in notes_of(table)


def test_a_zip_gives_the_same_with_or_without_an_outer_folder(tmp_path: Path) -> None:
    photographs(tmp_path / "in")
    assert names_of(zipped(tmp_path / "in", tmp_path / "a.zip")) == BOTH
    outer = zipped(tmp_path / "in", tmp_path / "b.ZIP", "photos/")
    assert names_of(outer) == BOTH
    assert "Took the folders in 'photos'" in notes_of(outer)


def test_a_zip_of_a_mac_and_of_windows(tmp_path: Path) -> None:
    image = (photographs(tmp_path / "in") / "cat/1.png").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("__MACOSX/cat/._1.png", b"x")
        file.writestr(".DS_Store", b"x")
        file.writestr("cat\\1.png", image)
        file.writestr("notes/film.mp4", b"x")
    assert names_of(tmp_path / "a.zip") == {"cat": ["cat\\1.png"]}
    assert "left out: 'notes/film.mp4' (a video)." in notes_of(tmp_path / "a.zip")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_zip_of_a_table(name: str, tmp_path: Path) -> None:
    (photographs(tmp_path / "in") / name).write_text(ROWS[name])
    (tmp_path / "in" / "other.csv").write_text("year,price\n1,2\n")
    archive = zipped(tmp_path / "in", tmp_path / "a.zip", "photos/")
    assert names_of(archive) == BOTH
    assert f"Took the labels from photos/{name} in " in notes_of(archive)
    zipped_table = zipfile.ZipFile(archive, "a")
    zipped_table.writestr("2.csv", "path,label\n../x.png,a\n")
    zipped_table.close()
    with pytest.raises(OvorError, match="has the tables"):
        read_labelled(archive, None, "train")


def test_a_table_in_a_zip_names_nothing_outside(tmp_path: Path) -> None:
    paint(tmp_path / "x.png")
    for number, path in enumerate(("../x.png", str(tmp_path / "x.png"))):
        archive = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("in/t.csv", f"path,label\n{path},a\n")
        with pytest.raises(OvorError, match=r"Line 2 of in/t.csv in .*no such file"):
            read_labelled(archive, None, "train")


def test_a_zip_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zipped(photographs(tmp_path / "in"), tmp_path / "a.zip")
    monkeypatch.setattr(packed, "ENTRIES", 2)
    with pytest.raises(OvorError, match="holds 3 files"):
        read_labelled(archive, None, "train")
    monkeypatch.undo()
    monkeypatch.setattr(packed, "TOTAL_BYTES", 100)
    with pytest.raises(OvorError, match="are the most that are read"):
        read_labelled(archive, None, "train")
    monkeypatch.undo()
    monkeypatch.setattr(packed, "ENTRY_BYTES", 10)
    groups, _ = read_labelled(archive, None, "train")
    with pytest.raises(OvorError, match=r"cat/1\.png in .*a\.zip has .* bytes"):
        to_image(groups["cat"][0])


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "..\\x.png", "a/../../x.png"])
def test_a_zip_whose_names_lead_out_is_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr(zipfile.ZipInfo(name), b"x")
    with pytest.raises(OvorError, match="leads out of it"):
        read_labelled(tmp_path / "a.zip", None, "train")


def test_links_in_a_zip_are_left_out(tmp_path: Path) -> None:
    archive = zipped(photographs(tmp_path / "in"), tmp_path / "a.zip")
    link = zipfile.ZipInfo("cat/link.png")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(link, "/etc/passwd")
    assert names_of(archive) == BOTH
    assert "left out: 'cat/link.png'" in notes_of(archive)


def test_a_zip_with_a_password_or_damage(tmp_path: Path) -> None:
    archive = zipped(photographs(tmp_path / "in"), tmp_path / "a.zip")
    content = bytearray(archive.read_bytes())
    for head, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(head) + place] |= 1
    (tmp_path / "locked.zip").write_bytes(content)
    with pytest.raises(OvorError, match="has a password: unpack it"):
        read_labelled(tmp_path / "locked.zip", None, "train")
    whole = archive.read_bytes()
    place = whole.index(b"IHDR")
    (tmp_path / "bad.zip").write_bytes(whole[:place] + b"XXXX" + whole[place + 4 :])
    groups, _ = read_labelled(tmp_path / "bad.zip", None, "train")
    with pytest.raises(OvorError, match=r"cat/1\.png in .*bad\.zip cannot be read"):
        to_image(groups["cat"][0])
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OvorError, match="cannot be read as a zip"):
        read_labelled(tmp_path / "cut.zip", None, "train")


def test_a_zip_may_be_replaced_and_read_in_another_process(tmp_path: Path) -> None:
    archive = zipped(photographs(tmp_path / "in"), tmp_path / "a.zip")
    groups, _ = read_labelled(archive, None, "train")
    to_image(groups["cat"][0])
    child = os.fork()
    if not child:
        os._exit(0 if to_image(groups["dog"][0]).size == (6, 4) else 1)
    assert os.waitpid(child, 0)[1] == 0
    zipped(photographs(tmp_path / "new", "cat/9.png"), archive)
    assert names_of(archive) == {"cat": ["9.png"]}


def test_a_lesson_of_a_zip_is_told_by_its_images(tmp_path: Path) -> None:
    def mark(archive: Path) -> str:
        lesson = read_lesson(archive, None, [], rename={}, skip_known=False)
        return lesson.fingerprint()

    first = zipped(photographs(tmp_path / "in"), tmp_path / "a.zip")
    before = mark(first)
    assert mark(first) == before
    paint(tmp_path / "in/cat/1.png", "white")
    assert mark(zipped(tmp_path / "in", first)) != before


# --- train and test

PARTS = ("train/cat/1.png", "train/dog/2.png", "test/cat/3.png", "val/cat/4.png")


@pytest.mark.parametrize("packed_up", [False, True])
def test_learning_takes_train_and_testing_test(packed_up: bool, tmp_path: Path) -> None:
    root = photographs(tmp_path / "in", *PARTS)
    source = zipped(root, tmp_path / "a.zip", "outer/") if packed_up else root
    assert names_of(source) == {"cat": ["1.png"], "dog": ["2.png"]}
    assert names_of(source, part="test") == {"cat": ["3.png"]}
    assert "Took the part 'train' of" in notes_of(source)
    assert "left out 'test', 'val'." in notes_of(source) or packed_up
    assert "Took the part 'test' of" in notes_of(source, "test")


@pytest.mark.parametrize("packed_up", [False, True])
def test_test_images_are_not_learned_for_a_folder_around_the_parts(
    packed_up: bool, tmp_path: Path
) -> None:
    root = photographs(tmp_path / "in", *(f"data/{name}" for name in PARTS))
    source = zipped(root, tmp_path / "a.zip", "outer/") if packed_up else root
    assert names_of(source) == {"cat": ["1.png"], "dog": ["2.png"]}
    assert names_of(source, part="test") == {"cat": ["3.png"]}


def test_test_images_in_class_folders_are_pointed_out(tmp_path: Path) -> None:
    root = photographs(tmp_path / "in", "cat/train/1.png", "cat/test/2.png", "dog/val/3.png")
    for source in (root, zipped(root, tmp_path / "a.zip")):
        assert "images in 'test', 'val' of a class count as its own" in notes_of(source)


def test_other_names_of_the_parts(tmp_path: Path) -> None:
    root = photographs(tmp_path, "Training/cat/1.png", "Validation/cat/2.png", "notes/readme.png")
    (tmp_path / "notes/readme.png").rename(tmp_path / "notes/readme.txt")
    assert names_of(root) == {"cat": ["1.png"]}
    assert names_of(root, part="test") == {"cat": ["2.png"]}


@pytest.mark.parametrize("packed_up", [False, True])
@pytest.mark.parametrize(
    ("files", "classes", "says"),
    [
        (("train/1.png",), {"train"}, "Took 'train' as a class: no class folders are inside."),
        (("train/1.png", "bus/2.png"), {"train", "bus"}, "Took 'train' as a class: no class"),
        (("train/1.png", "test/2.png"), {"train", "test"}, "Took 'test', 'train' as classes: no"),
        (
            ("train/steam/1.png", "bus/2.png"),
            {"train", "bus"},
            "Took 'train' as a class: there are others beside, 'bus'.",
        ),
        (("train/steam/1.png", "train/2.png"), {"train"}, "Took 'train' as a class: no class"),
    ],
)
def test_a_class_may_be_called_train(
    files: tuple[str, ...], classes: set[str], says: str, packed_up: bool, tmp_path: Path
) -> None:
    root = photographs(tmp_path / "in", *sorted(files))
    source = zipped(root, tmp_path / "a.zip") if packed_up else root
    assert set(names_of(source)) == classes
    assert says in notes_of(source)


def test_a_class_of_folders_called_train_takes_its_label(tmp_path: Path) -> None:
    root = photographs(tmp_path, "train/steam/1.png", "train/diesel/2.png")
    assert set(names_of(root)) == {"steam", "diesel"}
    assert "if 'train' is a class itself, give its folder alone with the label" in notes_of(root)
    assert names_of(root / "train", "train") == {"train": ["2.png", "1.png"]}
    with pytest.raises(OvorError, match="if 'train' is a class itself, give its folder alone"):
        read_labelled(root, None, "test")
    photographs(tmp_path, "test/steam/1.png")
    assert "class itself" not in notes_of(root)  # there is no doubt


# --- one label


def test_one_label_for_a_folder_an_image_a_zip_and_pictures(tmp_path: Path) -> None:
    root = photographs(tmp_path / "in")
    three = ["1.png", "2.JPG", "3.png"]
    assert names_of(root, "animal") == {"animal": three}
    assert names_of(root / "cat/1.png", "animal") == {"animal": ["1.png"]}
    assert names_of(zipped(root, tmp_path / "a.zip"), "animal") == {"animal": three}
    groups, _ = read_labelled([np.zeros((4, 4, 3), np.uint8)] * 3, "black", "train")
    assert {name: len(items) for name, items in groups.items()} == {"black": 3}


def test_one_label_needs_images_and_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("path,label\n")
    with pytest.raises(OvorError, match="says the labels itself"):
        read_labelled(tmp_path / "t.csv", "cat", "train")
    (tmp_path / "none").mkdir()
    with pytest.raises(OvorError, match="no image in"):
        read_labelled(tmp_path / "none", "cat", "train")
    with pytest.raises(OvorError, match="no file or folder"):
        read_labelled(tmp_path / "gone", "cat", "train")


def test_the_images_of_one_class_out_of_many(tmp_path: Path) -> None:
    root = photographs(tmp_path / "in")
    (root / "t.csv").write_text(ROWS["t.csv"])
    archive = zipped(root / "cat", tmp_path / "cat.zip")
    for source in (root, root / "cat", root / "t.csv", archive):
        assert len(read_images(source, "cat")) == 2, source
    assert len(read_images(root)) == len(read_images(root / "t.csv")) == 3
    with pytest.raises(OvorError, match="no line of 'elk': its labels are 'cat', 'dog'"):
        read_images(root / "t.csv", "elk")


def test_what_lies_beside_images_is_called_what_it_is(tmp_path: Path) -> None:
    root = photographs(tmp_path)
    for name in ("cat/film.MOV", "cat/logo.svg", "dog/paper.pdf", "labels.csv"):
        (root / name).touch()
    _, notes = from_folder(root, "train")
    assert notes == [
        "Not images in a class folder, left out: 'labels.csv', 'cat/film.MOV' (a video), "
        "'cat/logo.svg' (an SVG drawing), 'dog/paper.pdf' (a PDF document).",
        f"If labels.csv says the classes, give it instead: {root / 'labels.csv'}.",
    ]
