"""Our Pillow transforms against torchvision's and timm's, bit for bit."""

from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image

from oracles import timm, torchvision
from ovor.config import Transform
from ovor.data.transforms import draw_view, train_view
from ovor.data.transforms import normalised as our_floats
from ovor.data.transforms import test_view as central_view

tv = torchvision.transforms

SIZES = [(28, 28), (32, 32), (61, 40), (40, 61), (200, 35), (35, 200), (333, 250), (1, 9), (5, 3)]


def noise(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng((width, height))
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def tensor(image: Image.Image, transform: Transform) -> torch.Tensor:
    return our_floats(torch.from_numpy(np.asarray(image)[None].copy()), transform)[0]


def normalised(image: Image.Image, transform: Transform) -> torch.Tensor:
    steps = [tv.ToTensor(), tv.Normalize([transform.mean] * 3, [transform.std] * 3)]
    result = tv.Compose(steps)(image)
    assert isinstance(result, torch.Tensor)
    return result


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [28, 64])
def test_training_views_equal_torchvision_for_the_same_draw(
    size: tuple[int, int], side: int
) -> None:
    transform, image = Transform(size=side, mean=0.5, std=0.5), noise(*size)
    for seed in range(25):
        view = draw_view(transform, *size, np.random.default_rng(seed))
        left, upper, right, lower = view.box
        expected = tv.functional.resized_crop(
            image, upper, left, lower - upper, right - left, [side, side]
        )
        expected = tv.functional.hflip(expected) if view.flipped else expected
        ours = tensor(train_view(image, view, transform), transform)
        assert torch.equal(ours, normalised(expected, transform))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("side", "shorter"), [(28, 28), (28, 32), (29, 32), (224, 256)])
def test_test_views_equal_torchvision(size: tuple[int, int], side: int, shorter: int) -> None:
    transform, image = Transform(size=side, crop_pct=side / shorter), noise(*size)
    expected = tv.Compose([tv.Resize(shorter), tv.CenterCrop(side)])(image)
    ours = tensor(central_view(image, transform), transform)
    assert torch.equal(ours, normalised(expected, transform))


IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("side", "crop_pct", "interpolation", "numbers"),
    [
        (224, 1.0, "bicubic", IMAGENET),
        (224, 0.9, "bicubic", HALF),
        (98, 0.875, "bilinear", IMAGENET),
    ],
)
def test_test_views_equal_those_that_timm_evaluates_with(
    size: tuple[int, int],
    side: int,
    crop_pct: float,
    interpolation: Literal["bilinear", "bicubic"],
    numbers: dict[str, tuple[float, float, float]],
) -> None:
    theirs = timm.data.create_transform(
        (3, side, side), interpolation=interpolation, crop_pct=crop_pct, **numbers
    )
    ours = Transform(size=side, crop_pct=crop_pct, interpolation=interpolation, **numbers)
    image = noise(*size)
    assert torch.equal(tensor(central_view(image, ours), ours), theirs(image))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ratio", [(3 / 4, 4 / 3), (1.0, 1.0), (2.0, 2.5), (0.4, 0.6)])
def test_the_crop_of_last_resort_is_torchvisions(
    size: tuple[int, int], ratio: tuple[float, float]
) -> None:
    # Nothing ten times as large as the image fits, so that both fall back.
    transform = Transform(size=28, scale=(10.0, 10.0), ratio=ratio)
    upper, left, height, width = tv.RandomResizedCrop.get_params(
        noise(*size), list(transform.scale), list(ratio)
    )
    view = draw_view(transform, *size, np.random.default_rng(0))
    assert view.box == (left, upper, left + width, upper + height)


def test_draws_are_distributed_as_torchvisions() -> None:
    transform, image = Transform(size=28), Image.new("RGB", (300, 200))
    torch.manual_seed(0)
    pairs = [
        (
            tv.RandomResizedCrop.get_params(image, list(transform.scale), list(transform.ratio)),
            draw_view(transform, 300, 200, np.random.default_rng(seed)).box,
        )
        for seed in range(3000)
    ]
    theirs = np.array([(left, upper, w, h) for (upper, left, h, w), _ in pairs])
    ours = np.array(
        [(left, upper, right - left, low - upper) for _, (left, upper, right, low) in pairs]
    )
    error = np.hypot(ours.std(0), theirs.std(0)) / np.sqrt(len(pairs))
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * error).all()
    assert ours.std(0) == pytest.approx(theirs.std(0), rel=0.06)
