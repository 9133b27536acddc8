import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ovor.config import Transform
from ovor.data.transforms import View, draw_view, normalised, train_view
from ovor.data.transforms import test_view as central_view


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 2**32))
def test_a_drawn_box_lies_in_the_image(width: int, height: int, seed: int) -> None:
    left, upper, right, lower = draw_view(
        Transform(size=28), width, height, np.random.default_rng(seed)
    ).box
    assert 0 <= left < right <= width
    assert 0 <= upper < lower <= height


def test_area_aspect_and_flip_follow_the_settings() -> None:
    transform = Transform(size=28, scale=(0.2, 0.6), ratio=(0.5, 2.0), flip=0.25)
    views = [draw_view(transform, 1000, 1000, np.random.default_rng(s)) for s in range(2000)]
    boxes = np.array([view.box for view in views])
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    area, log_aspect = width * height / 1e6, np.log(width / height)
    assert 0.199 < area.min() < 0.21
    assert 0.55 < area.max() < 0.601
    assert abs(log_aspect.mean()) < 0.05
    assert log_aspect.max() == pytest.approx(math.log(2), abs=0.02)
    assert np.mean([view.flipped for view in views]) == pytest.approx(0.25, abs=0.03)


def test_the_whole_image_at_its_own_size_is_unchanged() -> None:
    pixels = np.arange(28 * 28 * 3, dtype=np.uint32).reshape(28, 28, 3).astype(np.uint8)
    image = Image.fromarray(pixels)
    whole = (0, 0, 28, 28)
    for interpolation in ("bilinear", "bicubic"):
        own = Transform(size=28, crop_pct=1.0, interpolation=interpolation)
        assert np.array_equal(train_view(image, View(whole, False), own), pixels)
        assert np.array_equal(train_view(image, View(whole, True), own), pixels[:, ::-1])
        assert np.array_equal(central_view(image, own), pixels)


@given(st.floats(-1, 1), st.floats(0.01, 10))
def test_pixels_become_normalised_channels_first_floats(mean: float, std: float) -> None:
    pixels = np.arange(256 * 3, dtype=np.uint16).astype(np.uint8).reshape(4, 16, 4, 3)
    expected = (pixels.astype(np.float32) / np.float32(255) - np.float32(mean)) / np.float32(std)
    ours = normalised(torch.from_numpy(pixels), Transform(size=4, mean=mean, std=std))
    assert ours.dtype == torch.float32
    assert ours.is_contiguous()
    assert np.array_equal(ours.numpy(), expected.transpose(0, 3, 1, 2))


def test_every_channel_has_its_own_mean_and_std() -> None:
    pixels = torch.arange(2 * 5 * 4 * 3, dtype=torch.uint8).reshape(2, 5, 4, 3)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    all_three = normalised(pixels, Transform(size=4, mean=mean, std=std))
    for channel in range(3):
        one = Transform(size=4, mean=mean[channel], std=std[channel])
        assert torch.equal(all_three[:, channel], normalised(pixels, one)[:, channel])


@given(st.floats(-1, 1), st.floats(0.01, 10))
def test_three_equal_numbers_mean_the_same_as_one(mean: float, std: float) -> None:
    pixels = torch.arange(256 * 3).to(torch.uint8).reshape(4, 16, 4, 3)
    one = normalised(pixels, Transform(size=4, mean=mean, std=std))
    three = Transform(size=4, mean=(mean, mean, mean), std=(std, std, std))
    assert torch.equal(normalised(pixels, three), one)


def test_a_small_view_by_bicubic_is_another_than_by_bilinear() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8))
    found = [
        np.asarray(central_view(image, Transform(size=14, interpolation=interpolation)))
        for interpolation in ("bilinear", "bicubic")
    ]
    assert not np.array_equal(*found)
