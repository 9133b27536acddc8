"""More images of classes of earlier tasks: what was learned is what all at once would have been."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from ovor.encoders import load_backbone
from ovor.learners import build_learner
from ovor.learners.aper import Aper
from ovor.learners.base import Learner
from ovor.learners.ranpac import RanPac, choose_ridge
from ovor.learners.simplecil import SimpleCil
from tiny import batches_of

EACH = 9  # images of a class
IMAGES = torch.rand(4, EACH, 3, 14, 14, generator=torch.Generator().manual_seed(0))
# By task: the number of its new classes, and (class, first image, one past the last).
AT_ONCE = [(4, [(c, 0, EACH) for c in range(4)])]
IN_PARTS = [
    (2, [(0, 0, 5), (1, 0, 4)]),
    (1, [(2, 0, 5), (0, 5, 7)]),
    (1, [(3, 0, EACH), (0, 7, EACH), (1, 4, EACH), (2, 5, EACH)]),
]


def build(method: str, backbone: str, **options: object) -> Learner:
    learner = build_learner(method, dict(options), load_backbone(backbone).vit, nullcontext)
    learner.expect_returning()
    return learner.eval()


def teach(learner: Learner, tasks: list[tuple[int, list[tuple[int, int, int]]]]) -> None:
    """One image a batch: its features are then the same bits, whatever stands beside it."""
    start = 0
    for number, (classes, parts) in enumerate(tasks):
        learner.begin_task(classes, (0, number))
        pairs = [
            (IMAGES[c, i : i + 1], torch.tensor([c - start]))
            for c, first, end in parts
            for i in range(first, end)
        ]
        learner.end_task(batches_of(pairs), (0, number))
        start += classes


@torch.no_grad()
def features_of(learner: Learner) -> Tensor:
    """Return the features of all images: class, image, D."""
    rows = [learner.features(image[None]) for image in IMAGES.flatten(0, 1)]
    return torch.cat(rows).unflatten(0, IMAGES.shape[:2])


@pytest.mark.parametrize("method", ["simplecil", "adam-adapter"])
def test_means_are_those_of_all_images(method: str, tiny_backbone: str) -> None:
    learner = build(method, tiny_backbone)
    assert isinstance(learner, SimpleCil | Aper)
    teach(learner, IN_PARTS)
    features = features_of(learner).double()
    means = torch.cat(list(learner.head.tasks)).double()
    # A float32 sum of n terms and the three operations by which a task updates a mean round n + 3 T
    # times, each by at most 2^-24 of the sum of sizes so far.
    bound = (EACH + 3 * len(IN_PARTS)) * 2.0**-24 * features.abs().mean(1)
    assert ((means - features.mean(1)).abs() <= bound).all()
    assert learner.head.counts is not None
    assert torch.cat(list(learner.head.counts)).tolist() == [EACH] * 4


def test_ranpac_sums_are_those_of_all_images(tiny_backbone: str) -> None:
    learner, whole = (
        build("ranpac", tiny_backbone, tuning="none", projection=30) for _ in range(2)
    )
    assert isinstance(learner, RanPac)
    assert isinstance(whole, RanPac)
    teach(learner, IN_PARTS)
    teach(whole, AT_ONCE)
    assert torch.equal(learner.projection, whole.projection)
    rows = torch.cat([learner.project(row) for row in features_of(learner).flatten(0, 1).split(1)])
    h = rows.double().unflatten(0, IMAGES.shape[:2])  # class, image, M
    # Products of float32 are exact in double; a sum of n terms rounds n times, here and there.
    each = 2 * (4 * EACH) * 2.0**-53
    gram, sums = h.flatten(0, 1).T @ h.flatten(0, 1), h.sum(1).T  # of numbers not below zero
    for found in (learner, whole):
        assert ((found.gram - gram).abs() <= each * gram).all()
        assert ((found.sums - sums).abs() <= each * sums).all()


def test_classes_that_do_not_return_have_no_say_in_the_ridge() -> None:
    draw = torch.Generator().manual_seed(1)
    for size in (10, 40):
        h = torch.randn(size, 30, generator=draw).relu()
        y = torch.eye(3)[torch.arange(size) % 3] + 0.1 * torch.randn(size, 3, generator=draw)
        assert choose_ridge(h, torch.cat([torch.zeros(size, 4), y], dim=1)) == choose_ridge(h, y)


def test_what_does_not_return_stays_to_the_bit(tiny_backbone: str) -> None:
    learner = build("simplecil", tiny_backbone)
    assert isinstance(learner, SimpleCil)
    teach(learner, IN_PARTS[:1])
    before = learner.head.tasks[0].clone()
    learner.begin_task(1, (0, 1))
    one = [(IMAGES[2, :1], torch.tensor([0])), (IMAGES[0, 5:6], torch.tensor([-2]))]
    learner.end_task(batches_of(one), (0, 1))
    assert torch.equal(learner.head.tasks[0][1], before[1])
    assert not torch.equal(learner.head.tasks[0][0], before[0])


def test_a_class_is_forgotten_with_its_count(tiny_backbone: str) -> None:
    learner = build("simplecil", tiny_backbone)
    assert isinstance(learner, SimpleCil)
    teach(learner, IN_PARTS[:1])
    learner.forget(0, 0)
    assert learner.head.counts is not None
    assert [len(x) for x in (learner.head.tasks[0], learner.head.counts[0])] == [1, 1]
    assert learner.head.counts[0].tolist() == [4]


def test_counts_are_kept_where_classes_may_return_alone(tiny_backbone: str) -> None:
    """Files of the usual scenario are as they were before there was another."""
    vit = load_backbone(tiny_backbone).vit
    plain = build_learner("simplecil", {}, vit, nullcontext)
    plain.begin_task(2, (0, 0))
    assert set(plain.learned_state()) == {"head.tasks.0"}
    learner = build("simplecil", tiny_backbone)
    learner.begin_task(2, (0, 0))
    assert set(learner.learned_state()) == {"head.tasks.0", "head.counts.0"}
