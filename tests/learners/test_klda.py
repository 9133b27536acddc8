"""KLDA and RanDumb against Gaussians computed one by one."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.covariance import oas

from learners.lessons import Lessons, build, drawn, teach
from ovor.learners import klda
from ovor.learners.closed_form import ClosedForm
from ovor.learners.klda import Fourier, within
from ovor.learners.moments import Moments
from ovor.learners.randumb import oracle_shrinkage

LESSONS = drawn(4, 40, apart=0.3)
ASKED = drawn(4, 5, seed=0, apart=0.3)
TASKS = [[0, 1], [2, 3]]
Array = NDArray[np.float64]


def lifted(learner: ClosedForm, lessons: Lessons) -> Array:
    """Return Fourier features by the formula, from the numbers that the learner keeps."""
    assert isinstance(learner, Fourier)
    directions, phases = learner.directions.double().numpy(), learner.phases.double().numpy()
    angles = lessons.features.numpy() @ directions * np.sqrt(2 * float(learner.gamma)) + phases
    return np.asarray(np.sqrt(2 / len(phases)) * np.cos(angles))


def around_means(z: Array, labels: Array) -> tuple[Array, Array]:
    """Return class means, and every row as seen from its own."""
    means = np.stack([z[labels == c].mean(0) for c in range(4)])
    return means, z - means[labels]


def squared_distances(z: Array, means: Array, covariance: Array) -> Array:
    inverse = np.linalg.inv(covariance)
    return np.array([[(row - mean) @ inverse @ (row - mean) for mean in means] for row in z])


def differences(logits: Array) -> Array:
    """Return outputs beside that of the first class: what all have in common decides nothing."""
    return logits - logits[:, :1]


def test_klda_is_the_log_density_of_gaussians_with_one_covariance(tiny_backbone: str) -> None:
    learner = build("klda", tiny_backbone, projection=30, ridge=0.01)
    teach(learner, LESSONS, TASKS)
    z, labels = lifted(learner, LESSONS), LESSONS.labels.numpy()
    means, apart = around_means(z, labels)
    covariance = apart.T @ apart / len(apart)
    covariance += 0.01 * np.trace(covariance) / 30 * np.eye(30)
    expected = -squared_distances(lifted(learner, ASKED), means, covariance) / 2 / 30
    found = learner.logits(ASKED.features).numpy()
    np.testing.assert_allclose(differences(found), differences(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 0.02])
def test_randumb_is_the_mahalanobis_distance_with_a_shrunk_covariance(
    ridge: float, tiny_backbone: str
) -> None:
    learner = build("randumb", tiny_backbone, projection=30, ridge=ridge)
    teach(learner, LESSONS, TASKS)
    means, apart = around_means(lifted(learner, LESSONS), LESSONS.labels.numpy())
    covariance, share = oas(apart, assume_centered=True)
    plain = apart.T @ apart / len(apart)
    assert 0 < share < 1
    assert np.isclose(oracle_shrinkage(torch.from_numpy(plain), len(apart)), share)
    if ridge:
        covariance = plain + ridge * np.eye(30)
    expected = -squared_distances(lifted(learner, ASKED), means, covariance) / 2 / 30
    found = learner.logits(ASKED.features).numpy()
    np.testing.assert_allclose(differences(found), differences(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["klda", "randumb"])
def test_the_kernel_is_as_wide_as_the_first_tasks_features_differ(
    method: str, tiny_backbone: str
) -> None:
    learner = teach(build(method, tiny_backbone, projection=30, gamma=0.3), LESSONS, TASKS)
    assert isinstance(learner, Fourier)
    first = LESSONS.of([0, 1])[0].numpy()
    assert np.isclose(float(learner.gamma), 0.3 / (first.shape[1] * first.var()))


def test_randumb_takes_features_of_a_network_as_they_are_if_asked(tiny_backbone: str) -> None:
    learner = teach(build("randumb", tiny_backbone, projection=0), LESSONS, TASKS)
    means, apart = around_means(LESSONS.features.numpy(), LESSONS.labels.numpy())
    covariance, _ = oas(apart, assume_centered=True)
    expected = -squared_distances(ASKED.features.numpy(), means, covariance) / 2 / means.shape[1]
    found = learner.logits(ASKED.features).numpy()
    np.testing.assert_allclose(differences(found), differences(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["klda", "randumb"])
def test_a_kernel_tells_apart_what_no_line_can(method: str, tiny_backbone: str) -> None:
    """A class around another, in all directions: class means are the same."""
    draw = torch.Generator().manual_seed(3)
    directions = torch.nn.functional.normalize(torch.randn(400, 64, generator=draw)).double()
    labels = torch.arange(400) % 2
    lessons = Lessons(directions * (1 + 2 * labels)[:, None], labels)
    learner = teach(build(method, tiny_backbone, projection=400), lessons, [[0, 1]])
    assert (learner.logits(lessons.features).argmax(1) == labels).double().mean() > 0.95


@pytest.mark.parametrize("method", ["klda", "randumb"])
def test_the_cut_of_tasks_does_not_matter(
    method: str, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the kernel is chosen, which the first task does."""
    monkeypatch.setattr(klda, "usual_gamma", lambda features: torch.tensor(0.01).double())
    found = [
        teach(build(method, tiny_backbone, projection=30, ridge=0.1), LESSONS, tasks)
        for tasks in (TASKS, [[0], [1], [2], [3]], [[0, 1, 2, 3]])
    ]
    for other in found[1:]:
        torch.testing.assert_close(
            other.logits(ASKED.features), found[0].logits(ASKED.features), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("width", [64, 500])
def test_a_covariance_is_the_same_after_a_file_to_the_bit(width: int) -> None:
    """A file has half of the symmetric matrix, and a product is not symmetric to the last bit."""
    moments = Moments.empty(width).grown(2)
    draw = torch.Generator().manual_seed(0)
    moments.add(torch.randn(33, width, generator=draw).double(), torch.arange(33) % 2)
    found = within(moments)
    assert torch.equal(found, found.T)
    assert torch.equal(within(Moments.of_state(moments.state())), found)
