"""FeCAM against its formulas, class by class."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from learners.lessons import Lessons, build, drawn, teach
from ovor.errors import OvorError

LESSONS, ASKED = drawn(3, 20, apart=0.5), drawn(3, 4, seed=5, apart=0.5)
Array = NDArray[np.float64]


def shrunk(covariance: Array, variance: float, correlation: float) -> Array:
    """Return S + gamma_1 V_1 I + gamma_2 V_2 (1 - I), entry by entry, as a correlation."""
    width = len(covariance)
    inside = [covariance[i, i] for i in range(width)]
    outside = [covariance[i, j] for i in range(width) for j in range(width) if i != j]
    found = covariance.copy()
    for i in range(width):
        for j in range(width):
            found[i, j] += variance * np.mean(inside) if i == j else correlation * np.mean(outside)
    deviations = np.sqrt(np.diag(found))
    return np.asarray(found / deviations[:, None] / deviations)


def transformed(features: torch.Tensor, power: float) -> Array:
    x = features.numpy()
    x = np.sign(x) * np.abs(x) ** power
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


@pytest.mark.parametrize(
    "options",
    [{}, {"tukey": 0.5}, {"variance": 2.0, "correlation": 1.0}, {"covariance": "shared"}],
)
def test_distances_are_those_of_the_formulas(options: dict[str, Any], tiny_backbone: str) -> None:
    learner = teach(build("fecam", tiny_backbone, **options), LESSONS, [[0, 1], [2]])
    power = options.get("tukey", 1.0)
    weights = options.get("variance", 1.0), options.get("correlation", 0.0)
    x, asked, labels = *(transformed(part.features, power) for part in (LESSONS, ASKED)), 0
    labels = LESSONS.labels.numpy()
    own = [x[labels == c] for c in range(3)]
    covariances = [np.cov(rows.T) for rows in own]
    if options.get("covariance") == "shared":  # the mean, as the classes are of one size
        covariances = [np.mean(covariances, axis=0)] * 3
    inverses = [np.linalg.inv(shrunk(found, *weights)) for found in covariances]
    expected = [
        [
            -(row - some.mean(0)) @ inverse @ (row - some.mean(0))
            for some, inverse in zip(own, inverses, strict=True)
        ]
        for row in asked
    ]
    np.testing.assert_allclose(learner.logits(ASKED.features), expected, rtol=1e-8)


def test_class_covariances_tell_shapes_apart(tiny_backbone: str) -> None:
    """Two classes with one mean, each long in other directions: only their shapes differ."""
    draw = torch.Generator().manual_seed(2)
    shape = torch.cat([torch.full((32,), 3.0), torch.full((32,), 0.3)])
    noise = torch.randn(400, 64, generator=draw)
    labels = torch.arange(400) % 2
    lengths = torch.stack([shape, shape.flip(0)])[labels]
    lessons = Lessons((5 + noise * lengths).double(), labels)
    right = {}
    for covariance in ("class", "shared"):
        # A correlation would take the lengths out, which is all that there is.
        learner = build(
            "fecam", tiny_backbone, covariance=covariance, normalize=False, variance=0.01
        )
        teach(learner, lessons, [[0, 1]])
        named = learner.logits(lessons.features).argmax(1)
        right[covariance] = float((named == labels).double().mean())
    assert right["class"] > 0.95
    assert right["shared"] < 0.8


@pytest.mark.parametrize("covariance", ["class", "shared"])
def test_images_that_return_count_as_if_they_had_come_at_once(
    covariance: str, tiny_backbone: str
) -> None:
    whole = teach(build("fecam", tiny_backbone, covariance=covariance), LESSONS, [[0, 1, 2]])
    parts = build("fecam", tiny_backbone, covariance=covariance)
    first = torch.arange(60) % 2 == 0
    parts.begin_task(2, (0, 0))
    early = first & (LESSONS.labels < 2)
    parts.learn(LESSONS.features[early], LESSONS.labels[early], (0, 0))
    parts.begin_task(1, (0, 1))
    parts.learn(LESSONS.features[~early], LESSONS.labels[~early], (0, 1))
    torch.testing.assert_close(
        parts.logits(ASKED.features), whole.logits(ASKED.features), rtol=1e-9, atol=1e-9
    )


def test_too_little_shrinkage_is_said(tiny_backbone: str) -> None:
    learner = build("fecam", tiny_backbone, variance=0.0, correlation=50.0)
    with pytest.raises(OvorError, match=r"Choose a larger --method\.variance"):
        teach(learner, LESSONS, [[0]])
