"""learn, evaluate, unlearn and forget take the same images in whatever they come."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from command import ovor
from drawings import draw
from ovor import Classifier

NEW = ["--backbone", "embedded", "--device", "cpu"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder that has the same drawings in a folder, a zip and a table."""
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "plain", ["owl", "sun"], 6)
    draw(tmp_path / "parts/train", ["owl", "sun"], 6)
    draw(tmp_path / "parts/test", ["owl", "sun"], 4, first=6)
    images = sorted(Path("plain").rglob("*.png"))
    with zipfile.ZipFile("packed.zip", "w") as file:
        for path in images:
            file.write(path)
    rows = "".join(f"{path},{path.parent.name}\n" for path in images)
    Path("table.csv").write_text(f"path,label\n{rows}")
    return tmp_path


def done(*argv: str) -> dict[str, Any]:
    result = ovor(*argv, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def head(model: str) -> torch.Tensor:
    found = Classifier.load(model, device="cpu")
    return found.exact("look").weights


@pytest.mark.parametrize("source", ["packed.zip", "table.csv", "parts"])
def test_the_same_images_make_the_same_model(source: str, world: Path) -> None:
    done("learn", "a.ovor", "plain", *NEW)
    assert done("learn", "b.ovor", source, *NEW)["classes"] == {"owl": 6, "sun": 6}
    assert torch.equal(head("a.ovor"), head("b.ovor"))


def test_of_parts_learning_takes_train_and_evaluating_test(world: Path) -> None:
    notes = done("learn", "m.ovor", "parts", *NEW)["notes"]
    assert notes[0].startswith("Took the part 'train' of parts,")
    found = done("evaluate", "m.ovor", "parts")
    assert found["images"] == 8
    assert found["notes"][0].startswith("Took the part 'test' of parts,")


@pytest.mark.parametrize("source", ["packed.zip", "table.csv", "parts"])
def test_what_was_learned_is_taken_back_from_any_of_them(source: str, world: Path) -> None:
    draw(world / "more", ["candle"], 6)
    model = Classifier("embedded", device="cpu").learn("plain").learn("more")
    only = Classifier("embedded", device="cpu").learn("more").learn("plain/sun", "sun")
    model.forget("owl", source)
    left, right = model.exact("look").moments, only.exact("look").moments
    assert torch.equal(left.second, right.second)
    model.learn("plain/owl", "owl").unlearn(source)
    assert model.classes_.tolist() == ["candle"]


def test_one_folder_or_image_and_its_label(world: Path) -> None:
    done("learn", "m.ovor", "plain/owl", "--label", "owl", *NEW)
    shutil.copy("plain/sun/000.png", "one.png")
    assert done("learn", "m.ovor", "one.png", "--label", "sun")["all_classes"] == 2
    assert done("evaluate", "m.ovor", "one.png", "--label", "sun")["images"] == 1
    assert done("unlearn", "m.ovor", "one.png", "--label", "sun")["taken"] == 1


def test_unknown_things_may_be_in_a_zip_or_a_table(world: Path) -> None:
    draw(world / "more", ["candle", "banana"], 6)
    done("learn", "m.ovor", "more", *NEW)
    for source in ("packed.zip", "table.csv", "plain"):
        found = done("evaluate", "m.ovor", "more", "--unknown", source)
        assert found["unknown"]["images"] == 12
    assert done("forget", "m.ovor", "candle", "--images", "more")["exact"]


def test_a_lesson_from_a_zip_may_be_loaded_by_other_processes(world: Path) -> None:
    done("learn", "a.ovor", "plain", *NEW)
    done("learn", "b.ovor", "packed.zip", *NEW, "--workers", "2")
    assert torch.equal(head("a.ovor"), head("b.ovor"))


def test_in_python_one_text_is_the_label_of_all(world: Path) -> None:
    model = Classifier("embedded", device="cpu")
    model.learn("plain/owl", labels="owl").partial_fit(world / "plain/sun", "sun")
    assert model.classes_.tolist() == ["owl", "sun"]
    assert sum(model.exact("look").moments.counts.tolist()) == 12


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_class_called_train_is_taught_alone_and_told_apart(name: str, world: Path) -> None:
    draw(world / "one", ["owl"], 6)
    (world / "one/owl").rename(world / "one" / name)
    found = done("learn", "m.ovor", "one", *NEW)
    assert found["classes"] == {name: 6}
    assert f"Took '{name}' as a class: no class folders are inside." in found["notes"]
    done("learn", "m.ovor", "plain/sun", "--label", "sun")
    asked = json.loads(ovor("predict", "m.ovor", f"one/{name}", "plain/sun", "--json").stdout)
    assert [row["likeliest"] for row in asked] == [name] * 6 + ["sun"] * 6
    assert done("evaluate", "m.ovor", "one")["accuracy"] == 100
