"""Networks of timm's: the same features as timm gives, and sentences where there are none."""

import builtins
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.torch import load_file, save_file

from oracles import timm
from ovor.encoders import Backbone, VisionTransformer, load_backbone
from ovor.encoders.weights import build
from ovor.errors import OvorError
from rounding import rounding
from small_networks import PIXELS, TIMM, timm_folder, timm_model


def loaded(folder: Path, kind: str) -> Backbone:
    return load_backbone(f"timm:{timm_folder(folder / kind, kind)}")


def refused(name: object) -> str:
    with pytest.raises(OvorError) as found:
        load_backbone(f"timm:{name}")
    return str(found.value)


def normalised(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize("kind", TIMM)
def test_features_are_timms_own(kind: str, tmp_path: Path) -> None:
    encoder, model = loaded(tmp_path, kind).encoder, timm_model(kind)
    size = encoder.image_size
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        last, stages = model.forward_intermediates(images)
        expected = [stage.mean(dim=(2, 3)) for stage in stages]
        if kind in ("vit", "registers"):
            _, pairs = model.forward_intermediates(images, return_prefix_tokens=True)
            tokens = [torch.stack([prefix[:, 0], x.mean((2, 3))], 1) for x, prefix in pairs]
            expected = [normalised(each).flatten(1) for each in tokens]
        elif last.shape[1] == model.num_features != stages[-1].shape[1]:
            expected.append(last.mean(dim=(2, 3)))
    if kind not in ("vit", "registers"):
        expected = [normalised(x) for x in expected]
    found = encoder.depths(images, range(len(encoder.widths)))
    assert encoder.widths == tuple(x.shape[1] for x in expected)
    assert (found - torch.cat(expected, 1)).abs().max() <= rounding(encoder, found)


@pytest.mark.parametrize("kind", ["efficientnet", "mobilenet"])
def test_the_last_depth_is_what_the_classifier_of_timm_sees(kind: str, tmp_path: Path) -> None:
    encoder, model = loaded(tmp_path, kind).encoder, timm_model(kind)
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        seen = model.forward_features(images).mean(dim=(2, 3))
    assert encoder.widths[-1] == model.num_features
    found = encoder.depths(images, [len(encoder.widths) - 1])
    assert (found - normalised(seen)).abs().max() <= rounding(encoder, found)


def test_a_plain_vit_gives_the_same_as_ours(tmp_path: Path) -> None:
    encoder = loaded(tmp_path, "vit").encoder
    tensors = load_file(tmp_path / "vit" / "model.safetensors")
    own = {name: x for name, x in tensors.items() if not name.startswith("head.")}
    ours = build(own, 2, "the file")
    assert isinstance(ours, VisionTransformer)
    for size in (32, 48):  # positions are interpolated as ours are
        images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
        found = encoder.depths(images, range(3))
        assert (found - ours.depths(images, range(3))).abs().max() <= rounding(encoder, found)


def test_it_says_what_it_wants_and_which_file_it_is(tmp_path: Path) -> None:
    backbone = loaded(tmp_path, "convnext")
    content = (tmp_path / "convnext" / "model.safetensors").read_bytes()
    assert backbone.sha256 == hashlib.sha256(content).hexdigest()
    own = backbone.preprocessing
    assert own is not None
    assert (own.size, own.crop_pct, own.guessed) == (64, 0.9, False)
    assert {"mean": own.mean, "std": own.std} == PIXELS


def test_a_size_that_does_not_fit_is_a_sentence(tmp_path: Path) -> None:
    vit = loaded(tmp_path, "vit").encoder
    assert vit.input_size(40) == 40
    with pytest.raises(OvorError, match="An image size of 44 does not fit this backbone: use 32"):
        vit.input_size(44)
    with pytest.raises(OvorError, match="An image size of 16 "):
        loaded(tmp_path, "convnext").encoder.input_size(16)


class Hub:
    """A hub whose repositories are folders, as huggingface_hub would fetch them."""

    def __init__(self, root: Path) -> None:
        self.root, self.online, self.asked = root, True, list[str]()

    def download(self, repo: str, file: str, local_files_only: bool = False, **_: Any) -> str:
        if local_files_only:
            raise LocalEntryNotFoundError("not cached")
        if not self.online:
            raise ConnectionError("no network")
        self.asked.append(repo)
        return str(self.root / file)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub(timm_folder(tmp_path / "hub", "mobilenet"))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", found.download)
    return found


def test_a_name_is_fetched_and_without_a_tag_it_is_timms_default(hub: Hub) -> None:
    full = "mobilenetv3_small_050.lamb_in1k"
    images = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    for name in (full, "mobilenetv3_small_050"):
        backbone = load_backbone(f"timm:{name}")
        assert (backbone.name, backbone.source) == (f"timm:{full}", f"hub: timm/{full}")
        assert backbone.preprocessing is not None
        assert backbone.preprocessing.mean == timm.get_pretrained_cfg(full).mean
        with torch.no_grad():
            seen = timm_model("mobilenet").forward_features(images).mean(dim=(2, 3))
        last = len(backbone.encoder.widths) - 1
        found = backbone.encoder.depths(images, [last])
        assert (found - normalised(seen)).abs().max() <= rounding(backbone.encoder, found)
    assert set(hub.asked) == {f"timm/{full}"}


def test_weights_are_never_drawn(hub: Hub) -> None:
    hub.online = False
    said = refused("mobilenetv3_small_050.lamb_in1k")
    assert "not cached and cannot be fetched" in said
    assert "timm:FOLDER" in said
    weights = hub.root / "model.safetensors"
    tensors = load_file(weights)
    save_file({k: v for k, v in tensors.items() if k != "conv_stem.weight"}, weights)
    assert "are not those of timm's mobilenetv3_small_050" in refused(hub.root)


def test_a_name_that_timm_does_not_have_is_a_sentence() -> None:
    assert "timm.list_pretrained() has them all" in refused("!")
    assert "such as timm:convnext_atto" in refused("convnext_ato.d2_in1k")
    assert "such as timm:convnext_atto.d2_in1k" in refused("convnext_atto.nobody")
    assert "Write which network" in refused("")


def test_a_network_that_cannot_be_read_inside_is_a_sentence(tmp_path: Path) -> None:
    folder = timm_folder(tmp_path / "small", "mobilenet")
    save_file(timm.create_model("convit_tiny").state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"architecture": "convit_tiny", **PIXELS}))
    assert "cannot read features inside small" in refused(folder)


def test_a_wrong_folder_is_a_sentence(tmp_path: Path) -> None:
    assert "has no config.json" in refused(tmp_path / "nowhere")
    folder = timm_folder(tmp_path / "small", "convnext")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text("{}")
    assert "does not say which network" in refused(folder)
    (folder / "config.json").write_text("not JSON")
    assert "does not say which network" in refused(folder)
    (folder / "config.json").write_text(json.dumps({**config, "architecture": "vgg0"}))
    assert "timm's vgg0" in refused(folder)
    (folder / "config.json").write_text(json.dumps(config))
    del config["pretrained_cfg"]["mean"]
    (folder / "config.json").write_text(json.dumps(config))
    assert "write mean and std" in refused(folder)
    (folder / "model.safetensors").write_bytes(b"nothing")
    assert "download them again" in refused(folder)
    (folder / "model.safetensors").unlink()
    assert "has no model.safetensors" in refused(folder)


def test_without_timm_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    assert "pip install 'ovor[timm]'" in refused("convnext_atto.d2_in1k")


def test_a_torchvision_of_another_torch_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any, **named: Any) -> Any:
        if name == "timm":
            raise RuntimeError("operator torchvision::nms does not exist")
        return real(name, *rest, **named)

    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(builtins, "__import__", broken)
    assert "install the torchvision that belongs to torch" in refused("convnext_atto.d2_in1k")
