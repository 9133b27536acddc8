"""A model file on other machines: with its backbone inside, or with the backbone elsewhere."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import ovor
from ovor import Classifier, OvorError
from ovor.classifier.file import (
    BackboneInfo,
    Description,
    Model,
    TaskInfo,
    read_model,
    write_model,
)
from ovor.encoders import weights
from ovor.encoders.formats import Weights, read_weights
from ovor.encoders.vit import Architecture, VisionTransformer
from ovor.encoders.weights import PAPER
from ovor.learners import build_learner
from ovor.presets import teaching
from tiny import noisy, save_backbone, save_images, shrink

FIRST, SECOND = ["a", "b", "c"], ["d", "e"]


@dataclass(frozen=True)
class Place:
    """A folder with a model, the backbone that it needs, and images."""

    root: Path
    expected: list[dict[str, Any]]
    """what it predicts"""

    @property
    def model(self) -> Path:
        return self.root / "m.ovor"

    @property
    def backbone(self) -> Path:
        return self.root / "tiny.safetensors"

    @property
    def images(self) -> Path:
        return self.root / "images"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    shrink(monkeypatch)
    backbone = save_backbone(tmp_path / "tiny.safetensors")
    model = Classifier(str(backbone), epochs=2, device="cpu").learn(*noisy(FIRST, 6))
    model.save(tmp_path / "m.ovor")
    images = save_images(tmp_path / "images", [*FIRST, *SECOND], 2, seed=1)
    done = ovor("predict", tmp_path / "m.ovor", images, "--json")
    return Place(tmp_path, json.loads(done.stdout))


def predicted(*arguments: object) -> list[dict[str, Any]]:
    done = ovor("predict", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def refused(*arguments: object) -> str:
    done = ovor(*arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ovor: ")
    return done.stderr


# --- with the backbone inside


def test_a_bundle_needs_nothing_else(place: Place) -> None:
    whole = place.root / "whole.ovor"
    done = ovor("export", place.model, whole, "--bundle", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "file": str(whole),
        "classes": 3,
        "bytes": whole.stat().st_size,
    }
    parts = place.model.stat().st_size + place.backbone.stat().st_size
    assert 0.95 * parts < whole.stat().st_size < 1.05 * parts
    place.backbone.unlink()
    assert predicted(whole, place.images) == place.expected
    said = json.loads(ovor("inspect", whole, "--json").stdout)
    assert said["backbone"]["bundled"]


def test_a_bundle_learns_on_and_stays_one(place: Place) -> None:
    lesson = save_images(place.root / "second", SECOND, 6)
    whole = place.root / "whole.ovor"
    ovor("export", place.model, whole, "--bundle")
    assert ovor("learn", place.model, lesson, "--json").returncode == 0
    place.backbone.rename(place.root / "moved.safetensors")
    done = ovor("learn", whole, lesson, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["all_classes"] == 5
    apart, together = read_model(place.model), read_model(whole)
    assert together.about.backbone.bundled
    assert together.about.tasks == apart.about.tasks
    assert all(torch.equal(together.state[name], x) for name, x in apart.state.items())
    moved = predicted(place.model, place.images, "--backbone", place.root / "moved.safetensors")
    assert predicted(whole, place.images) == moved
    assert ovor("forget", whole, "a").returncode == 0
    assert read_model(whole).about.backbone.bundled


def test_a_bundle_does_not_replace_a_file(place: Place) -> None:
    before = place.model.read_bytes()
    ended = ovor("export", place.model, place.model, "--bundle")
    assert ended.returncode == 1
    assert "exists already" in ended.stderr
    assert place.model.read_bytes() == before


def test_a_bundle_keeps_heads_that_only_the_file_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As AugReg's .npz do: with another number of heads the same tensors give other features."""

    def telling(path: Path, label: str) -> Weights:
        return replace(read_weights(path, label), num_heads=4)

    monkeypatch.setattr(weights, "read_weights", telling)
    backbone = save_backbone(tmp_path / "tiny.safetensors")
    images, labels = noisy(FIRST, 2)
    model = Classifier(str(backbone), "simplecil").learn(images, labels)
    model.save(tmp_path / "m.ovor", bundle=True)
    again = Classifier.load(tmp_path / "m.ovor")
    assert again.network().vit.arch.num_heads == 4
    np.testing.assert_array_equal(again.predict_proba(images), model.predict_proba(images))


# --- with the backbone elsewhere


def test_a_backbone_that_is_gone_is_named(place: Place) -> None:
    sha256 = read_model(place.model).about.backbone.sha256
    place.backbone.unlink()
    place.backbone.with_suffix(".json").unlink()
    lesson = save_images(place.root / "second", SECOND, 2)
    for arguments in (
        ("predict", place.model, place.images),
        ("evaluate", place.model, place.images),
        ("learn", place.model, lesson),
        ("forget", place.model, "a"),
        ("export", place.model, place.root / "m.onnx"),
        ("export", place.model, place.root / "whole.ovor", "--bundle"),
        ("share", place.model, place.root / "shared"),
    ):
        error = refused(*arguments)
        assert f"{place.model} needs the backbone {place.backbone}" in error
        assert sha256[:12] in error
        assert "--backbone" in error
    assert sorted(p.name for p in place.root.glob("[!.]*")) == ["images", "m.ovor", "second"]
    assert ovor("inspect", place.model).returncode == 0  # it needs none


def test_other_weights_are_refused(place: Place) -> None:
    other = save_backbone(place.root / "other.safetensors", seed=1)
    error = refused("predict", place.model, place.images, "--backbone", other)
    assert "other weights than file: other.safetensors has" in error
    assert "tiny.safetensors" in error
    save_backbone(place.backbone, seed=1)
    assert "other weights" in refused("predict", place.model, place.images)
    with pytest.raises(OvorError, match="other weights"):
        Classifier.load(place.model)


def test_a_backbone_that_moved(place: Place) -> None:
    moved = place.backbone.rename(place.root / "moved.safetensors")
    here = ("--backbone", moved)
    assert predicted(place.model, place.images, *here) == place.expected
    whole = place.root / "whole.ovor"
    assert ovor("export", place.model, whole, "--bundle", *here).returncode == 0
    assert predicted(whole, place.images) == place.expected
    lesson = save_images(place.root / "second", SECOND, 6)
    assert ovor("learn", place.model, lesson, *here).returncode == 0
    assert len(predicted(place.model, place.images)) == 10  # it knows the new place now


# --- size


def test_two_hundred_classes_are_one_megabyte(tmp_path: Path) -> None:
    """Ten tasks of twenty classes on ViT-B/16 by the default method: 0.26 M numbers, 1 MB."""
    with torch.device("meta"):
        vit = VisionTransformer(Architecture(768, 12, 12, 3072, 16, 3, (14, 14)))
    run = teaching(PAPER, "ovor")
    learner = build_learner(run.method, run.options, vit.to_empty(device="cpu"), nullcontext)
    for number in range(10):
        learner.begin_task(20, (0, number))
    tasks = tuple(
        TaskInfo(tuple(f"class {t}-{c}" for c in range(20)), (500,) * 20, 1000, -20.0)
        for t in range(10)
    )
    network = BackboneInfo(PAPER, f"hub: timm/{PAPER}", 64 * "0")
    path = tmp_path / "m.ovor"
    write_model(
        path, Model(Description(run, network, tasks, 0.05, 0.1), learner.learned_state(), {})
    )
    assert learner.learned_parameters() == 2 * 70 * 768 + 200 * 769  # prompt and heads
    assert 0.255e6 < learner.learned_parameters() < 0.265e6
    state = read_model(path).state
    assert sum(x.numel() for x in state.values()) == learner.learned_parameters()
    assert 1.0e6 < path.stat().st_size < 1.1e6
