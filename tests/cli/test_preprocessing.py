"""What the command line says of sizes and pixels."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from command import ovor
from ovor.cli.run import parse_run
from ovor.learners.analytic import Analytic
from tiny import TWO_LAYERS, save_backbone, save_images

HALF = '{"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "interpolation": "bicubic"}'


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    save_backbone(tmp_path / "net.safetensors").with_suffix(".json").write_text(HALF)
    save_images(tmp_path / "first", ["ant", "bee"], 6)
    save_images(tmp_path / "second", ["cat", "dog"], 6)
    return tmp_path


def learn(*arguments: object) -> Any:
    return ovor("learn", "m.ovor", *arguments, "--backbone", "net.safetensors", "--device", "cpu")


def test_inspect_says_size_and_pixels(world: Path) -> None:
    done = learn("first", "--image-size", "21")
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        "images: 21 x 21 pixels, bicubic, mean 0.5, std 0.25\n" in ovor("inspect", "m.ovor").stdout
    )
    found = json.loads(ovor("inspect", "m.ovor", "--json").stdout)["images"]
    assert found == {
        "size": 21,
        "mean": 0.5,
        "std": 0.25,
        "crop_pct": 0.875,
        "interpolation": "bicubic",
    }


def test_a_second_lesson_has_the_size_of_the_first(world: Path) -> None:
    assert learn("first", "--image-size", "21").returncode == 0
    done = learn("second", "--image-size", "14")
    assert done.returncode == 1
    assert "The model has learned from images of 21 pixels" in done.stderr
    assert "leave the size out, or make a new model" in done.stderr
    assert learn("second", "--image-size", "21").returncode == 0


def test_a_size_that_is_no_multiple_is_refused(world: Path) -> None:
    for more in ([], ["--dry-run"]):
        done = learn("first", "--image-size", "20", *more)
        assert done.returncode == 1
        assert "patches of 7 pixels: use 14 or 21, or 14, its own." in done.stderr
        assert not Path("m.ovor").exists()


def test_a_guess_is_a_note_of_the_first_lesson(world: Path) -> None:
    Path("net.json").unlink()
    words = "Nothing says which pixels net.safetensors was trained with"
    assert words in learn("first", "--dry-run").stderr
    done = learn("first", "--json")
    assert words in done.stderr
    assert [words in note for note in json.loads(done.stdout)["notes"]] == [True]
    assert words not in learn("second").stderr


DINOV2 = replace(TWO_LAYERS, embed_dim=384, num_heads=6, mlp_dim=1536, patch_size=14, grid=(37, 37))


@pytest.mark.parametrize("depth", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_a_dry_run_of_a_dinov2_looks_at_few_images_of_224_pixels(
    depth: int, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds, whatever the network: it looks at one image, two, and so on while there is time."""
    seen: list[torch.Size] = []
    features = Analytic.features

    def counted(self: Analytic, images: torch.Tensor) -> torch.Tensor:
        seen.append(images.shape)
        return features(self, images)

    monkeypatch.setattr(Analytic, "features", counted)
    monkeypatch.setattr("ovor.classifier.fit.PATIENCE", 0.0)
    arch = replace(DINOV2, depth=depth, layer_scale=True)
    save_backbone(Path("net.safetensors"), architecture=arch).with_suffix(".json").unlink()
    done = learn("first", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["image_size"] == 224
    assert done.stderr == ""
    assert seen == [torch.Size([1, 3, 224, 224]), torch.Size([2, 3, 224, 224])]


def test_a_dry_run_says_the_size_in_words(world: Path) -> None:
    done = learn("first", "--dry-run")
    assert "on net.safetensors, of each image 14 x 14 pixels, " in done.stdout
    assert ":\n  ant: 6 images\n" in done.stdout


# ovor run


def run(*arguments: str) -> Any:
    return ovor(
        *(
            "run",
            "--data",
            "folder:first",
            "--backbone",
            "net.safetensors",
            "--method",
            "simplecil",
        ),
        *("--tasks", "2", "--device", "cpu", "--workers", "0", "--no-report", *arguments),
    )


@pytest.fixture
def split(world: Path) -> None:
    for part in ("train", "test"):
        save_images(world / "first" / part, ["ant", "bee"], 4)
    for name in ("ant", "bee"):
        for path in (world / "first" / name).iterdir():
            path.unlink()
        (world / "first" / name).rmdir()


@pytest.mark.usefixtures("split")
def test_a_run_keeps_the_paper_s_pixels_and_says_so() -> None:
    done = run("--out", "one")
    assert done.returncode == 0, done.stderr
    said = (
        "Pixels go in as in the paper, with mean 0 and std 1, but the backbone was trained with "
        "mean 0.5 and std 0.25 (says net.json beside net.safetensors): --transform.mean 0.5 "
        "--transform.std 0.25 would follow that."
    )
    assert said in done.stderr
    transform = json.loads(Path("one/run.json").read_text())["transform"]
    assert (transform["mean"], transform["std"]) == (0.0, 1.0)
    assert "Pixels" not in run("--transform.mean", "0.5", "--transform.std", "0.25").stderr


@pytest.mark.usefixtures("split")
def test_a_run_says_nothing_where_nothing_is_known() -> None:
    Path("net.json").unlink()
    done = run()
    assert done.returncode == 0, done.stderr
    assert "Pixels" not in done.stderr


def test_three_numbers_on_the_command_line() -> None:
    flags = ["--transform.mean", "0.485", "0.456", "0.406", "--transform.std", "0.2"]
    found = parse_run([*flags, "--transform.interpolation", "bicubic"]).run.transform
    assert (found.mean, found.std) == ((0.485, 0.456, 0.406), 0.2)
    assert found.interpolation == "bicubic"
    assert "NUMBER | RED GREEN BLUE" in ovor("run", "--help").stdout
