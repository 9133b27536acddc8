"""AnaCP: prototypes that move apart, the projection to them, and the samples behind it."""

import numpy as np
import pytest
import torch

from learners.lessons import build, drawn, teach
from ovor.learners import anacp
from ovor.learners.anacp import AnaCp, apart
from ovor.learners.closed_form import ClosedForm

LESSONS, ASKED = drawn(4, 12), drawn(4, 4, seed=4)
SMALL = {"projection": 40, "classifier": 30, "samples": 50}


def means() -> torch.Tensor:
    return torch.stack([LESSONS.of([c])[0].mean(0) for c in range(4)])


def as_anacp(learner: ClosedForm) -> AnaCp:
    assert isinstance(learner, AnaCp)
    return learner


def test_prototypes_are_the_means_or_equally_far_from_each_other() -> None:
    torch.testing.assert_close(apart(means(), 0.0), means())
    distances = torch.pdist(apart(means(), 1.0))
    torch.testing.assert_close(distances, distances.mean().expand(6))
    assert torch.pdist(means()).std() > 0.01 * distances.mean()  # which the means are not


def test_prototypes_keep_their_centre_and_their_directions() -> None:
    moved = apart(means(), 0.5)
    torch.testing.assert_close(moved.mean(0), means().mean(0))
    before, after = (np.linalg.svd((x - x.mean(0)).numpy())[1][:3] for x in (means(), moved))
    np.testing.assert_allclose(after, 0.5 * before + 0.5 * before.mean())


def test_one_class_has_itself_for_a_prototype() -> None:
    torch.testing.assert_close(apart(means()[:1], 0.5), means()[:1])


@pytest.mark.parametrize("tasks", [[[0, 1], [2, 3]], [[0], [1, 2, 3]]])
def test_the_projection_is_ridge_regression_to_the_prototypes_of_all_classes(
    tasks: list[list[int]], tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anacp, "choose_ridge", lambda h, y: 0.5)
    learner = as_anacp(teach(build("anacp", tiny_backbone, **SMALL), LESSONS, tasks))
    h = np.maximum(LESSONS.features.numpy() @ learner.lifting.double().numpy(), 0)
    targets = apart(means(), 0.5).numpy()[LESSONS.labels]
    expected = np.linalg.solve(h.T @ h + 0.5 * np.eye(40), h.T @ targets)
    np.testing.assert_allclose(learner.contrast, expected, rtol=1e-7, atol=1e-9)


def test_samples_have_the_means_and_the_covariance_of_the_classes(tiny_backbone: str) -> None:
    learner = as_anacp(teach(build("anacp", tiny_backbone, **SMALL), LESSONS, [[0, 1, 2, 3]]))
    object.__setattr__(learner.options, "samples", 5000)
    features, labels = learner.sample(means(), torch.Generator().manual_seed(0))
    deviations = LESSONS.features - means()[LESSONS.labels]
    covariance = deviations.T @ deviations / len(deviations)
    own = features[labels == 1]
    error = covariance.diagonal().sqrt() / 5000**0.5
    assert ((own.mean(0) - means()[1]).abs() < 6 * error).all()
    found = (features - means()[labels]).T @ (features - means()[labels]) / len(features)
    largest = covariance.diagonal().max()
    assert ((found - covariance).abs() < 6 * largest * (2 / len(features)) ** 0.5).all()


def test_the_classifier_is_ridge_regression_on_the_samples(
    tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anacp, "choose_ridge", lambda h, y: 0.5)
    learner = as_anacp(build("anacp", tiny_backbone, **SMALL))
    seen = []
    sample = learner.sample
    monkeypatch.setattr(learner, "sample", lambda *how: seen.append(sample(*how)) or seen[-1])
    teach(learner, LESSONS, [[0, 1], [2, 3]])

    def hidden(x: torch.Tensor) -> np.ndarray:
        first, second = learner.lifting.double().numpy(), learner.relifting.double().numpy()
        u = np.maximum(x.numpy() @ first, 0) @ learner.contrast.numpy()
        return np.maximum(u / np.linalg.norm(u, axis=1, keepdims=True) @ second, 0)

    features, labels = seen[-1]
    assert sorted(set(labels.tolist())) == [0, 1, 2, 3]  # older classes too
    h, y = hidden(features), np.eye(4)[labels]
    weights = np.linalg.solve(h.T @ h + 0.5 * np.eye(30), h.T @ y)
    np.testing.assert_allclose(
        learner.logits(ASKED.features), hidden(ASKED.features) @ weights, rtol=1e-6, atol=1e-8
    )
