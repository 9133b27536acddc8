"""A classifier on an encoder that is no ViT of ours: learned, saved, loaded, handed on."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ovor
from ovor.classifier.model import Classifier
from ovor.classifier.onnx import OnnxClassifier
from ovor.classifier.onnx_export import export_onnx
from ovor.errors import OvorError
from small_networks import onnx_file, timm_folder
from tiny import noisy

NETWORKS: dict[str, Callable[[Path], str]] = {
    "timm:vit": lambda path: f"timm:{timm_folder(path, 'vit')}",
    "timm:convnext": lambda path: f"timm:{timm_folder(path, 'convnext')}",
    "onnx:": lambda path: f"onnx:{onnx_file(path, shape=('N', 3, 32, 32))}",
    "onnx:fixed": lambda path: f"onnx:{onnx_file(path, shape=(4, 3, 32, 32))}",
}
pytestmark = pytest.mark.filterwarnings("ignore:Nothing says which pixels")


@pytest.fixture(params=NETWORKS)
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return NETWORKS[request.param](tmp_path / "network")


@pytest.fixture
def model(name: str) -> Classifier:
    images, labels = noisy(["a", "b"], 6)
    return ovor.Classifier(name, batch_size=8).fit(images, labels)


def same(one: Classifier, other: Classifier) -> None:
    images, _ = noisy(["a", "b", "c"], 3, seed=1)
    ours, theirs = one.classify(images), other.classify(images)
    assert list(ours.labels) == list(theirs.labels)
    assert np.array_equal(ours.confidences, theirs.confidences)


def test_it_is_learned_saved_and_loaded(model: Classifier, tmp_path: Path) -> None:
    model.save(tmp_path / "m.ovor")
    again = Classifier.load(tmp_path / "m.ovor")
    same(model, again)
    assert again.transform() == model.transform()
    images, labels = noisy(["c"], 6)
    assert list(again.partial_fit(images, labels).classes_) == ["a", "b", "c"]
    same(pickle.loads(pickle.dumps(again)), again)


def test_its_images_are_seen_as_the_network_wants_them(tmp_path: Path) -> None:
    model = ovor.Classifier(NETWORKS["timm:convnext"](tmp_path / "network"))
    transform = model.transform()
    assert (transform.size, transform.crop_pct) == (64, 0.9)
    assert transform.mean == (0.5, 0.4, 0.3)
    assert ovor.Classifier(model.backbone, image_size=96).transform().size == 96


def test_a_file_that_says_nothing_of_its_pixels_warns(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "net.onnx", shape=("N", 3, 32, 32))
    images, labels = noisy(["a", "b"], 6)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ovor.Classifier(f"onnx:{path}").fit(images, labels)
    (said,) = [str(each.message) for each in found if "Nothing says" in str(each.message)]
    assert "net.onnx was trained with" in said
    assert "a file net.json beside it" in said


def test_a_network_that_moved_is_found_and_another_is_refused(
    model: Classifier, name: str, tmp_path: Path
) -> None:
    model.save(tmp_path / "m.ovor")
    (tmp_path / "network").rename(tmp_path / "moved")
    with pytest.raises(OvorError, match="needs the backbone"):
        Classifier.load(tmp_path / "m.ovor")
    kind = name.partition(":")[0]
    same(Classifier.load(tmp_path / "m.ovor", backbone=f"{kind}:{tmp_path / 'moved'}"), model)
    file = tmp_path / "moved"
    file = file / "model.safetensors" if file.is_dir() else file
    content = bytearray(file.read_bytes())
    at = content.rfind(b"linear") + 60 if kind == "onnx" else -3
    content[at] ^= 1
    file.write_bytes(content)
    with pytest.raises(OvorError, match="was learned with other weights"):
        Classifier.load(tmp_path / "m.ovor", backbone=f"{kind}:{tmp_path / 'moved'}")


def test_it_cannot_be_put_into_the_model_file(model: Classifier, tmp_path: Path) -> None:
    with pytest.raises(OvorError, match="cannot be put into a model file"):
        model.save(tmp_path / "m.ovor", bundle=True)
    assert not (tmp_path / "m.ovor").exists()


def test_one_onnx_file_of_a_network_of_timms_predicts_the_same(tmp_path: Path) -> None:
    images, labels = noisy(["a", "b"], 6)
    for kind in ("timm:vit", "timm:convnext"):
        model = ovor.Classifier(NETWORKS[kind](tmp_path / kind[5:]), batch_size=8)
        model.fit(images, labels)
        assert export_onnx(model, tmp_path / "m.onnx") <= 1e-4
        exported = OnnxClassifier.load(tmp_path / "m.onnx").classify(images)
        assert list(exported.labels) == list(model.predict(images))


def test_one_onnx_file_of_another_is_refused(tmp_path: Path) -> None:
    images, labels = noisy(["a", "b"], 6)
    model = ovor.Classifier(NETWORKS["onnx:"](tmp_path / "network")).fit(images, labels)
    with pytest.raises(OvorError, match="cannot be written as one ONNX file"):
        export_onnx(model, tmp_path / "m.onnx")


def test_methods_that_need_a_vision_transformer_say_so(name: str) -> None:
    images, labels = noisy(["a", "b"], 6)
    with pytest.raises(OvorError, match="ranpac needs a vision transformer"):
        ovor.Classifier(name, method="ranpac").fit(images, labels)
