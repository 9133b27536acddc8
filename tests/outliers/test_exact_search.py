"""What a caller of the outlier synthesis relies on; its numbers are checked in parity."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from outlier_checks import assert_farthest, clusters, limits, normal, run
from ovor.config import Npos
from ovor.outliers.feature_buffer import Mapped, collected

NPOS = Npos(alpha=3, beta=10, k=4, noise=20)


def rows(outliers: Tensor) -> list[list[float]]:
    return sorted(outliers.tolist())


def test_the_generator_decides() -> None:
    features = normal(36, 8)
    torch.manual_seed(0)
    first = run(features, 3, NPOS, seed=5)
    torch.manual_seed(1)
    assert torch.equal(first, run(features, 3, NPOS, seed=5))
    assert not torch.equal(first, run(features, 3, NPOS, seed=6))


def test_shuffling_changes_the_order_only() -> None:
    shuffled, ordered = (
        run(normal(36, 8), 3, replace(NPOS, shuffle=shuffle)) for shuffle in (True, False)
    )
    assert not torch.equal(shuffled, ordered)
    assert rows(shuffled) == rows(ordered)


def test_images_in_another_order_give_the_same_outliers() -> None:
    features, npos = normal(36, 8), replace(NPOS, shuffle=False)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(3))
    assert_farthest(run(features[order], 3, npos), features, 3, npos)


def test_outliers_are_a_noise_away_from_a_feature() -> None:
    features = normal(60, 8)
    outliers = run(features, 2, replace(NPOS, sigma=1e-3))
    assert torch.cdist(outliers, features).amin(dim=1).max() < 1e-3 * 10


def test_of_equally_distant_features_the_first_are_the_boundary() -> None:
    features = 4 * torch.eye(16)  # exact in floats: every distance is the same
    outliers = run(features, 1, replace(NPOS, sigma=1e-3, beta=60))
    assert torch.cdist(outliers, features).argmin(dim=1).unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
def test_one_image_in_all(space: str) -> None:
    outliers = run(normal(1, 8), 1, replace(NPOS, space=space))
    assert outliers.shape == (10, 8)
    assert outliers.isfinite().all()


def test_no_image_gives_no_outlier() -> None:
    assert run(normal(0, 8), 1, NPOS).shape == (0, 8)


def test_features_that_are_being_trained_are_left_alone() -> None:
    features = normal(20, 8)
    kept = features.clone()
    outliers = run(features.requires_grad_(), 2, NPOS)
    assert not outliers.requires_grad
    assert torch.equal(features.detach(), kept)


def test_autocast_does_not_reach_the_distances() -> None:
    features = normal(36, 8)
    expected = run(features, 3, NPOS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(run(features, 3, NPOS), expected)


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, list | tuple) else [result]:
            if isinstance(value, Tensor) and not func.is_view:
                self.elements = max(self.elements, value.numel())
        return result


@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
def test_memory_is_that_of_the_two_tables(space: str) -> None:
    """Never candidates x features, nor candidates x width: neither all of them nor n x n."""
    npos = Npos(alpha=10, beta=40, k=20, noise=100, space=space)
    features = normal(400, 64)
    with limits(CHUNK_ELEMENTS=5_000, FEWEST_ROWS=1), LargestTensor() as largest:
        run(features, 5, npos)
    tables = max(npos.noise, npos.alpha * 5) * len(features)  # 40,000
    assert largest.elements <= tables
    assert largest.elements < len(features) ** 2 / 3
    assert largest.elements < npos.alpha * 5 * npos.noise * features.shape[1] / 7


def test_many_features_make_no_large_tensor() -> None:
    """Nothing of features x width, nor of a table's rows x features, is ever in memory."""
    features = clusters(6000, 64)
    in_file = {"IN_MEMORY": 40_000, "AT_ONCE": 10_000}
    chunks = {"CHUNK_ELEMENTS": 20_000, "COLUMNS": 500, "KEPT_TABLES": 0, "NEAR_TERMS": 20_000}
    with limits(FEW_POINTS=500, **in_file, **chunks):
        mapped = collected([features])
        assert isinstance(mapped, Mapped)
        with LargestTensor() as largest:
            run(mapped.tensor(), 5, Npos(alpha=10, beta=40, k=20, noise=100))
    assert largest.elements <= 64_000  # 500 columns x (100 noises or 64 rows and more), 6000 x 1
    assert largest.elements < features.numel() / 5
