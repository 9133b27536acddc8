"""Files with numbers that are none: refused when they are loaded, by whoever loads them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from command import ovor
from ovor import Classifier, OvorError
from ovor.classifier.file import read_model
from ovor.classifier.onnx import SEALED, OnnxClassifier, sealed
from ovor.tensor_file import load_tensors, save_tensors

NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, lessons: list[Path]) -> Path:
    """A model of a method that trains, with its backbone in the file."""
    path = tmp_path_factory.mktemp("trained") / "t.ovor"
    model = Classifier("embedded", "linear", epochs=1, device="cpu").learn(lessons[1])
    model.save(path, bundle=True)
    return path


def refused(path: Path) -> None:
    for load in (read_model, Classifier.load):
        with pytest.raises(OvorError, match="not finite"):
            load(path)
    assert "not finite" in ovor("inspect", path).stderr


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY])
@pytest.mark.parametrize("kind", ["exact", "trained"])
def test_a_model_with_any_number_that_is_none_is_refused(
    model_file: Path, trained: Path, tmp_path: Path, kind: str, value: float
) -> None:
    tensors, meta = load_tensors(model_file if kind == "exact" else trained)
    names = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
    assert len(names) > 3
    for name in names if value != value else names[:2]:
        changed = tensors[name].clone()
        changed.view(-1)[-1] = value
        save_tensors(tmp_path / "bad.ovor", {**tensors, name: changed}, meta)
        with pytest.raises(OvorError, match="not finite"):
            read_model(tmp_path / "bad.ovor")
    refused(tmp_path / "bad.ovor")


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all numbers of a JSON value that are not whole."""
    if isinstance(value, float):
        return [way]
    if not isinstance(value, dict | list):
        return []
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [place for key, part in inner for place in places(part, (*way, key))]


def test_words_with_such_numbers_are_refused(model_file: Path, tmp_path: Path) -> None:
    tensors, meta = load_tensors(model_file)
    found = places(meta)
    assert len(found) > 5
    for way in found:
        changed = json.loads(json.dumps(meta))
        inner = changed
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = NAN
        save_tensors(tmp_path / "bad.ovor", tensors, changed)
        with pytest.raises(OvorError, match="not finite"):
            read_model(tmp_path / "bad.ovor")


def test_an_export_with_such_numbers_is_refused(model_file: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "m.onnx"
    assert ovor("export", model_file, path).returncode == 0
    content = path.read_bytes()[:-SEALED]
    graph = onnx.load_from_string(content).graph
    floats = [i for i, part in enumerate(graph.initializer) if part.data_type in (1, 11)]
    assert len(floats) > 5
    for number in floats[:: len(floats) // 5]:
        changed = onnx.load_from_string(content)
        part = changed.graph.initializer[number]
        values = onnx.numpy_helper.to_array(part).copy()
        values.reshape(-1)[0] = NAN
        part.CopyFrom(onnx.numpy_helper.from_array(values, part.name))
        path.write_bytes(sealed(changed.SerializeToString()))
        with pytest.raises(OvorError, match=r"m\.onnx cannot be used.*not finite"):
            OnnxClassifier.load(path)


def test_huge_numbers_give_a_sentence_and_no_answer(
    model_file: Path, labelled: Path, tmp_path: Path
) -> None:
    tensors, meta = load_tensors(model_file)
    huge = {**tensors, "learner.weights": torch.full_like(tensors["learner.weights"], 1e308)}
    save_tensors(tmp_path / "huge.ovor", huge, meta)
    done = ovor("predict", tmp_path / "huge.ovor", labelled)
    assert done.returncode == 1
    assert "not finite" in done.stderr
    assert "mistake" not in done.stderr
