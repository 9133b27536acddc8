"""The closed-form head against its definition, and leave-one-out against leaving one out."""

import pytest
import torch
from torch import Tensor

from ovor.learners import discriminant as module
from ovor.learners.discriminant import (
    SMALL_CLASS,
    Discriminant,
    Mixture,
    Scatter,
    Spectrum,
    choose_ridge,
)
from ovor.learners.moments import Moments, rounded
from ovor.learners.novelty import Novelty

WIDTH = 12
SINGLE = {"rtol": 1e-5, "atol": 1e-5}


def clusters(counts: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return features of classes around means of their own, on the grid of the sums."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    means = 2 * torch.randn(len(counts), WIDTH, generator=draw)
    return rounded(means[labels] + torch.randn(len(labels), WIDTH, generator=draw)), labels


def moments_of(features: Tensor, labels: Tensor, classes: int) -> Moments:
    found = Moments.empty(WIDTH).grown(classes)
    found.add(features, labels)
    return found


def scatter_of(features: Tensor, labels: Tensor, classes: int) -> Scatter:
    return Scatter.of(moments_of(features, labels, classes))


def discriminant(scatter: Scatter, ridge: float) -> Discriminant:
    return Discriminant.of(scatter, Spectrum.of(scatter), ridge)


def chosen(scatter: Scatter) -> Discriminant:
    spectrum = Spectrum.of(scatter)
    return Discriminant.of(scatter, spectrum, choose_ridge(scatter, spectrum))


def test_scatter_is_that_of_the_images() -> None:
    x, labels = clusters([5, 9, 3])
    found = scatter_of(x, labels, 3)
    means = torch.stack([x[labels == c].mean(0) for c in range(3)])
    apart = x - means[labels]
    torch.testing.assert_close(found.means, means)
    torch.testing.assert_close(found.within, apart.T @ apart, rtol=1e-9, atol=1e-9)


def test_with_equal_classes_the_regression_is_ridge_regression_to_one_hot_targets() -> None:
    x, labels = clusters([20] * 4)
    ridge = 3.0
    scatter = scatter_of(x, labels, 4)
    found = discriminant(scatter, ridge)
    each = scatter.each
    eye = torch.eye(4, dtype=torch.double)
    weights = found.weights @ torch.linalg.inv(eye + each * found.gram) * each
    targets = torch.nn.functional.one_hot(labels, 4).double()
    centred, y = x - x.mean(0), targets - targets.mean(0)
    system = centred.T @ centred + ridge * torch.eye(WIDTH, dtype=torch.double)
    torch.testing.assert_close(weights, torch.linalg.solve(system, centred.T @ y))


def test_logits_of_equal_classes_rank_as_discriminant_analysis_and_regression_agree() -> None:
    x, labels = clusters([30] * 5, seed=2)
    scatter = scatter_of(x, labels, 5)
    found = Mixture.of(discriminant(scatter, 1.0))
    outputs = found.discriminant.outputs(x)
    logits = found.logits(outputs, found.discriminant.lengths, scatter.counts)
    assert (logits.argmax(1) == labels).double().mean() > 0.9


def test_small_classes_are_not_drowned_by_large_ones() -> None:
    draw = torch.Generator().manual_seed(4)
    wide = 60
    means = 0.55 * torch.randn(8, wide, generator=draw)
    counts = [4, 120] * 4
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    found = Moments.empty(wide).grown(8)
    seen = rounded(means[labels] + torch.randn(len(labels), wide, generator=draw))
    found.add(seen, labels)
    scatter = Scatter.of(found)
    mixture = Mixture.of(chosen(scatter))
    tested = torch.arange(8).repeat_interleave(200)
    new = (means[tested] + torch.randn(len(tested), wide, generator=draw)).double()
    one = mixture.discriminant
    logits = mixture.logits(one.outputs(new), one.lengths, scatter.counts)
    right = (logits.argmax(1) == tested).double()
    small, large = right[tested % 2 == 0].mean(), right[tested % 2 == 1].mean()
    assert small > 2 * plain_recall(seen, labels, new, tested)
    assert large > small > 0.3


def plain_recall(seen: Tensor, labels: Tensor, new: Tensor, tested: Tensor) -> float:
    """Return the recall of small classes by ridge regression to one-hot targets."""
    targets = torch.nn.functional.one_hot(labels).double()
    x, y = seen - seen.mean(0), targets - targets.mean(0)
    weights = torch.linalg.solve(x.T @ x + 10 * torch.eye(x.shape[1]).double(), x.T @ y)
    answers = ((new - seen.mean(0)) @ weights + targets.mean(0)).argmax(1)
    return float((answers == tested).double()[tested % 2 == 0].mean())


@pytest.mark.parametrize("counts", [[6, 6, 6], [2, 9, 30], [2, 2]])
def test_leave_one_out_is_learning_without_the_image(counts: list[int]) -> None:
    """The mean of all classes is kept as it is, so the oracle is given the same."""
    x, labels = clusters(counts, seed=1)
    scatter, classes = scatter_of(x, labels, len(counts)), len(counts)
    found = discriminant(scatter, 2.0)
    squares = found.spectrum.squares(found.apart(x, labels))
    left = found.without(x, labels, squares)
    outputs, lengths = left.outputs, left.lengths
    for i in range(len(x)):
        rest = torch.arange(len(x)) != i
        without = scatter_of(x[rest], labels[rest], classes)
        same_centre = Scatter(
            without.counts, without.means, scatter.centre, without.within, without.images
        )
        oracle = discriminant(same_centre, 2.0)
        # The axes are in single precision: 2^-24 of each of 12 terms, for each of some ten steps.
        # Both terms of the change are divided by what the others leave of the image's leverage.
        assert left.growth[i] < 100  # or the tolerance would let anything pass
        close = {name: value * max(1.0, float(left.growth[i])) for name, value in SINGLE.items()}
        torch.testing.assert_close(outputs[i], oracle.outputs(x[i : i + 1])[0], **close)
        torch.testing.assert_close(lengths[i], oracle.lengths[0], **close)
        assert torch.equal(left.counts[i], without.counts)


def test_the_ridge_is_a_function_of_the_sums_alone() -> None:
    x, labels = clusters([10, 40, 5], seed=6)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    one = chosen(scatter_of(x, labels, 3))
    other = chosen(scatter_of(x[order], labels[order], 3))
    assert one.ridge == other.ridge
    assert torch.equal(one.spectrum.vectors, other.spectrum.vectors)


@pytest.mark.parametrize("counts", [[6, 6, 6], [2, 9, 30]])
def test_what_is_read_off_the_axes_is_what_the_inverse_says(counts: list[int]) -> None:
    x, labels = clusters(counts, seed=8)
    scatter = scatter_of(x, labels, 3)
    found = discriminant(scatter, 1.5)
    inverse = torch.linalg.inv(scatter.within + 1.5 * torch.eye(WIDTH, dtype=torch.double))
    apart = found.apart(x, labels)
    expected = ((apart @ inverse) * apart).sum(1)
    shifts = apart @ found.weights
    got = found.leverages(found.spectrum.squares(apart), shifts)
    torch.testing.assert_close(got, expected, **SINGLE)
    leverage = float((inverse @ scatter.within).trace()) / (len(x) - 3)
    assert found.leverage == pytest.approx(leverage, rel=1e-5)


@pytest.mark.parametrize("counts", [[1], [7], [1, 1], [1, 1, 30], [500, 2]])
def test_any_number_of_images_gives_finite_numbers(counts: list[int]) -> None:
    x, labels = clusters(counts)
    scatter = scatter_of(x, labels, len(counts))
    mixture = Mixture.of(chosen(scatter))
    one = mixture.discriminant
    logits = mixture.logits(one.outputs(x), one.lengths, scatter.counts)
    assert logits.isfinite().all()
    assert Novelty.of(one).distances(x).isfinite().all()
    if len(counts) > 1 and max(counts) == 1:  # nothing but the means: nearest is right
        assert (logits.argmax(1) == labels).all()


def test_a_small_class_gets_back_what_chance_took(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = clusters([3, 40], seed=5)
    scatter = scatter_of(x, labels, 2)
    mixture = Mixture.of(discriminant(scatter, 1.0))
    one = mixture.discriminant
    zero = torch.zeros(1, 2, dtype=torch.double)
    with_it = mixture.logits(zero, one.lengths, scatter.counts)
    monkeypatch.setattr(module, "SMALL_CLASS", 1e12)
    without = mixture.logits(zero, one.lengths, scatter.counts)
    change = (with_it - without)[0]
    assert change[0] > 0 > change[1]
    expected = one.leverage * (1 / (3 + SMALL_CLASS) - 1 / (40 + SMALL_CLASS))
    assert float(change[0] - change[1]) == pytest.approx(expected / 4 / float(mixture.scales[0]))


def test_few_images_that_differ_in_half_of_their_features() -> None:
    """LAPACK's quick way does not converge for some of these in single precision."""
    width = 250
    for seed in range(40, 110):
        draw = torch.Generator().manual_seed(seed)
        x = 20 * torch.randn(4, width, generator=draw)
        x[:, ::2] = 3.3
        moments = Moments.empty(width).grown(3)
        moments.add(x, torch.tensor([0, 0, 1, 2]))
        values = Spectrum.of(Scatter.of(moments)).values
        assert int((values > 1e-3 * values.max()).sum()) == 3
