"""What the sums say older classes lost to new ones, beside what test images say."""

import json

import pytest
import torch

from docs.older import FILE, figures
from ovor.classifier.lesson_report import estimated
from ovor.classifier.older import DRAWS, Cloud, width_by


def cloud(apart: float) -> Cloud:
    """Return two classes whose logits differ so much, with noise of one."""
    noise = torch.randn(DRAWS, 2, generator=torch.Generator().manual_seed(0)).double()
    return Cloud(torch.eye(2).double() * apart, noise, torch.tensor([1e9, 1e9]).double())


def test_the_share_right_is_that_of_two_normals() -> None:
    """Apart by d with noise 1 each, the difference is N(d, 2): right is its share above 0."""
    for apart in (0.5, 1.0, 2.0):
        expected = torch.special.ndtr(torch.tensor(apart / 2**0.5)).item()
        bound = 4 * (expected * (1 - expected) / DRAWS) ** 0.5  # standard deviations of the draws
        assert cloud(apart).right(0, 1.0) == pytest.approx(expected, abs=bound)


def test_the_width_is_what_explains_the_share_right() -> None:
    found = width_by(cloud(2.0), {0: 0.75, 1: 0.75})
    both = [cloud(2.0).right(row, found) for row in (0, 1)]
    assert sum(both) / 2 == pytest.approx(0.75, abs=0.02)
    assert width_by(cloud(2.0), {}) == 1.0
    assert width_by(cloud(2.0), {0: 1.0, 1: 1.0}) < 1.01  # never less than the sums say


def test_the_note_says_no_more_than_was_measured() -> None:
    measured = json.loads(FILE.read_text())
    assert "about 5 points" in estimated([{"lost": 1.0}])["note"]
    assert all(row["apart"] <= 5.5 for row in measured)
    assert all(abs(row["estimated"] - row["measured"]) < 2 for row in measured)
    assert all(row["much"] > row["little"] + 4 for row in measured)


@pytest.mark.slow
def test_classes_that_are_said_to_lose_much_do() -> None:
    found = figures(10)
    assert found["much"] > found["little"] + 3
    assert found["ranks"] > 0.2
    assert abs(found["estimated"] - found["measured"]) < 2
