"""AnaCP against its formulas: prototypes that move apart, the projection, the samples behind it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from scipy.special import erf

from learners.lessons import Lessons, build, drawn, teach
from ovor.learners.anacp import LEAST, AnaCp, apart, sides
from ovor.learners.closed_form import ClosedForm

Array = NDArray[np.float64]


def of_length_one(lessons: Lessons) -> Lessons:
    return Lessons(F.normalize(lessons.features), lessons.labels)


LESSONS = of_length_one(drawn(4, 12))
ASKED = of_length_one(drawn(4, 4, seed=4))
SMALL = {"projection": 40, "heads": 2, "classifier": 30, "samples": 50, "ridge": 0.5}


def means() -> torch.Tensor:
    return torch.stack([LESSONS.of([c])[0].mean(0) for c in range(4)])


def covariance() -> torch.Tensor:
    deviations = LESSONS.features - means()[LESSONS.labels]
    return deviations.T @ deviations / len(deviations)


def as_anacp(learner: ClosedForm) -> AnaCp:
    assert isinstance(learner, AnaCp)
    return learner


def gelu(x: Array) -> Array:
    return np.asarray(x * (1 + erf(x / np.sqrt(2))) / 2)


def whitening() -> Array:
    return np.asarray(sqrtm(covariance().numpy() + LEAST * np.eye(64)).real)


def total_cosine(rows: Array) -> float:
    """Return the paper's J: the sum of absolute cosines of all pairs."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return float(np.abs(unit @ unit.T).sum() - len(rows))


def test_prototypes_are_means_with_larger_singular_values_where_images_vary_alike() -> None:
    """Eq. 11 to 16, one after the other; here every delta is 1, as its lemma says."""
    deviation = whitening()
    left, values, right = np.linalg.svd(np.linalg.inv(deviation) @ means().numpy().T)
    right = right[: len(values)]
    white = (left[:, : len(values)] * values @ right).T
    steps = (left[:, : len(values)] @ right).T
    assert (lemma(white, steps) == 1).all()
    expected = (deviation @ (left[:, : len(values)] * (values + 0.7)) @ right).T
    np.testing.assert_allclose(apart(means(), covariance(), 0.7), expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(apart(means(), covariance(), 0.0), means())


def lemma(w: Array, e: Array) -> Array:
    """Return delta_i = -sign(Phi_i), term by term (Lemma 4.1, with the -1 of its proof)."""
    found = []
    for i in range(len(w)):
        phi = 0.0
        for j in range(len(w)):
            if j != i:
                sign = 2 * (w[i] @ w[j] >= 0) - 1
                term = sign * (e[i] @ w[j]) * (w[i] @ w[i]) - (e[i] @ w[i]) * abs(w[i] @ w[j])
                phi += term / np.linalg.norm(w[j])
        found.append(-np.sign(phi))
    return np.array(found)


def some(classes: int, seed: int) -> tuple[Array, Array]:
    """Return means of four numbers each, and their orthogonal factor."""
    w = np.random.default_rng(seed).normal(size=(classes, 4))
    left, _, right = np.linalg.svd(w, full_matrices=False)
    return w, left @ right


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 4, 7])
def test_each_step_is_to_the_side_on_which_cosines_shrink(classes: int, seed: int) -> None:
    w, e = some(classes, seed)
    found = sides(torch.from_numpy(w), torch.from_numpy(e)).numpy()
    np.testing.assert_array_equal(found, lemma(w, e))
    assert total_cosine(w + 1e-6 * found[:, None] * e) < total_cosine(w)


def test_the_lemma_does_not_always_say_the_same_side() -> None:
    """Though it does where there are fewer classes than numbers, nearly always."""
    assert {-1.0, 1.0} == {side for seed in range(4) for side in lemma(*some(7, seed))}


def test_one_class_has_itself_for_a_prototype() -> None:
    torch.testing.assert_close(apart(means()[:1], covariance(), 0.5), means()[:1])


def test_more_classes_than_numbers_and_classes_alike_have_prototypes() -> None:
    draw = torch.Generator().manual_seed(0)
    many = torch.randn(9, 4, generator=draw).double()
    many[3] = many[5]
    moved = apart(many, torch.eye(4).double(), 1.0)
    assert moved.isfinite().all()
    torch.testing.assert_close(moved[3], moved[5])


@pytest.mark.parametrize("separation", [1.0, 0.5])
@pytest.mark.parametrize("tasks", [[[0, 1], [2, 3]], [[0], [1, 2, 3]]])
def test_each_head_is_ridge_regression_to_the_prototypes_of_all_classes(
    tasks: list[list[int]], separation: float, tiny_backbone: str
) -> None:
    built = build("anacp", tiny_backbone, **SMALL, separation=separation)
    learner = as_anacp(teach(built, LESSONS, tasks))
    targets = apart(means(), covariance(), separation).numpy()[LESSONS.labels]
    assert len(learner.lifting) == 2
    assert not torch.equal(learner.lifting[0], learner.lifting[1])
    for lifting, contrast in zip(learner.lifting, learner.contrast, strict=True):
        h = gelu(LESSONS.features.numpy() @ lifting.double().numpy())
        expected = np.linalg.solve(h.T @ h + 0.5 * np.eye(40), h.T @ targets)
        np.testing.assert_allclose(contrast, expected, rtol=1e-7, atol=1e-9)


def test_samples_have_the_means_and_the_covariance_of_the_classes(tiny_backbone: str) -> None:
    learner = as_anacp(teach(build("anacp", tiny_backbone, **SMALL), LESSONS, [[0, 1, 2, 3]]))
    object.__setattr__(learner.options, "samples", 5000)
    features, labels = learner.sample(means(), torch.Generator().manual_seed(0))
    own = features[labels == 1]
    error = covariance().diagonal().sqrt() / 5000**0.5
    assert ((own.mean(0) - means()[1]).abs() < 6 * error).all()
    found = (features - means()[labels]).T @ (features - means()[labels]) / len(features)
    largest = covariance().diagonal().max()
    assert ((found - covariance()).abs() < 6 * largest * (2 / len(features)) ** 0.5).all()


def test_the_classifier_is_ridge_regression_on_the_samples(
    tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = as_anacp(build("anacp", tiny_backbone, **SMALL))
    seen = []
    sample = learner.sample
    monkeypatch.setattr(learner, "sample", lambda *how: seen.append(sample(*how)) or seen[-1])
    teach(learner, LESSONS, [[0, 1], [2, 3]])

    def hidden(x: torch.Tensor) -> Array:
        heads = zip(learner.lifting.double().numpy(), learner.contrast.numpy(), strict=True)
        u = np.mean([gelu(x.numpy() @ first) @ second for first, second in heads], axis=0)
        return gelu(u @ learner.relifting.double().numpy())

    features, labels = seen[-1]
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3]  # older classes too
    h, y = hidden(features), np.eye(4)[labels]
    weights = np.linalg.solve(h.T @ h + 0.5 * np.eye(30), h.T @ y)
    np.testing.assert_allclose(
        learner.logits(ASKED.features), hidden(ASKED.features) @ weights, rtol=1e-6, atol=1e-8
    )


def test_the_length_of_a_feature_does_not_count(tiny_backbone: str) -> None:
    learner = teach(build("anacp", tiny_backbone, **SMALL), LESSONS, [[0, 1, 2, 3]])
    found = learner.logits(3 * ASKED.features)
    torch.testing.assert_close(found, learner.logits(ASKED.features))
