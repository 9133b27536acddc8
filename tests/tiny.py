"""The smallest backbones, options and images with which every method does all that it does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

from ovor import presets
from ovor.config import Npos, Run
from ovor.data.batches import Batches, Pair
from ovor.encoders.vit import Architecture, VisionTransformer

FIVE_LAYERS = Architecture(
    embed_dim=64, depth=5, num_heads=1, mlp_dim=64, patch_size=7, in_chans=3, grid=(2, 2)
)
TWO_LAYERS = replace(FIVE_LAYERS, depth=2)
OPTIONS: dict[str, dict[str, Any]] = {
    "oneprompt": {"lengths": [2, 3]},
    "l2p": {"pool": 6, "top_k": 2, "length": 2},
    "dualprompt": {"general_lengths": [2], "expert_length": 2, "expert_layers": [1]},
    "coda-p": {"per_task": 3, "layers": [0, 1]},
    "ranpac": {"projection": 50},
    "loranpac": {"projection": 50},
    # With fewer images than features, and little ridge, logits are in the millions: what another
    # engine rounds otherwise would be seen.
    "klda": {"projection": 50, "ridge": 10.0},
    "randumb": {"projection": 50, "ridge": 1.0},
    "anacp": {"projection": 50, "heads": 2, "classifier": 30, "samples": 10},
}
# Of the defaults, those that are for real features: without prompts, whose contract has its own.
NARROW = {name: OPTIONS[name] for name in ("ranpac", "loranpac", "klda", "randumb", "anacp")}


def save_backbone(path: Path, seed: int = 0, architecture: Architecture = TWO_LAYERS) -> Path:
    """Write a network of random weights, and beside it that pixels go in from 0 to 1."""
    draw = torch.Generator().manual_seed(seed)
    state = {
        name: torch.randn(tensor.shape, generator=draw) * 0.2 + name.endswith("norm.weight")
        for name, tensor in VisionTransformer(architecture).state_dict().items()
    }
    save_file(state, path)
    path.with_suffix(".json").write_text('{"mean": 0, "std": 1, "interpolation": "bilinear"}')
    return path


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give new classifiers the options above."""

    def teaching(backbone: str, method: str) -> Run:
        run = presets.teaching(backbone, method)
        vor = run.vor and replace(run.vor, npos=Npos(k=3, noise=10, beta=4, alpha=2))
        return replace(run, options=OPTIONS.get(run.method, {}), vor=vor, lr=0.01)

    monkeypatch.setattr("ovor.classifier.estimator.teaching", teaching)


def batches_of(batches: list[Pair]) -> Batches:
    """Wrap batches that are in memory."""
    lengths = [len(labels) for _, labels in batches]
    return Batches(lambda numbers: (batches[number] for number in numbers), lengths)


def noisy(names: list[str], each: int, seed: int = 0) -> tuple[NDArray[np.uint8], list[str]]:
    """Return images of 14 x 14 pixels, each class with a pattern of its own, and their labels."""
    rng = np.random.default_rng(seed)
    images = []
    for name in names:
        pattern = np.random.default_rng([*name.encode()]).integers(0, 256, (14, 14, 3))
        images += [pattern + rng.normal(0, 20, pattern.shape) for _ in range(each)]
    labels = [name for name in names for _ in range(each)]
    return np.stack(images).clip(0, 255).astype(np.uint8), labels


def save_images(root: Path, names: list[str], each: int, seed: int = 0) -> Path:
    """Write such images as files, a folder a class."""
    for number, (image, name) in enumerate(zip(*noisy(names, each, seed), strict=True)):
        (root / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / name / f"{number:03}.png")
    return root
