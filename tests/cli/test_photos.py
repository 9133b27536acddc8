"""A model on the network for photographs, from `ovor learn` to what is handed on."""

import json
from pathlib import Path
from typing import Any

import pytest

from command import ovor
from drawings import draw
from ovor import presets
from ovor.classifier.file import read_model
from ovor.encoders import efficientnet
from ovor.encoders.weights import PAPER
from small_photos import install


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    install(tmp_path / "packages", monkeypatch)
    draw(tmp_path / "first", ["banana", "candle"], 6)
    draw(tmp_path / "second", ["candle", "owl"], 6)
    return tmp_path


def done(*argv: object) -> str:
    found = ovor(*argv)
    assert found.returncode == 0, found.stderr
    return found.stdout


def refused(*argv: object) -> str:
    found = ovor(*argv)
    assert (found.returncode, found.stdout) == (1, "")
    return found.stderr


def predictions(model: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done("predict", model, "second", "--json"))
    return found


def test_it_is_the_backbone_of_a_new_model_where_it_is_installed(world: Path) -> None:
    done("learn", "m.ovor", "first")
    done("learn", "m.ovor", "second")
    about = read_model(Path("m.ovor")).about
    package = efficientnet.PACKAGES["photos"]
    assert about.backbone.name == "photos"
    assert about.backbone.source == f"package: {package.name} 0.1.0"
    assert about.backbone.sha256 == package.sha256
    transform = about.run.transform
    assert transform.crop_pct == 1
    assert transform.mean * 255 == pytest.approx(127)
    assert transform.std * 255 == pytest.approx(128)
    assert package.name in done("inspect", "m.ovor")
    assert len(predictions("m.ovor")) == 12


def test_what_is_handed_on_predicts_the_same(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done("learn", "m.ovor", "first", "--backbone", "photos")
    expected = predictions("m.ovor")
    done("export", "m.ovor", "m.onnx")
    done("export", "m.ovor", "whole.ovor", "--bundle")
    for row, exported in zip(expected, predictions("m.onnx"), strict=True):
        for theirs, ours in zip(exported["best"], row["best"], strict=True):
            assert theirs["class"] == ours["class"]
            assert theirs["confidence"] == pytest.approx(ours["confidence"], abs=1e-3)
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    assert predictions("whole.ovor") == expected
    said = refused("predict", "m.ovor", "second")
    assert "m.ovor needs the backbone photos" in said
    assert "pip install 'ovor[photos]'" in said


def test_methods_that_need_a_transformer_say_so(world: Path) -> None:
    needed = {"ovor": "a transformer", "adam-ssf": "a vision transformer"}
    for method, network in (needed | {"ranpac": "a vision transformer"}).items():
        said = refused("learn", "m.ovor", "first", "--backbone", "photos", "--method", method)
        assert f"needs {network}" in said
        assert "analytic" in said
    run = ("run", "--data", f"folder:{world / 'first'}", "--backbone", "photos", "--tasks", "2")
    said = refused(*run, "--method", "analytic", "--method.tuning", "adapter")
    assert "leave the network as it is (--method.tuning none)" in said


def test_class_means_are_learned_on_any_network(world: Path) -> None:
    done("learn", "means.ovor", "first", "--backbone", "photos", "--method", "simplecil")
    assert all(row["best"] for row in predictions("means.ovor"))


def test_the_usual_backbone_is_what_the_method_can_use(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert presets.usual_backbone(None) == presets.usual_backbone("analytic") == "photos"
    assert presets.usual_backbone("ovor") == PAPER
    monkeypatch.setattr(presets, "find_spec", lambda name: None)
    assert presets.usual_backbone(None) == PAPER
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("ovor.encoders.weights.fetch", lambda *_: Path("nothing.safetensors"))
    said = refused("learn", "m.ovor", "first")
    assert "pip install 'ovor[photos]'" in said
    assert "--backbone embedded" in said
