"""Losses against closed forms."""

from dataclasses import replace
from math import exp, log

import pytest
import torch
from torch import Tensor

from ovor import losses
from ovor.config import Vor


def at_energy(*energies: float) -> Tensor:
    """Logits of one class: its energy is minus the logit."""
    return -torch.tensor(energies)[:, None]


@pytest.mark.parametrize(("classes", "expected"), [(10, -2.303), (20, -2.996), (40, -3.689)])
def test_energy_of_zero_logits_is_minus_log_of_the_classes(classes: int, expected: float) -> None:
    assert losses.energy(torch.zeros(2, classes)).tolist() == pytest.approx(
        [expected] * 2, abs=5e-4
    )


def test_energy_follows_a_common_shift_and_does_not_overflow() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    expected = -log(exp(1) + exp(2) + exp(3))
    assert losses.energy(logits).item() == pytest.approx(expected)
    assert losses.energy(logits + 1000).item() == pytest.approx(expected - 1000)


@pytest.mark.parametrize(
    ("kind", "excess", "expected"),
    [
        ("huber", 0.5, 0.125),
        ("huber", 1.0, 0.5),
        ("huber", 3.0, 2.5),
        ("huber", -4.0, 0.0),
        ("mse", 0.5, 0.25),
        ("mse", 3.0, 9.0),
        ("mse", -4.0, 0.0),
    ],
)
def test_hinge_values(kind: str, excess: float, expected: float) -> None:
    assert losses.hinge(torch.tensor([excess]), kind).item() == pytest.approx(expected)


def test_hinge_is_the_mean_over_all_and_not_over_the_active() -> None:
    assert losses.hinge(torch.tensor([3.0, -1.0]), "huber").item() == pytest.approx(1.25)


# Energies -22 and -24.5 beside tau -24: 2 too high and fine; -4 beside tau -3: 1 too low.
TERMS = [("both", 0.75 + 0.5), ("current", 0.75), ("outlier", 0.5), ("none", 0.0)]


@pytest.mark.parametrize(("terms", "expected"), TERMS)
def test_outlier_loss_by_hand(terms: str, expected: float) -> None:
    vor = replace(Vor(), terms=terms)
    loss = losses.outlier_loss(at_energy(-22, -24.5), at_energy(-4), vor)
    assert loss.item() == pytest.approx(0.1 * expected)


def test_outlier_loss_with_squares() -> None:
    vor = replace(Vor(), hinge="mse", weight=2.0)
    loss = losses.outlier_loss(at_energy(-21), at_energy(-5, 7), vor)
    assert loss.item() == pytest.approx(2 * (9 + 4 / 2))


@pytest.mark.parametrize("terms", ["both", "current", "outlier"])
def test_outlier_loss_pushes_the_energies_apart(terms: str) -> None:
    current = torch.zeros(3, 20, requires_grad=True)
    outliers = torch.ones(3, 20, requires_grad=True)
    losses.outlier_loss(current, outliers, replace(Vor(), terms=terms)).backward()
    if terms != "outlier":
        assert current.grad is not None
        assert (current.grad < 0).all()  # descent raises the logits, which lowers the energy
    if terms != "current":
        assert outliers.grad is not None
        assert (outliers.grad > 0).all()


@pytest.mark.parametrize("classes", [1, 10, 20, 40])
def test_relative_threshold_means_the_same_for_any_number_of_classes(classes: int) -> None:
    """A constant logit of 0.5 is as much too confident with 10 classes as with 20."""
    vor = replace(Vor(), terms="outlier", hinge="mse", weight=1.0, tau_outlier_relative=True)
    logits = torch.full((4, classes), 0.5)
    excess = -3 + log(20) + 0.5
    assert losses.outlier_loss(logits, logits, vor).item() == pytest.approx(excess**2, rel=1e-4)


def test_absolute_threshold_is_slack_for_ten_classes_and_active_for_forty() -> None:
    vor = replace(Vor(), terms="outlier")
    assert losses.outlier_loss(torch.zeros(1, 10), torch.zeros(1, 10), vor).item() == 0
    assert losses.outlier_loss(torch.zeros(1, 40), torch.zeros(1, 40), vor).item() > 0


@pytest.mark.parametrize("kind", ["huber", "mse"])
def test_no_outliers_leave_the_other_term(kind: str) -> None:
    vor = replace(Vor(), hinge=kind)
    current = torch.zeros(2, 20, requires_grad=True)
    loss = losses.outlier_loss(current, torch.zeros(0, 20), vor)
    alone = losses.outlier_loss(current, torch.zeros(0, 20), replace(vor, terms="current"))
    assert loss.item() == alone.item() > 0
    loss.backward()
    assert current.grad is not None
    assert current.grad.isfinite().all()
