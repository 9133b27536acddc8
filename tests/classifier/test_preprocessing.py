"""A model feeds its backbone as the checkpoint says, and keeps that and its image size."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ovor import Classifier, OvorError
from ovor.classifier.file import read_model, write_model
from ovor.classifier.onnx import OnnxClassifier
from ovor.classifier.onnx_export import export_onnx
from ovor.config import Transform
from tiny import FIVE_LAYERS, TWO_LAYERS, noisy, save_backbone

OWN: dict[str, Any] = {
    "mean": [0.4, 0.5, 0.6],
    "std": [0.2, 0.3, 0.25],
    "crop_pct": 0.9,
    "interpolation": "bicubic",
}
WANTED = Transform(
    size=14, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.25), crop_pct=0.9, interpolation="bicubic"
)
CLASSES = ["ant", "bee"]


@pytest.fixture
def backbone(tmp_path: Path) -> Path:
    """A network whose own file says what it wants."""
    path = save_backbone(tmp_path / "net.safetensors")
    path.with_suffix(".json").write_text(json.dumps(OWN))
    return path


def learned(backbone: Path, **settings: Any) -> Classifier:
    return Classifier(str(backbone), device="cpu", **settings).learn(*noisy(CLASSES, 6))


@pytest.mark.parametrize("method", ["analytic", "simplecil", "linear"])
def test_images_are_fed_as_the_checkpoint_says(method: str, backbone: Path, tmp_path: Path) -> None:
    model = learned(backbone, method=method, epochs=1)
    assert model.transform() == WANTED
    model.save(tmp_path / "m.ovor")
    assert read_model(tmp_path / "m.ovor").about.run.transform == model.transform()


def test_it_matters_to_the_features(backbone: Path) -> None:
    images, _ = noisy(CLASSES, 2, seed=3)
    own = learned(backbone).decision_function(images)
    backbone.with_suffix(".json").write_text('{"mean": 0, "std": 1}')
    assert not np.allclose(own, learned(backbone).decision_function(images), atol=1e-3)


def test_a_model_keeps_it_whatever_the_files_say_later(backbone: Path, tmp_path: Path) -> None:
    images, _ = noisy(CLASSES, 2, seed=3)
    model = learned(backbone)
    model.save(tmp_path / "m.ovor")
    for content in ("{}", '{"mean": 0.1, "std": 0.1}'):
        backbone.with_suffix(".json").write_text(content)
        again = Classifier.load(tmp_path / "m.ovor", device="cpu")
        assert again.transform() == model.transform()
        assert np.array_equal(again.decision_function(images), model.decision_function(images))
        again.learn(*noisy(["cat"], 6))
        assert again.transform() == model.transform()


def test_an_older_file_is_fed_as_it_was(backbone: Path, tmp_path: Path) -> None:
    """It has one number for all channels, no size and no interpolation: its backbone's own."""
    path = tmp_path / "m.ovor"
    learned(backbone).save(path)
    found = read_model(path)
    old = replace(found.about.run, transform=Transform(mean=0.5, std=0.5))
    write_model(path, replace(found, about=replace(found.about, run=old)))
    again = Classifier.load(path, device="cpu")
    assert again.transform() == Transform(size=14, mean=0.5, std=0.5)
    again.learn(*noisy(["cat"], 6)).save(path)
    assert read_model(path).about.run.transform == Transform(size=14, mean=0.5, std=0.5)


def test_a_guess_is_told_once(backbone: Path) -> None:
    backbone.with_suffix(".json").unlink()
    with pytest.warns(UserWarning, match="Nothing says which pixels net.safetensors was trained"):
        model = learned(backbone)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(*noisy(["cat"], 6))


def test_nothing_is_told_of_what_is_known(backbone: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned(backbone)
        Classifier("embedded", device="cpu").learn(*noisy(CLASSES, 6))


# The image size


def test_the_size_can_be_chosen_and_stays(backbone: Path, tmp_path: Path) -> None:
    model = learned(backbone, image_size=21)
    assert model.transform() == replace(WANTED, size=21)
    model.save(tmp_path / "m.ovor")
    again = Classifier.load(tmp_path / "m.ovor", device="cpu")
    assert (again.transform(), again.get_params()["image_size"]) == (model.transform(), 21)
    with pytest.raises(OvorError, match="has learned from images of 21 pixels"):
        again.set_params(image_size=14)
    again.set_params(image_size=21).learn(*noisy(["cat"], 6))
    assert again.transform().size == 21


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (20, "An image size of 20 is not a multiple of .* patches of 7 pixels: use 14 or 21"),
        (3, "use 7, or 14, its own"),
        (7000, "less than or equal to 4096"),
        (-7, "greater than or equal to 0"),
    ],
)
def test_a_size_that_cannot_be_is_refused(size: int, words: str, backbone: Path) -> None:
    with pytest.raises(OvorError, match=words):
        learned(backbone, image_size=size)


def test_models_of_other_sizes_are_not_merged(backbone: Path) -> None:
    with pytest.raises(OvorError, match="different settings"):
        learned(backbone).merge(learned(backbone, image_size=21))


@pytest.mark.parametrize("first", [None, 14])
def test_an_unfinished_lesson_goes_on_at_its_size_only(
    first: int | None, backbone: Path, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoint"
    data = noisy(CLASSES, 6)
    settings = {"method": "linear", "epochs": 2, "device": "cpu"}
    Classifier(str(backbone), image_size=first, **settings).learn(*data, checkpoint=place)
    with pytest.raises(OvorError, match="it was begun with other settings"):
        Classifier(str(backbone), image_size=21, **settings).learn(*data, checkpoint=place)
    backbone.with_suffix(".json").write_text('{"mean": 0, "std": 1}')
    model = Classifier(str(backbone), **settings).learn(*data, checkpoint=place)
    assert model.transform().mean == WANTED.mean


def test_dinov2_is_taught_with_224_pixels(tmp_path: Path) -> None:
    arch = replace(TWO_LAYERS, depth=1, patch_size=14, grid=(37, 37), layer_scale=True)
    path = save_backbone(tmp_path / "net.safetensors", architecture=arch)
    path.with_suffix(".json").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Classifier(str(path), device="cpu").learn(*noisy(CLASSES, 2))
    found = model.transform()
    assert (found.size, found.crop_pct, found.interpolation) == (224, 1.0, "bicubic")
    assert (found.mean, found.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


# Elsewhere


@pytest.mark.xdist_group("onnx")
def test_an_export_is_fed_the_same(backbone: Path, tmp_path: Path) -> None:
    save_backbone(backbone, architecture=FIVE_LAYERS)
    backbone.with_suffix(".json").write_text(json.dumps(OWN))
    model = learned(backbone, image_size=21)
    export_onnx(model, tmp_path / "m.onnx")
    theirs = OnnxClassifier.load(tmp_path / "m.onnx")
    said = theirs.about["preprocessing"]
    assert (said["size"], said["interpolation"]) == (21, "bicubic")
    assert "bicubic" in said["resize"]
    images, _ = noisy(CLASSES, 3, seed=3)
    ours = model.classify(images)
    found = theirs.classify(images)
    assert found.labels.tolist() == ours.labels.tolist()
    np.testing.assert_allclose(found.confidences, ours.confidences, atol=1e-4)
