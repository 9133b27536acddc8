"""Exact class sums: order, cut, taking back and merging change nothing, not even the last bit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ovor.learners.moments import (
    FEATURE_STEPS,
    WEIGHT_STEPS,
    Moments,
    packed,
    rounded,
    rounded_weights,
    unpacked,
)

WIDTH, CLASSES = 7, 4


def some(images: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    features = 3 * torch.randn(images, WIDTH, generator=draw)
    return features, torch.randint(CLASSES, (images,), generator=draw)


def of(features: Tensor, labels: Tensor, weights: Tensor | None = None) -> Moments:
    found = Moments.empty(WIDTH).grown(CLASSES)
    found.add(features, labels, weights)
    return found


def same(one: Moments, other: Moments) -> bool:
    return all(
        torch.equal(x, y) for x, y in zip(vars(one).values(), vars(other).values(), strict=True)
    )


def test_sums_are_those_of_the_definition() -> None:
    features, labels = some(50, 0)
    found, x = of(features, labels), rounded(features)
    for c in range(CLASSES):
        assert found.counts[c] == (labels == c).sum()
        assert torch.equal(found.sums[c], x[labels == c].sum(0))
    assert torch.equal(found.second, sum(torch.outer(row, row) for row in x))
    assert (x - features).abs().max() <= 0.5 / FEATURE_STEPS


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_order_and_cut_change_no_bit(images: int, seed: int) -> None:
    features, labels = some(images, seed)
    rng = np.random.default_rng(seed)
    order = torch.from_numpy(rng.permutation(images))
    cuts = np.sort(rng.integers(0, images + 1, 3))
    piecewise = Moments.empty(WIDTH).grown(CLASSES)
    for part in np.split(order.numpy(), cuts):
        own = of(features[part], labels[part])
        piecewise = piecewise.plus(own, torch.arange(CLASSES))
    assert same(piecewise, of(features, labels))


def test_after_a_thousand_operations_it_is_the_sum_of_what_is_left() -> None:
    features, _ = some(60, 3)
    rng = np.random.default_rng(3)
    inside: dict[int, int] = {}  # image: the class that it counts as
    found = Moments.empty(WIDTH).grown(CLASSES)
    for _ in range(1000):
        image, to = int(rng.integers(60)), int(rng.integers(CLASSES))
        row = features[image : image + 1]
        if image in inside:  # take back, or move to another class
            found.add(row, torch.tensor([inside.pop(image)]), torch.tensor([-1.0]).double())
            if rng.random() < 0.5:
                continue
        found.add(row, torch.tensor([to]))
        inside[image] = to
    kept = torch.tensor(list(inside))
    assert same(found, of(features[kept], torch.tensor(list(inside.values()))))


def test_weights_count_an_image_so_many_times() -> None:
    features, labels = some(9, 5)
    weights = rounded_weights(torch.tensor([2.0, 1, 0, 3, 1, 1, 0.5, 0.25, 1]))
    repeated = torch.cat([torch.full((int(4 * w),), i) for i, w in enumerate(weights)])
    quarter = torch.full((len(repeated),), 0.25).double()
    assert same(of(features, labels, weights), of(features[repeated], labels[repeated], quarter))


def test_a_class_can_go_without_its_images() -> None:
    features, labels = some(40, 8)
    found = of(features, labels).without(1)
    assert found.counts.tolist() == [float((labels == c).sum()) for c in (0, 2, 3)]
    assert found.gone.tolist() == [1, float((labels == 1).sum())]
    own = rounded(features[labels == 1])
    apart = own - own.mean(0)
    others = rounded(features[labels != 1])
    # The scatter of the class stays, up to the half step to which its mean's share was rounded.
    step = 0.5 / (FEATURE_STEPS**2 * WEIGHT_STEPS)
    expected = others.T @ others + apart.T @ apart
    torch.testing.assert_close(found.second, expected, rtol=0, atol=step + 1e-9)


def test_a_class_without_images_leaves_nothing() -> None:
    features, labels = some(40, 8)
    found = of(features, labels)
    own = labels == 1
    found.add(features[own], labels[own], -torch.ones(int(own.sum())).double())
    rest = found.without(1)
    others = of(features[~own], labels[~own])
    assert torch.equal(rest.second, others.second)
    assert rest.gone.tolist() == [0, 0]


@given(st.integers(0, 60), st.integers(0, 10**6))
def test_packed_and_unpacked_is_the_same(images: int, seed: int) -> None:
    found = of(*some(images, seed))
    steps = FEATURE_STEPS**2 * WEIGHT_STEPS
    content = packed(found.second, steps)
    assert torch.equal(unpacked(content, steps, found.second.shape), found.second)
    assert content.dtype == torch.uint8


def test_packed_needs_less_than_half_of_double_precision() -> None:
    draw = torch.Generator().manual_seed(0)
    found = Moments.empty(200).grown(1)
    found.add(torch.randn(3000, 200, generator=draw), torch.zeros(3000, dtype=torch.int64))
    content = packed(found.second, FEATURE_STEPS**2 * WEIGHT_STEPS)
    assert len(content) < 8 * found.second.numel() / 2


@pytest.mark.parametrize("content", [b"", b"nothing packed", b"\x78\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_was_not_packed_is_refused(content: bytes) -> None:
    given = torch.from_numpy(np.frombuffer(content, np.uint8).copy())
    with pytest.raises(ValueError, match=r"bytes|Error"):
        unpacked(given, 1, torch.Size([3]))


def test_state_and_back() -> None:
    found = of(*some(20, 1))
    assert same(Moments.of_state(found.state()), found)
    assert len(found.state()["second"]) == WIDTH * (WIDTH + 1) // 2


def test_the_second_moment_can_be_seen_from_anywhere() -> None:
    draw = torch.Generator().manual_seed(3)
    x, labels = rounded(torch.randn(20, 6, generator=draw)), torch.arange(20) % 2
    moments = Moments.empty(6).grown(2)
    moments.add(x, labels)
    centre = torch.randn(6, generator=draw).double()
    torch.testing.assert_close(moments.around(centre), (x - centre).T @ (x - centre))
