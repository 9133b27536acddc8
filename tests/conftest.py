"""A tiny random backbone and a tiny folder of images, on which a whole run takes a second."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from PIL import Image

from ovor.config import Npos, Run, Transform, Vor
from tiny import FIVE_LAYERS, save_backbone

# The same examples every time; HYPOTHESIS_PROFILE=default looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Two threads on two cores that pytest-xdist also uses only wait; here, and in what tests start.
THREADS = int(os.environ.setdefault("OMP_NUM_THREADS", "1"))
torch.set_num_threads(THREADS)

TINY = FIVE_LAYERS


@pytest.fixture(scope="module")  # while it is open, asyncio is not to be had
def browser() -> Iterator[Any]:
    from chromium import browsing  # not every test needs Playwright

    with browsing() as found:
        yield found


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("backbone")
    return str(save_backbone(folder / "tiny.safetensors", architecture=TINY))


@pytest.fixture(scope="session")
def tiny_images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six classes, each a pattern of its own with noise: 10 training and 4 test images."""
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for number in range(6):
        pattern = rng.integers(0, 256, (14, 14, 3))
        for part, count in (("train", 10), ("test", 4)):
            folder = root / part / f"class{number}"
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(pattern + rng.normal(0, 20, pattern.shape), 0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return f"folder:{root}"


@pytest.fixture(scope="session")
def tiny_run(tiny_backbone: str, tiny_images: str) -> Run:
    """OVOR on three tasks of 3, 2 and 1 classes."""
    return Run(
        method="oneprompt",
        vor=Vor(epochs=2, tau_current=-5.0, npos=Npos(k=5, noise=20, beta=8, alpha=4)),
        data=tiny_images,
        task_sizes=(3, 2, 1),
        backbone=tiny_backbone,
        transform=Transform(scale=(0.5, 1.0), crop_pct=1.0),
        epochs=4,
        batch_size=8,
        lr=1e-2,
        device="cpu",
        threads=THREADS,
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"
