"""How strange an image is, against its definition, and leave-one-out against leaving one out."""

import pytest
import torch
from torch import Tensor

from ovor.learners import novelty as module
from ovor.learners.discriminant import Discriminant, Mixture, Scatter, Spectrum, choose_ridge
from ovor.learners.moments import Moments, rounded
from ovor.learners.novelty import DOUBT, Novelty

WIDTH = 12


def clusters(counts: list[int], seed: int, wide: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Return features of classes around means of their own, on the grid of the sums."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(counts)])
    means = 2 * torch.randn(len(counts), wide, generator=draw)
    return rounded(means[labels] + torch.randn(len(labels), wide, generator=draw)), labels


def scatter_of(features: Tensor, labels: Tensor, classes: int) -> Scatter:
    found = Moments.empty(features.shape[1]).grown(classes)
    found.add(features, labels)
    return Scatter.of(found)


def discriminant(scatter: Scatter, ridge: float) -> Discriminant:
    return Discriminant.of(scatter, Spectrum.of(scatter), ridge)


def chosen(scatter: Scatter) -> Discriminant:
    spectrum = Spectrum.of(scatter)
    return Discriminant.of(scatter, spectrum, choose_ridge(scatter, spectrum))


def test_novelty_is_the_relative_mahalanobis_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = clusters([8, 15, 4], seed=3)
    scatter = scatter_of(x, labels, 3)
    strength = 5.0
    far = discriminant(scatter, strength)
    monkeypatch.setattr(module, "LEADING", 0.0)
    monkeypatch.setattr(module, "OTHERS", 0.0)
    found = Novelty.of(far, doubt=0.0)
    new = 3 * torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(9)).double()
    eye = strength * torch.eye(WIDTH, dtype=torch.double)
    between = scatter.each * scatter.deviations.T @ scatter.deviations
    near = torch.linalg.inv(scatter.within + eye)
    wide = torch.linalg.inv(scatter.within + between + eye)
    chance = far.uncertainty / scatter.counts
    apart = new[:, None] - scatter.means
    to_classes = torch.einsum("ncp,pq,ncq->nc", apart, near, apart) - chance
    around = new - scatter.centre
    to_all = torch.einsum("np,pq,nq->n", around, wide, around)
    expected = (to_classes.amin(1) - to_all - found.level) / found.scale
    # The weights are rounded to half precision, as files hold them: each by 2^-12 of the largest of
    # its column at most, so each of the three outputs by as much of the sum of |features| times it.
    error = 2**-12 * around.abs().sum(1) * far.weights.abs().amax()
    slope = 2 + 2 * (around @ far.weights).abs().amax(1) * found.kernel.abs().sum(0).amax()
    assert ((found.distances(new) - expected).abs() <= slope * error / found.scale + 1e-9).all()


def test_what_no_class_claims_is_stranger() -> None:
    """The energy of the head's logits counts beside the distance, both as far from expected."""
    x, labels = clusters([8, 15, 4], seed=3)
    one = discriminant(scatter_of(x, labels, 3), 5.0)
    mixture = Mixture.of(one)
    new = 3 * torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(9)).double()
    far, found = Novelty.of(one, doubt=0.0), Novelty.of(one)
    logits = mixture.logits(one.outputs(new), one.lengths, one.scatter.counts)
    together = (1 + DOUBT**2) ** 0.5
    expected = found.doubt * (found.claimed - logits.logsumexp(1))
    got = found.distances(new) - far.distances(new) / together
    # Weights of half precision, see above; the logits are the outputs times a matrix.
    outputs = 2**-12 * (new - one.scatter.centre).abs().sum(1) * one.weights.abs().amax()
    error = found.doubt * 2 * outputs * mixture.mixing.abs().sum(0).amax()
    assert ((got - expected).abs() <= error + 1e-9).all()


@pytest.mark.parametrize("counts", [[40] * 6, [10, 30, 60, 20]])
def test_energies_are_in_units_of_what_the_sums_let_expect(counts: list[int]) -> None:
    """New images of the classes have about the mean and the spread that were expected."""
    x, labels = clusters([2 * n for n in counts], seed=4, wide=30)
    learned = torch.cat([torch.arange(n) < n // 2 for n in (2 * n for n in counts)])
    one = chosen(scatter_of(x[learned], labels[learned], len(counts)))
    found, mixture = Novelty.of(one), Mixture.of(one)
    new = x[~learned]
    logits = mixture.logits(one.outputs(new), one.lengths, one.scatter.counts)
    units = (found.claimed - logits.logsumexp(1)) * found.doubt * (1 + DOUBT**-2) ** 0.5
    assert abs(float(units.mean())) < 0.5
    assert 0.5 < float(units.std()) < 2


def test_with_one_class_nothing_is_claimed_by_others() -> None:
    x, labels = clusters([9], seed=5)
    one = chosen(scatter_of(x, labels, 1))
    far, found = Novelty.of(one, doubt=0.0), Novelty.of(one)
    torch.testing.assert_close(found.distances(x) * (1 + DOUBT**2) ** 0.5, far.distances(x))


@pytest.mark.parametrize("counts", [[6, 6, 6], [3, 9, 30]])
def test_energies_without_an_image_are_those_of_the_head_without_it(counts: list[int]) -> None:
    x, labels = clusters(counts, seed=1)
    one = discriminant(scatter_of(x, labels, len(counts)), 2.0)
    squares = one.spectrum.squares(one.apart(x, labels))
    found, far = Novelty.of(one), Novelty.of(one, doubt=0.0)
    energies = Mixture.of(one).without(x, labels, squares).logsumexp(1)
    got = found.without(one, x, labels, squares)
    rest = far.without(one, x, labels, squares) / (1 + DOUBT**2) ** 0.5
    torch.testing.assert_close(got - rest, found.doubt * (found.claimed - energies))


@pytest.mark.parametrize("each", [8, 25])
def test_leave_one_out_distances_are_near_those_of_learning_without_the_image(each: int) -> None:
    """Not equal: directions that lean towards an image are made good by a factor. On average the
    error is far below what distances differ by, and without the factor it would not be.
    """
    draw = torch.Generator().manual_seed(7)
    wide, classes = 90, 4
    labels = torch.arange(classes).repeat_interleave(each)
    scales = torch.linspace(2, 0.3, wide)
    means = torch.randn(classes, wide, generator=draw) * scales
    noise = torch.randn(len(labels), wide, generator=draw) * scales
    x = rounded(means[labels] + noise)

    def fitted(rows: Tensor, ridge: float | None) -> Discriminant:
        found = Moments.empty(wide).grown(classes)
        found.add(x[rows], labels[rows])
        scatter = Scatter.of(found)
        return chosen(scatter) if ridge is None else discriminant(scatter, ridge)

    everything = torch.arange(len(x))
    one = fitted(everything, None)
    found = Novelty.of(one, doubt=0.0)
    squares = one.spectrum.squares(one.apart(x, labels))
    judged = found.without(one, x, labels, squares) * found.scale + found.level
    seen = found.distances(x) * found.scale + found.level
    others = [fitted(everything[everything != i], one.ridge) for i in range(len(x))]
    far = [Novelty.of(other, doubt=0.0) for other in others]
    truth = torch.cat([n.distances(x[i : i + 1]) * n.scale + n.level for i, n in enumerate(far)])
    assert (judged - truth).mean().abs() < 0.6 * truth.std()
    assert (judged - truth).mean().abs() < 0.3 * (seen - truth).mean().abs()
