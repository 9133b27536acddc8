"""Algorithm 2 by hand, on features on a line: what the parity tests of the fast search rest on."""

from dataclasses import replace

import pytest
import torch

from ovor.config import Npos
from ovor.outliers import npos

LINE = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
NPOS = Npos(alpha=1, beta=3, k=1, noise=5, sigma=0.1, shuffle=False)


@pytest.mark.parametrize(
    ("k", "expected"), [(1, [1, 1, 2, 4]), (2, [3, 2, 3, 6]), (3, [7, 6, 4, 7]), (9, [7, 6, 4, 7])]
)
def test_delta_among_others_and_with_itself(k: int, expected: list[float]) -> None:
    """Counting itself, a feature has its K-th other as the next neighbour."""
    others, itself = replace(NPOS, k=k), replace(NPOS, k=k + 1, self_neighbor=True)
    for settings in (others, itself):
        assert npos.boundary_distances(LINE, settings).tolist() == expected


def test_of_equals_the_earlier_is_first() -> None:
    assert npos.topk(3, torch.tensor([1.0, 4.0, 2.0, 4.0])).tolist() == [1, 3, 2]


def test_outliers_are_the_farthest_feature_with_the_longest_noises() -> None:
    noise = npos.draw_noise(NPOS, 1, torch.Generator().manual_seed(0))
    longest = noise[noise.flatten().abs().argsort(descending=True)[:3]]
    found = npos.synthesize(LINE, 1, NPOS, torch.Generator().manual_seed(0))
    assert torch.equal(found, 7 + longest)


def test_as_released_the_boundary_is_forgotten_and_each_noise_is_there_as_often() -> None:
    settings = replace(NPOS, add_boundary=False, beta=4)
    noise = npos.draw_noise(settings, 1, torch.Generator().manual_seed(0))
    found = npos.synthesize(LINE, 2, settings, torch.Generator().manual_seed(0))
    assert len(found) == 8
    distinct, counts = found.unique(return_counts=True)
    assert set(distinct.tolist()) <= set(noise.flatten().tolist())
    assert counts.tolist() == [2] * 4


def test_shuffling_changes_the_order_only() -> None:
    ordered, shuffled = (
        npos.synthesize(LINE, 1, replace(NPOS, beta=5, shuffle=x), torch.Generator().manual_seed(0))
        for x in (False, True)
    )
    assert ordered.tolist() != shuffled.tolist()
    assert sorted(ordered.tolist()) == sorted(shuffled.tolist())


@pytest.mark.parametrize(("space", "expected"), [("raw", 3), ("mixed", 4), ("unit", 0)])
def test_spaces(space: str, expected: float) -> None:
    """The candidate 10 is 3 from the feature 7, but 5 - 1 from its direction, and has the same."""
    settings = replace(NPOS, space=space)
    index = npos.as_searched(torch.tensor([[2.0], [7.0]]), settings)
    candidate = torch.tensor([[10.0 if space == "raw" else 5.0]])
    assert npos.candidate_distances(candidate, index, settings).tolist() == [expected]
