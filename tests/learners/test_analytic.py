"""The analytic learner: its sums and head come back from its state, with outliers too."""

from contextlib import nullcontext

import pytest
import torch

from ovor.encoders import load_backbone
from ovor.learners import analytic, build_learner
from ovor.learners.analytic import Analytic, AnalyticOptions, depths_at, depths_read
from ovor.learners.discriminant import Scatter
from tiny import batches_of


def build(backbone: str, **options: object) -> Analytic:
    learner = build_learner("analytic", dict(options), load_backbone(backbone).vit, nullcontext)
    assert isinstance(learner, Analytic)
    return learner.eval()


def teach(learner: Analytic, tasks: int) -> None:
    draw = torch.Generator().manual_seed(1)
    for number in range(tasks):
        learner.begin_task(2, (0, number))
        images, labels = torch.rand(8, 3, 14, 14, generator=draw), torch.arange(8) % 2
        learner.end_task(batches_of([(images, labels)]), (0, number))


@pytest.mark.parametrize("options", [{}, {"outliers": 0.5}, {"projection": 40}, {"depths": 1}])
def test_a_learner_goes_on_from_its_state(options: dict[str, object], tiny_backbone: str) -> None:
    through, stopped = build(tiny_backbone, **options), build(tiny_backbone, **options)
    teach(through, 2)
    teach(stopped, 1)
    again = build(tiny_backbone, **options)
    again.begin_task(2, (0, 0))
    again.load_learned_state(stopped.learned_state())
    again.tasks = 1
    again.begin_task(2, (0, 1))
    draw = torch.Generator().manual_seed(1)
    torch.rand(8, 3, 14, 14, generator=draw)  # the first task's
    images = torch.rand(8, 3, 14, 14, generator=draw)
    again.end_task(batches_of([(images, torch.arange(8) % 2)]), (0, 1))
    assert torch.equal(again.weights, through.weights)
    assert torch.equal(again.bias, through.bias)


def test_outliers_weigh_as_much_as_the_images_and_scatter_around_the_classes(
    tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outliers that are the images themselves add what the images scatter around their centre."""
    monkeypatch.setattr(analytic, "synthesize", lambda features, *others: features)
    learner, plain = build(tiny_backbone, outliers=0.5), build(tiny_backbone)
    teach(learner, 1)
    teach(plain, 1)
    assert learner.outliers is not None
    assert float(learner.outliers.images) == 8
    scatter = Scatter.of(plain.moments)
    each, apart = scatter.each, scatter.deviations
    total = scatter.within + each * apart.T @ apart
    expected = scatter.within + 0.5 * total
    torch.testing.assert_close(learner.solve().discriminant.scatter.within, expected)


@pytest.mark.parametrize(
    ("depths", "blocks", "expected"),
    [(4, 12, [5, 7, 9, 11]), (1, 6, [5]), (4, 2, [0, 1]), (2, 1, [0])],
)
def test_depths_are_read_from_the_middle_to_the_end(
    depths: int, blocks: int, expected: list[int]
) -> None:
    assert depths_at(depths, blocks) == expected


@pytest.mark.parametrize(
    ("widths", "widest", "expected"),
    [
        ((384,) * 6, 3072, [2, 3, 4, 5]),  # the embedded network
        ((768,) * 12, 3072, [5, 7, 9, 11]),  # ViT-S
        ((1536,) * 12, 3072, [5, 11]),  # ViT-B
        ((1536,) * 12, 0, [5, 7, 9, 11]),  # a model that was made before there was a limit
        ((9000,) * 3, 3072, [2]),
        ((40, 80, 112, 192, 320, 1280), 3072, [2, 3, 4, 5]),  # EfficientNet-Lite
    ],
)
def test_fewer_depths_are_read_of_a_wide_network(
    widths: tuple[int, ...], widest: int, expected: list[int]
) -> None:
    assert depths_read(AnalyticOptions(widest=widest), widths) == expected
