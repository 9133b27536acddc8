"""The toy of Figure 1: real training, equal but for VOR, and numbers that agree with each other."""

import json
from dataclasses import replace

import pytest
import torch

from ovor.analysis import boundaries, confusion, toy
from ovor.config import Npos, Vor

SMALL = toy.Toy(
    train=150,
    test=50,
    epochs=15,
    batch_size=32,
    vor=Vor(epochs=5, tau_outlier_relative=True, npos=Npos(noise=50, k=20)),
)


@pytest.fixture(scope="module")
def pair() -> confusion.Pair:
    return confusion.train_pair(SMALL, 0)


def test_the_seed_decides_everything(pair: confusion.Pair) -> None:
    again, other = confusion.train_pair(SMALL, 0), confusion.train_pair(SMALL, 1)
    assert confusion.measure(SMALL, pair) == confusion.measure(SMALL, again)
    for row, trained in pair.rows.items():
        scores = trained.classifier(pair.test.features)
        assert torch.equal(scores, again.rows[row].classifier(pair.test.features))
        assert not torch.equal(scores, other.rows[row].classifier(pair.test.features))
    assert not torch.equal(pair.test.features, other.test.features)


def test_points_are_of_their_gaussians_and_held_out_ones_are_others() -> None:
    points, test = (toy.draw_points(toy.Toy(), 4000, 0, use) for use in (toy.TRAIN, toy.TEST))
    assert not torch.isin(points.features, test.features).all(1).any()
    for label, mean in enumerate(toy.Toy().means):
        own = points.features[points.labels == label]
        assert own.mean(0).tolist() == pytest.approx(mean, abs=0.07)
        assert own.std(0).tolist() == pytest.approx([1, 1], abs=0.05)


def test_neighbours_are_four_deviations_apart() -> None:
    means = torch.tensor(toy.Toy().means)
    between = torch.pdist(means)  # 1-2, 1-3, 1-4, 2-3, 2-4, 3-4
    assert between[[0, 1, 3, 5]].tolist() == pytest.approx([4, 4, 4, 4], abs=1e-5)
    assert between.min() >= 4 - 1e-5


def test_only_the_row_with_vor_has_outliers_and_raises_their_energy(pair: confusion.Pair) -> None:
    without, with_vor = (pair.rows[row].outliers for row in confusion.ROWS)
    assert [len(outliers) for outliers in without] == [0, 0]
    assert [outliers.shape for outliers in with_vor] == [(2 * SMALL.vor.npos.beta, 2)] * 2
    found = confusion.measure(SMALL, pair)
    assert found["with VOR"]["outlier_energy"] > found["without VOR"]["outlier_energy"] + 1


def test_task_two_leaves_the_head_of_task_one_alone() -> None:
    classifier = toy.ToyClassifier(SMALL, 0)
    points = toy.draw_points(SMALL, SMALL.train, 0, toy.TRAIN)
    toy.learn_task(SMALL, 0, SMALL.vor, classifier, points.of_task(0), 0)
    before = classifier(points.features)
    toy.learn_task(SMALL, 0, SMALL.vor, classifier, points.of_task(1), 1)
    assert torch.equal(classifier(points.features)[:, : toy.CLASSES], before)


def test_a_head_never_sees_the_other_task() -> None:
    """Move the other task's classes elsewhere: the scores of this one stay as they are."""
    elsewhere = replace(SMALL, means=((9.0, 9.0), (9.0, -9.0), *SMALL.means[2:]))
    plane = torch.randn(20, 2)
    one, other = (toy.train_toy(t, 0, t.vor).classifier(plane) for t in (SMALL, elsewhere))
    assert torch.equal(one[:, toy.CLASSES :], other[:, toy.CLASSES :])
    assert not torch.equal(one[:, : toy.CLASSES], other[:, : toy.CLASSES])


def test_without_its_terms_vor_is_no_vor(pair: confusion.Pair) -> None:
    """The rows differ by the outlier loss alone, not by their steps or batches."""
    nothing = toy.train_toy(SMALL, 0, replace(SMALL.vor, terms="none"))
    scores = nothing.classifier(pair.test.features)
    assert torch.equal(scores, pair.rows["without VOR"].classifier(pair.test.features))


def test_the_numbers_are_counted_right(pair: confusion.Pair) -> None:
    found = confusion.measure(SMALL, pair)
    for row, trained in pair.rows.items():
        predicted = trained.classifier(pair.test.features).argmax(1).tolist()
        counted = list(zip(predicted, pair.test.labels.tolist(), strict=True))
        assert found[row]["accuracy"] == 100 * sum(a == y for a, y in counted) / 200
        across = 100 * sum((a < 2) != (y < 2) for a, y in counted) / 200
        assert found[row]["inter_task_confusion"] == across
        assert found[row]["accuracy"] <= min(100 - across, found[row]["accuracy_task_id_given"])


def test_the_sample_is_what_it_is_said_to_be(pair: confusion.Pair) -> None:
    sample = confusion.find_sample(SMALL, pair)
    assert sample is not None
    x = torch.tensor([sample.position])
    own = pair.test.features[pair.test.labels == 0]
    assert (own == x).all(1).any()
    scores = [pair.rows[row].classifier(x)[0] for row in confusion.ROWS]
    assert [each.argmax().item() for each in scores] == [2, 0]
    for row, each in zip(confusion.ROWS, scores, strict=True):
        assert each.tolist() == pytest.approx(sample.scores[row], rel=1e-4)


def test_where_there_is_no_such_sample_none_is_marked(pair: confusion.Pair) -> None:
    same = replace(pair, rows=dict.fromkeys(confusion.ROWS, pair.rows["with VOR"]))
    found = confusion.numbers(SMALL, same, [])
    assert found["sample"] is None
    assert "none is marked" in confusion.sentence_of(found["sample"])
    assert '"x: ' not in json.dumps(boundaries.draw(SMALL, same))


def test_the_mean_is_over_the_seeds(pair: confusion.Pair) -> None:
    found = confusion.numbers(SMALL, pair, [0, 1])
    first, second = found["seeds"]
    assert first == found["picture"]
    mean = found["mean"]
    assert (mean["seeds"], second["seed"]) == (2, 1)
    for row in confusion.ROWS:
        for key, value in mean[row].items():
            assert value == pytest.approx((first[row][key] + second[row][key]) / 2)
    better = sum(s["with VOR"]["accuracy"] > s["without VOR"]["accuracy"] for s in (first, second))
    assert mean["vor_more_accurate"] == better
