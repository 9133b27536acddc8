"""Drift against the textbook: definitions with explicit matrices and loops, and invariances."""

import math
from collections.abc import Callable
from statistics import median

import pytest
import torch
from torch import Tensor

from ovor.analysis.drift import (
    centered_prompt_cosine,
    feature_cosine,
    kernel_cka,
    linear_cka,
    prompt_cosine,
)

SHAPES = [(40, 5, 7), (12, 30, 20), (9, 9, 9), (15, 3, 60)]  # tall, wide, square, one of each


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def related(n: int, d: int, e: int) -> tuple[Tensor, Tensor]:
    """Features whose CKA is neither near 0 nor 100."""
    x = draw(n, d) + 3
    return x, x @ draw(d, e, seed=1) + 2 * draw(n, e, seed=2)


def hsic(k: Tensor, m: Tensor) -> Tensor:
    """tr(KHMH) / (n - 1)^2, as printed (Gretton et al. 2005)."""
    n = len(k)
    h = torch.eye(n, dtype=torch.float64) - torch.ones(n, n, dtype=torch.float64) / n
    return torch.trace(k @ h @ m @ h) / (n - 1) ** 2


def cka(k: Tensor, m: Tensor) -> float:
    return 100 * (hsic(k, m) / (hsic(k, k) * hsic(m, m)).sqrt()).item()


def rbf_by_loops(x: Tensor, sigma: float | None) -> Tensor:
    rows = x.tolist()
    squares = [[sum((a - b) ** 2 for a, b in zip(r, s, strict=True)) for s in rows] for r in rows]
    two = 2 * (sigma**2 if sigma else median(v for row in squares for v in row if v != 0))
    return torch.tensor([[math.exp(-v / two) for v in row] for row in squares]).double()


def test_prompt_cosine_is_of_one_long_vector() -> None:
    before = {"k": torch.tensor([[3.0, 0.0]]), "v": torch.tensor([4.0])}
    after = {"v": torch.tensor([0.0]), "k": torch.tensor([[3.0, 4.0]])}  # matched by name
    assert prompt_cosine(before, after) == pytest.approx(100 * 9 / 25)
    assert prompt_cosine(before, before) == pytest.approx(100)
    with pytest.raises(ValueError, match="not the same prompt"):
        prompt_cosine(before, {"k": torch.ones(3)})


def test_centred_prompt_cosine_is_the_correlation() -> None:
    p, q = draw(50) + 5, draw(50, seed=1) + draw(50) - 2
    expected = torch.corrcoef(torch.stack([p, q]))[0, 1].item()
    before, after = ({"a": z[:20], "b": z[20:].view(5, 6)} for z in (p, q))
    assert centered_prompt_cosine(before, after) == pytest.approx(100 * expected)


def test_unrelated_uniform_prompts_look_alike_until_centred() -> None:
    p, q = ({"p": torch.rand(100_000, generator=torch.Generator().manual_seed(s))} for s in (0, 1))
    assert prompt_cosine(p, q) == pytest.approx(75, abs=0.5)
    assert centered_prompt_cosine(p, q) == pytest.approx(0, abs=1.5)


def test_feature_cosine_is_the_mean_over_rows() -> None:
    before = torch.tensor([[1.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    after = torch.tensor([[0.0, 2.0], [6.0, 8.0], [-1.0, -1.0]])
    assert feature_cosine(before, after) == pytest.approx(100 * (0 + 1 - 1) / 3)
    assert feature_cosine(before, before * 7) == pytest.approx(100)


@pytest.mark.parametrize(("n", "d", "e"), SHAPES)
def test_linear_cka_is_the_textbook_ratio(n: int, d: int, e: int) -> None:
    x, y = related(n, d, e)
    expected = cka(x @ x.T, y @ y.T)
    assert 1 < expected < 99.9
    assert linear_cka(x, y) == pytest.approx(expected, rel=1e-10)
    assert linear_cka(y, x) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("n", "d", "e"), SHAPES)
@pytest.mark.parametrize("sigma", [None, 1.5])
def test_kernel_cka_is_the_brute_force_one(n: int, d: int, e: int, sigma: float | None) -> None:
    x, y = related(n, d, e)
    expected = cka(rbf_by_loops(x, sigma), rbf_by_loops(y, sigma))
    assert kernel_cka(x, y, sigma) == pytest.approx(expected, rel=1e-6)


def test_equal_rows_do_not_count_in_the_median() -> None:
    x, y = related(10, 4, 3)
    x[5:] = x[:5]  # far from the origin, so that rounding would show
    x += 1000
    expected = cka(rbf_by_loops(x, None), rbf_by_loops(y, None))
    assert kernel_cka(x, y) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("measure", [linear_cka, kernel_cka])
def test_cka_does_not_feel_rotation_scale_and_shift(
    measure: Callable[[Tensor, Tensor], float],
) -> None:
    x, y = related(30, 6, 6)
    rotation = torch.linalg.qr(draw(6, 6, seed=3)).Q
    assert measure(x, x) == pytest.approx(100)
    assert measure(x, 5 * x @ rotation - 3) == pytest.approx(100)
    assert measure(0.1 * x @ rotation, y + 2) == pytest.approx(measure(x, y))


@pytest.mark.parametrize("measure", [feature_cosine, linear_cka, kernel_cka])
def test_half_precision_features_are_summed_in_double(
    measure: Callable[[Tensor, Tensor], float],
) -> None:
    x, y = (z.half() for z in related(20, 8, 8))
    assert measure(x, y) == pytest.approx(measure(x.double(), y.double()), rel=1e-12)


def test_features_that_do_not_differ_have_no_similarity() -> None:
    x = torch.ones(3, 2)
    assert math.isnan(linear_cka(x, x))
    assert math.isnan(kernel_cka(x, x))
