"""Shapes: the analytic head and regularised discriminant analysis, against both computed apart."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from learners.lessons import Lessons, build
from ovor.encoders import load_backbone
from ovor.encoders.vit import VisionTransformer
from ovor.learners import build_learner
from ovor.learners.analytic import Analytic
from ovor.learners.closed_form import ClosedForm
from ovor.learners.moments import rounded
from ovor.learners.shapes import RIDGE, Shapes
from tiny import batches_of

# Of the tiny backbone: four depths of class token, mean and deviation; the last without the third.
WIDTH, DEPTH, LAST = 768, 192, 128
CLASSES, EACH = 3, 60


def lessons(seed: int = 0, each: int = EACH) -> Lessons:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.arange(CLASSES).repeat_interleave(each)
    means = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(9))
    noise = torch.randn(len(labels), WIDTH, generator=draw)
    return Lessons((0.3 * means[labels] + noise).double(), labels)


def taught(backbone: str, parts: list[tuple[int, Tensor]], **options: Any) -> Shapes:
    """Learn tasks of (new classes, which of the images)."""
    learner, given = build("shapes", backbone, **options), lessons()
    for number, (classes, chosen) in enumerate(parts):
        learner.begin_task(classes, (0, number))
        learner.learn(given.features[chosen], given.labels[chosen], (0, number))
    assert isinstance(learner, Shapes)
    return learner


ALL = [(CLASSES, torch.arange(CLASSES * EACH))]


def last(features: Tensor) -> Tensor:
    """Return what shapes are measured in: the last depth's class token and mean."""
    return features[:, -DEPTH:][:, :LAST]


def test_logits_are_those_of_analytic_less_distances_by_shape(tiny_backbone: str) -> None:
    learner = taught(tiny_backbone, ALL, trust=50.0, weight=0.2)
    plain = taught(tiny_backbone, ALL, weight=0.0)
    given, asked = lessons(), lessons(1, 4).features
    z, labels = rounded(last(given.features)).numpy(), given.labels.numpy()
    own = [z[labels == c] for c in range(CLASSES)]
    apart = [rows - rows.mean(0) for rows in own]
    freedom = CLASSES * EACH - CLASSES
    common = sum(rows.T @ rows for rows in apart) / freedom
    common = common + RIDGE * np.trace(common) / LAST * np.eye(LAST)
    share = EACH / (EACH + 50)
    expected = plain.logits(asked).numpy()
    for c, rows in enumerate(apart):
        covariance = (1 - share) * common + share * rows.T @ rows / (EACH - 1)
        off = last(asked).numpy() - own[c].mean(0)
        distances = (off @ np.linalg.inv(covariance) * off).sum(1)
        chance = LAST / (EACH + 0.5)  # by which a mean of so few is too far away
        expected[:, c] -= 0.2 / 2 * ((1 - LAST / freedom) * distances - chance)
    np.testing.assert_allclose(learner.logits(asked), expected, rtol=1e-7, atol=1e-7)


def test_a_small_class_is_not_further_away_than_a_large_one(tiny_backbone: str) -> None:
    """Classes that are all alike: the mean of a few images misses them by chance, not by shape."""
    sizes, draw = (6, 60, 240), torch.Generator().manual_seed(4)
    labels = torch.arange(CLASSES).repeat_interleave(torch.tensor(sizes))
    features = torch.randn(len(labels), WIDTH, generator=draw).double()
    asked = torch.randn(2000, WIDTH, generator=draw).double()
    found = []
    for weight in (1.0, 0.0):
        learner = build("shapes", tiny_backbone, weight=weight, trust=1e9)
        learner.begin_task(CLASSES, (0, 0))
        learner.learn(features, labels, (0, 0))
        found.append(learner.logits(asked).mean(0))
    by_shape = found[0] - found[1]
    # A mean of n misses by r / n, give or take sqrt(2 r) / n; half of that is in a logit.
    spread = (2 * LAST) ** 0.5 / min(sizes) / 2
    assert float(by_shape.max() - by_shape.min()) < 4 * spread < 0.6 * LAST / min(sizes) / 2


def test_where_the_last_depth_is_wider_shapes_say_nothing(tiny_backbone: str) -> None:
    asked = lessons(1, 4).features
    wide, plain = taught(tiny_backbone, ALL, shape=100), taught(tiny_backbone, ALL, weight=0.0)
    assert torch.equal(wide.logits(asked), plain.logits(asked))
    assert wide.seconds.numel() == 0


def test_without_weight_it_is_the_analytic_head_of_means_and_deviations(
    tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit = load_backbone(tiny_backbone).vit
    draw = torch.Generator().manual_seed(3)
    images, labels = torch.rand(12, 3, 14, 14, generator=draw), torch.arange(12) % 3
    found = []
    for method, options in (
        ("shapes", {"weight": 0.0}),
        ("analytic", {"widest": 4608, "fading": 0.7}),
    ):
        learner = build_learner(method, options, vit, nullcontext).eval()
        assert isinstance(learner, Analytic | ClosedForm)
        learner.begin_task(3, (0, 0))
        learner.end_task(batches_of([(images, labels)]), (0, 0))
        with torch.no_grad():
            found.append(learner.logits(learner.features(images)))
        # From here on analytic reads what shapes does.
        monkeypatch.setattr(VisionTransformer, "depths", VisionTransformer.spreads)
        monkeypatch.setattr(vit, "widths", vit.spread_widths)
    torch.testing.assert_close(found[0], found[1], rtol=1e-6, atol=1e-6)


def test_order_and_cut_and_return_of_images_are_not_to_be_seen_in_the_sums(
    tiny_backbone: str,
) -> None:
    """To the last bit: features are rounded to a grid on which sums are exact."""
    whole = taught(tiny_backbone, ALL)
    order = torch.from_numpy(np.random.default_rng(0).permutation(CLASSES * EACH))
    labels = lessons().labels[order]
    first = order[(labels < 2) & (torch.arange(len(order)) % 2 == 0)]
    rest = order[~torch.isin(order, first)]
    parts = taught(tiny_backbone, [(2, first), (1, rest)])
    for name in ("centres", "seconds"):
        assert torch.equal(getattr(parts, name), getattr(whole, name))
    assert torch.equal(parts.moments.second, whole.moments.second)
    asked = lessons(1, 4).features
    torch.testing.assert_close(parts.logits(asked), whole.logits(asked), rtol=1e-9, atol=1e-9)


def test_few_images_have_no_shape(tiny_backbone: str) -> None:
    """With fewer images than dimensions a covariance is not known, and only harms."""
    few = [(CLASSES, torch.arange(CLASSES * EACH).view(CLASSES, EACH)[:, :20].flatten())]
    asked = lessons(1, 4).features
    learner, plain = taught(tiny_backbone, few), taught(tiny_backbone, few, weight=0.0)
    assert torch.equal(learner.logits(asked), plain.logits(asked))


def test_shapes_tell_apart_what_means_cannot(tiny_backbone: str) -> None:
    """Classes with one mean, each long in other directions of the last depth."""
    draw = torch.Generator().manual_seed(2)
    labels = torch.arange(900) % CLASSES
    lengths = torch.ones(CLASSES, WIDTH)
    for c in range(CLASSES):
        lengths[c, -DEPTH + 40 * c : -DEPTH + 40 * c + 40] = 3.0
    noise = torch.randn(900, WIDTH, generator=draw)
    features = (noise * lengths[labels]).double()
    right = {}
    for weight in (0.0, 1.0):
        learner = build("shapes", tiny_backbone, weight=weight)
        learner.begin_task(CLASSES, (0, 0))
        learner.learn(features[:600], labels[:600], (0, 0))
        named = learner.logits(features[600:]).argmax(1)
        right[weight] = float((named == labels[600:]).double().mean())
    assert right[0.0] < 0.5
    assert right[1.0] > 0.9
