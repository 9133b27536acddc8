"""Images and labels as programs have them: bytes, open files, {class: images}, data frames."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from drawings import draw, paint
from ovor import Classifier, OvorError
from ovor.data.images import called, spread, to_image
from ovor.data.labelled import read_labelled


class OtherFrame:
    """What Polars' frames share with pandas': names, and columns by name that can be iterated."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.held = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Iterator[Any]:
        return iter(self.held[name])


FRAMES = {"pandas": pd.DataFrame, "arrow": pa.table, "another": OtherFrame}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw(tmp_path_factory.mktemp("images"), ["owl", "sun"], 4)


def forms(path: Path) -> dict[str, Any]:
    """Return one image in every form that programs have it in."""
    content = path.read_bytes()
    return {
        "path": path,
        "text": str(path),
        "bytes": content,
        "bytearray": bytearray(content),
        "view": memoryview(content),
        "file": path.open("rb"),
        "buffer": io.BytesIO(content),
        "Pillow": Image.open(path),
        "array": np.asarray(Image.open(path)),
    }


def test_an_image_is_the_same_in_every_form(images: Path) -> None:
    path = next(images.glob("owl/*"))
    expected = np.asarray(Image.open(path).convert("RGB"))
    for name, form in forms(path).items():
        np.testing.assert_array_equal(np.asarray(to_image(form)), expected, name)
    for name, form in forms(path).items():
        assert len(spread(form)) == 1, name
        assert len(spread([form, path])) == 2, name


def test_a_file_is_read_once_and_keeps_its_name(tmp_path: Path) -> None:
    path = paint(tmp_path / "a.png")
    with path.open("rb") as file:
        items = spread([file])
        assert [to_image(items[0]).size, to_image(items[0]).size] == [(6, 4), (6, 4)]
    assert called(items[0]) == str(path)
    assert called(path.read_bytes()) == "an image in memory"
    path.write_bytes(b"nothing")
    with path.open("rb") as file, pytest.raises(OvorError, match=r"The image \S*a.png cannot be"):
        to_image(file)
    with pytest.raises(OvorError, match="The image in memory cannot be read"):
        to_image(b"nothing")
    with path.open() as text, pytest.raises(OvorError, match='open\\(path, "rb"\\)'):
        spread(text)


def grouped(source: Any, labels: Any = None) -> dict[str, int]:
    groups, _ = read_labelled(source, labels, "train")
    return {name: len(items) for name, items in groups.items()}


def test_images_by_class(images: Path) -> None:
    owls = sorted(images.glob("owl/*"))
    assert grouped({"sun": images / "sun", "owl": owls[:3]}) == {"owl": 3, "sun": 4}
    assert grouped({7: [owls[0].read_bytes()], "a": Image.open(owls[0])}) == {"7": 1, "a": 1}
    with pytest.raises(OvorError, match="There is no image of 'elk'"):
        read_labelled({"owl": owls, "elk": []}, None, "train")
    with pytest.raises(OvorError, match="give the images alone"):
        spread({"owl": owls})


def columns(images: Path, **more: list[Any]) -> dict[str, list[Any]]:
    paths = sorted(images.glob("*/*"))
    return {"image": [*map(str, paths)], "Label": [path.parent.name for path in paths], **more}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_data_frame(kind: str, images: Path) -> None:
    frame = FRAMES[kind](columns(images, size=[28] * 8))
    assert grouped(frame) == {"owl": 4, "sun": 4}
    assert grouped(frame, ["x"] * 8) == {"x": 8}
    assert len(spread(frame)) == 8
    content = [path.read_bytes() for path in sorted(images.glob("*/*"))]
    held = FRAMES[kind]({"image": content, "label": list("aabbccdd")})
    assert grouped(held) == {"a": 2, "b": 2, "c": 2, "d": 2}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_data_frame_may_say_what_is_for_testing(kind: str, images: Path) -> None:
    frame = FRAMES[kind](columns(images, split=["train", "train", "train", "Test"] * 2))
    assert grouped(frame) == {"owl": 3, "sun": 3}
    groups, notes = read_labelled(frame, None, "test")
    assert [len(items) for items in groups.values()] == [1, 1]
    assert notes == ["Took the rows of which the column 'split' says 'test'."]


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ({"size": [1], "label": ["a"]}, "no column of images: call one of its columns 'path'"),
        ({"path": ["a.png"], "size": [1]}, "no column of labels: call one of its columns 'label'"),
        ({"path": ["a"], "file": ["a"], "label": ["a"]}, "either may be the images"),
        ({"path": ["a"], "label": [None]}, "A label is missing"),
        ({"path": ["a"], "label": ["x"], "split": ["val"]}, "none is 'train'"),
    ],
)
def test_what_is_wrong_with_a_data_frame(held: dict[str, list[Any]], says: str) -> None:
    with pytest.raises(OvorError, match=re.escape(says)):
        read_labelled(pd.DataFrame(held), None, "train")


def test_hugging_face_images_in_a_data_frame(images: Path) -> None:
    paths = sorted(images.glob("*/*"))
    cells = [{"bytes": path.read_bytes(), "path": None} for path in paths[:4]]
    cells += [{"bytes": None, "path": str(path)} for path in paths[4:]]
    found = spread(pd.DataFrame({"image": cells}))
    assert [to_image(item).size for item in found] == [(28, 28)] * 8


def test_all_of_them_teach_the_same(images: Path) -> None:
    expected = Classifier("embedded", device="cpu").learn(images).predict_proba(images)
    paths = sorted(images.glob("*/*"))
    labels = [path.parent.name for path in paths]
    sources = {
        "bytes": ([path.read_bytes() for path in paths], labels),
        "files": ([path.open("rb") for path in paths], labels),
        "by class": ({name: images / name for name in ("owl", "sun")}, None),
        "frame": (pd.DataFrame(columns(images)), None),
        "series": (pd.Series(map(str, paths)), pd.Series(labels)),
    }
    for name, (source, said) in sources.items():
        model = Classifier("embedded", device="cpu").learn(source, said)
        np.testing.assert_allclose(model.predict_proba(images), expected, atol=1e-9, err_msg=name)
    frame = pd.DataFrame(columns(images))
    assert model.predict(frame).tolist() == model.predict(images).tolist()
    assert model.predict(paths[0].read_bytes()).tolist() == model.predict(paths[0]).tolist()


def test_weights_go_with_any_of_them(images: Path) -> None:
    paths = sorted(images.glob("*/*"))
    twice = [*paths, *paths[:1]]
    by_hand = Classifier("embedded", device="cpu").learn(twice, [p.parent.name for p in twice])
    opened = [(path.open("rb"), path.parent.name) for path in paths]
    model = Classifier("embedded", device="cpu").learn(opened, weights=[2.0] + [1.0] * 7)
    counts = model.exact("look").moments.counts.tolist()
    assert counts == by_hand.exact("look").moments.counts.tolist() == [5, 4]
