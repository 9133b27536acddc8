"""What a checkpoint wants of images: from the files beside it, its name, its shape, or a guess."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from safetensors.torch import save_file

from oracles import timm
from ovor.encoders import Architecture, VisionTransformer, load_backbone
from ovor.encoders.preprocessing import (
    Preprocessing,
    doubt,
    find_preprocessing,
    of_config,
)
from ovor.errors import OvorError

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5,) * 3, (0.5,) * 3)
PLAIN = Architecture(128, 2, 2, 96, patch_size=16, in_chans=3, grid=(14, 14))
DINOV2 = replace(PLAIN, patch_size=14, grid=(37, 37), layer_scale=True)
# As timm writes it into a repository.
CONFIG: dict[str, Any] = {
    "architecture": "vit_small_patch16_224",
    "pretrained_cfg": {
        "tag": "own",
        "input_size": [3, 224, 224],
        "fixed_input_size": True,
        "interpolation": "bilinear",
        "crop_pct": 0.95,
        "mean": [0.1, 0.2, 0.3],
        "std": [0.4, 0.5, 0.6],
    },
}


def find(folder: Path, name: str = "net.safetensors", arch: Architecture = PLAIN) -> Preprocessing:
    return find_preprocessing(folder / name, name, arch)


def write(place: Path, content: object) -> None:
    place.write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["config.json", "net.json"])
def test_a_config_beside_the_file_says_it(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, CONFIG)
    expected = Preprocessing(
        224, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 0.95, "bilinear", f"{name} beside net.safetensors"
    )
    assert find(tmp_path) == expected


def test_mean_and_std_are_enough_by_hand(tmp_path: Path) -> None:
    write(tmp_path / "net.json", {"mean": 0.5, "std": [0.2, 0.2, 0.2]})
    found = find(tmp_path)
    assert (found.size, found.mean, found.std) == (224, (0.5,) * 3, (0.2,) * 3)
    assert not found.guessed


def test_a_file_of_their_own_name_comes_first(tmp_path: Path) -> None:
    write(tmp_path / "config.json", CONFIG)
    write(tmp_path / "net.json", {"mean": 0.5, "std": 0.25})
    assert find(tmp_path).std == (0.25,) * 3


@pytest.mark.parametrize(
    "content",
    [
        {"pretrained_cfg": {**CONFIG["pretrained_cfg"], "input_size": [3, 384, 384]}},
        {"model_type": "bert"},
        [1, 2],
        {"mean": "none", "std": 1},
    ],
    ids=["for other images", "of another kind", "a list", "no numbers"],
)
def test_a_config_of_something_else_is_passed_over(content: object, tmp_path: Path) -> None:
    write(tmp_path / "config.json", content)
    assert find(tmp_path).guessed


def test_a_config_that_is_no_json_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("<html>")
    assert find(tmp_path).guessed


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{mean: 1}", "net.json is not JSON"),
        ('{"mean": [0.5, 0.5], "std": 1}', "three numbers"),
        ('{"mean": 0.5, "std": 0}', "out of bounds"),
        ('{"mean": 0.5, "std": 0.5, "input_size": []}', "input_size"),
    ],
)
def test_what_is_wrong_in_a_file_of_their_own_name_is_said(
    content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "net.json").write_text(content)
    with pytest.raises(OvorError, match=words):
        find(tmp_path)


def test_dinov2_is_known_by_its_shape_and_looks_at_224_pixels(tmp_path: Path) -> None:
    for arch in (DINOV2, replace(DINOV2, registers=4, embed_class=False)):
        found = find(tmp_path, arch=arch)
        assert (found.size, (found.mean, found.std)) == (224, IMAGENET)
        assert (found.crop_pct, found.interpolation, found.guessed) == (1.0, "bicubic", False)
        assert "DINOv2" in found.said_by


def test_dinov2_looks_at_224_pixels_though_its_config_says_518(tmp_path: Path) -> None:
    said = timm.get_pretrained_cfg("vit_small_patch14_reg4_dinov2.lvd142m").to_dict()
    assert said["input_size"] == (3, 518, 518)
    write(tmp_path / "config.json", {"pretrained_cfg": said})
    found = find(tmp_path, arch=DINOV2)
    assert (found.size, (found.mean, found.std)) == (224, IMAGENET)
    assert found.said_by == "config.json beside net.safetensors"


@pytest.mark.parametrize(
    ("name", "pixels", "size"),
    [
        ("dinov2_vits14_pretrain.pth", IMAGENET, 224),
        ("dino_vitbase16_pretrain.pth", IMAGENET, 224),
        ("mae_pretrain_vit_base.pth", IMAGENET, 224),
        ("deit_small_patch16_224-cd65a155.pth", IMAGENET, 224),
        ("B_16-i21k-300ep-lr_0.001.npz", HALF, 224),
        ("anything.npz", HALF, 224),
        ("vit_base_patch16_224.augreg_in21k.safetensors", HALF, 224),
    ],
)
def test_families_are_known_by_the_names_of_their_files(
    name: str, pixels: tuple[Any, Any], size: int, tmp_path: Path
) -> None:
    found = find(tmp_path, name)
    assert ((found.mean, found.std), found.size, found.guessed) == (pixels, size, False)


def test_a_file_without_a_name_has_that_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "vit_base_patch16_224.dino"
    assert find(folder, "model.safetensors").said_by == "DINO, known by its name"
    assert find(tmp_path / "dinosaurs", "model.safetensors").guessed


PUBLISHED = [
    f"{name}.{tag}"
    for module in (timm.models.vision_transformer, timm.models.deit)
    for name, known in module.default_cfgs.items()
    for tag in known.cfgs
    if "patch" in name and not {"clip", "distilled"} & set(name.split("_")) and tag != "untrained"
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_families_are_as_timm_has_them(name: str, tmp_path: Path) -> None:
    """For every published ViT whose name tells; few do not."""
    said = timm.get_pretrained_cfg(name).to_dict()
    side = said["input_size"][-1]
    patch = 14 if "patch14" in name else 8
    found = find(tmp_path, name, replace(PLAIN, patch_size=patch, grid=(side // patch,) * 2))
    if found.guessed:
        known = ("augreg", "dino", "mae", "deit", "in21k", "siglip")
        assert not any(word in name for word in known)
        return
    expected = of_config(said, found.said_by)
    assert (found.mean, found.std) == (expected.mean, expected.std)
    assert found.interpolation == expected.interpolation


def test_what_timm_says_for_the_paper_s_and_for_dinov2(tmp_path: Path) -> None:
    for name, arch in {
        "vit_base_patch16_224.augreg_in21k_ft_in1k": PLAIN,
        "vit_base_patch16_224.dino": PLAIN,
        "vit_small_patch14_dinov2.lvd142m": DINOV2,
        "vit_base_patch16_384.augreg_in21k_ft_in1k": replace(PLAIN, grid=(24, 24)),
    }.items():
        found = find(tmp_path, name, arch)
        assert found == of_config(timm.get_pretrained_cfg(name).to_dict(), found.said_by)


def test_a_guess_names_the_choice_and_what_to_do(tmp_path: Path) -> None:
    found = find(tmp_path)
    assert found.guessed
    assert (found.mean, found.std) == IMAGENET
    said = doubt(found, str(tmp_path / "net.safetensors"))
    assert "Nothing says which pixels net.safetensors was trained with" in said
    assert "mean 0.485 0.456 0.406, std 0.229 0.224 0.225" in said
    assert "a file net.json beside it" in said
    assert str(tmp_path) not in said
    example = said[said.index("{") : said.index("}") + 1]
    (tmp_path / "net.json").write_text(example)
    now = find(tmp_path)
    assert ((now.mean, now.std), now.guessed) == (HALF, False)


# With a whole backbone


def test_the_embedded_one_is_fed_as_it_was_made() -> None:
    own = load_backbone("embedded").preprocessing
    assert own is not None
    assert (own.size, own.mean, own.std) == (28, (0,) * 3, (1,) * 3)
    assert (own.crop_pct, own.interpolation, own.guessed) == (1.0, "bilinear", False)


def test_the_hub_s_config_comes_with_the_weights(
    vit: VisionTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is a folder here; what is fetched from it lies in the cache as it would."""
    hub, size = tmp_path / "hub", vit.arch.image_size
    hub.mkdir()
    save_file(vit.state_dict(), hub / "model.safetensors")
    said = {**CONFIG["pretrained_cfg"], "input_size": [3, size, size]}
    write(hub / "config.json", {"pretrained_cfg": said})
    find_cached = huggingface_hub.hf_hub_download

    def download(
        repo: str, file: str, cache_dir: Path, local_files_only: bool = False
    ) -> str | Path:
        if local_files_only:
            return find_cached(repo, file, cache_dir=cache_dir, local_files_only=True)
        folder = cache_dir / f"models--{repo.replace('/', '--')}"
        snapshot = folder / "snapshots" / ("0" * 40)
        snapshot.mkdir(parents=True, exist_ok=True)
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text("0" * 40)
        (snapshot / file).write_bytes((hub / file).read_bytes())
        return snapshot / file

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    for _ in range(2):  # fetched, then from the cache
        own = load_backbone("vit_tiny_patch4_12.own", cache_dir=tmp_path / "cache").preprocessing
        assert own is not None
        assert (own.size, own.mean, own.crop_pct) == (size, (0.1, 0.2, 0.3), 0.95)
        assert own.said_by == "config.json beside timm/vit_tiny_patch4_12.own"
