"""What a caller of the outlier synthesis relies on; its numbers are checked in parity."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ovor.config import Npos
from ovor.outliers import exact_search as boundary
from ovor.outliers import feature_buffer as store
from ovor.outliers import knn, synthesize
from ovor.outliers import npos as npos_module
from ovor.outliers.feature_buffer import collected

NPOS = Npos(alpha=3, beta=10, k=4, noise=20)


def task(classes: int, per_class: int, width: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(classes).repeat_interleave(per_class)
    return torch.randn(len(labels), width, generator=generator), labels


def run(features: Tensor, labels: Tensor, classes: int, npos: Npos, seed: int = 0) -> Tensor:
    return synthesize(features, labels, classes, npos, torch.Generator().manual_seed(seed))


def rows(outliers: Tensor) -> list[list[float]]:
    return sorted(outliers.tolist())


@pytest.mark.parametrize("per_class", [True, False])
def test_the_generator_decides(per_class: bool) -> None:
    npos = replace(NPOS, per_class=per_class)
    features, labels = task(3, 12)
    torch.manual_seed(0)
    first = run(features, labels, 3, npos, seed=5)
    torch.manual_seed(1)
    assert torch.equal(first, run(features, labels, 3, npos, seed=5))
    assert not torch.equal(first, run(features, labels, 3, npos, seed=6))


def test_shuffling_changes_the_order_only() -> None:
    features, labels = task(3, 12)
    shuffled, ordered = (
        run(features, labels, 3, replace(NPOS, shuffle=shuffle)) for shuffle in (True, False)
    )
    assert not torch.equal(shuffled, ordered)
    assert rows(shuffled) == rows(ordered)


def test_images_in_another_order_give_the_same_outliers() -> None:
    features, labels = task(3, 12)
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(3))
    for per_class in (True, False):
        npos = replace(NPOS, per_class=per_class)
        expected = rows(run(features, labels, 3, npos))
        assert rows(run(features[order], labels[order], 3, npos)) == expected


def test_classes_do_not_depend_on_each_other_when_apart() -> None:
    npos = replace(NPOS, per_class=True, shuffle=False)
    features, labels = task(3, 12)
    alone = run(features[labels == 1], labels[labels == 1], 3, npos)
    assert torch.equal(run(features, labels, 3, npos)[npos.beta : 2 * npos.beta], alone)


def test_labels_may_start_anywhere() -> None:
    features, labels = task(3, 12)
    for npos in (NPOS, replace(NPOS, per_class=True)):
        assert torch.equal(run(features, labels, 3, npos), run(features, labels + 70, 3, npos))


def test_outliers_are_a_noise_away_from_a_feature() -> None:
    features, labels = task(2, 30)
    outliers = run(features, labels, 2, replace(NPOS, sigma=1e-3))
    assert torch.cdist(outliers, features).amin(dim=1).max() < 1e-3 * 10


def test_of_equally_distant_features_the_first_are_the_boundary() -> None:
    features = 4 * torch.eye(16)  # exact in floats: every distance is the same
    npos = replace(NPOS, sigma=1e-3, beta=60)
    outliers = run(features, torch.zeros(16), 1, npos)
    assert torch.cdist(outliers, features).argmin(dim=1).unique().tolist() == [0, 1, 2]


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
def test_one_image_in_all(space: str, per_class: bool) -> None:
    features, labels = task(1, 1)
    outliers = run(features, labels, 1, replace(NPOS, space=space, per_class=per_class))
    assert outliers.shape == (10, 8)
    assert outliers.isfinite().all()


@pytest.mark.parametrize("per_class", [True, False])
def test_no_image_gives_no_outlier(per_class: bool) -> None:
    features, labels = task(1, 0)
    assert run(features, labels, 1, replace(NPOS, per_class=per_class)).shape == (0, 8)


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
def test_a_sample_is_drawn_by_the_generator(space: str, per_class: bool) -> None:
    npos = replace(NPOS, space=space, per_class=per_class, sample=9)
    features, labels = task(3, 12)
    first = run(features, labels, 3, npos, seed=5)
    assert first.shape == (30, 8)
    assert torch.equal(first, run(features, labels, 3, npos, seed=5))
    assert rows(first) != rows(run(features, labels, 3, replace(npos, sample=0), seed=5))


@pytest.mark.parametrize("sample", [36, 37, 10**6])
def test_a_sample_that_covers_all_features_is_exact(sample: int) -> None:
    features, labels = task(3, 12)
    expected = run(features, labels, 3, NPOS)
    assert torch.equal(run(features, labels, 3, replace(NPOS, sample=sample)), expected)


@pytest.mark.parametrize("self_neighbor", [True, False])
def test_a_sample_of_one(self_neighbor: bool) -> None:
    features, labels = task(2, 10)
    npos = replace(NPOS, sample=1, k=1, self_neighbor=self_neighbor)
    assert run(features, labels, 2, npos).isfinite().all()


def test_outliers_by_a_sample_are_about_as_far() -> None:
    features, labels = task(3, 400)
    npos = replace(NPOS, k=20, alpha=10, beta=100)
    exact, sampled = (run(features, labels, 3, replace(npos, sample=s)) for s in (0, 300))
    shared = {tuple(row) for row in exact.tolist()} & {tuple(row) for row in sampled.tolist()}
    assert len(shared) > len(exact) / 2
    far = [knn.kth_distance(outliers, features, 20).mean() for outliers in (exact, sampled)]
    assert far[1] > 0.97 * far[0]


def test_features_that_are_being_trained_are_left_alone() -> None:
    features, labels = task(2, 10)
    kept = features.clone()
    outliers = run(features.requires_grad_(), labels, 2, NPOS)
    assert not outliers.requires_grad
    assert torch.equal(features.detach(), kept)


def test_autocast_does_not_reach_the_distances() -> None:
    features, labels = task(3, 12)
    expected = run(features, labels, 3, NPOS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(run(features, labels, 3, NPOS), expected)


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
def test_memory_is_that_of_the_two_tables(monkeypatch: pytest.MonkeyPatch, space: str) -> None:
    """Never candidates x features, nor candidates x width: neither all of them nor n x n."""
    npos = Npos(alpha=10, beta=40, k=20, noise=100, space=space)
    features, labels = task(5, 80, width=64)
    monkeypatch.setattr(knn, "CHUNK_ELEMENTS", 5_000)
    monkeypatch.setattr(knn, "FEWEST_ROWS", 1)
    with LargestTensor() as largest:
        run(features, labels, 5, npos)
    tables = max(npos.noise, npos.alpha * 5) * len(features)  # 40,000
    assert largest.elements <= tables
    assert largest.elements < len(features) ** 2 / 3
    assert largest.elements < npos.alpha * 5 * npos.noise * features.shape[1] / 7


def mapped(features: Tensor) -> Tensor:
    rows = collected([features])
    assert isinstance(rows, store.Mapped)
    return rows.tensor()


def clusters(size: int, width: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    centers = 3 * torch.randn(5, width, generator=generator)
    return centers[torch.arange(size) % 5] + torch.randn(size, width, generator=generator)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 300),
    width=st.integers(3, 12),  # in fewer, unit vectors are equally far from each other
    k=st.integers(1, 40),
    columns=st.integers(1, 120),
    at_once=st.integers(12, 600),
    space=st.sampled_from(["raw", "unit", "mixed"]),
    per_class=st.booleans(),
    sample=st.sampled_from([0, 50]),
    seed=st.integers(0, 99),
)
def test_features_in_a_file_give_the_same_outliers(
    size: int,
    width: int,
    k: int,
    columns: int,
    at_once: int,
    space: str,
    per_class: bool,
    sample: int,
    seed: int,
) -> None:
    """To the bit where the arithmetic is in the same blocks; they are as far in other blocks."""
    npos = replace(NPOS, k=k, space=space, per_class=per_class, sample=sample, shuffle=False)
    features, labels = clusters(size, width, seed), torch.arange(size) % 3
    expected = run(features, labels, 3, npos)
    with pytest.MonkeyPatch.context() as patch:
        for constant in ("FEW_POINTS", "SAMPLE"):
            patch.setattr(boundary, constant, 30)
        patch.setattr(knn, "COLUMNS", columns)
        patch.setattr(npos_module, "KEPT_TABLES", 0)
        patch.setattr(npos_module, "NEAR_TERMS", 200)
        patch.setattr(npos_module, "SCORED", 3 * k)
        patch.setattr(store, "AT_ONCE", at_once)
        in_memory = run(features, labels, 3, npos)
        patch.setattr(store, "IN_MEMORY", 0)
        in_a_file = run(mapped(features), labels, 3, npos)
    assert torch.equal(in_a_file, in_memory)
    assert in_memory.shape == expected.shape
    if not per_class and not sample:
        index = features if space == "raw" else F.normalize(features)
        see = F.normalize if space == "unit" else torch.Tensor.clone
        far, near = (knn.kth_distance(see(x), index, k) for x in (in_memory, expected))
        torch.testing.assert_close(far, near, rtol=1e-4, atol=5e-3)


@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
@pytest.mark.parametrize("columns", [64, 1000, 4096])
def test_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, space: str, columns: int
) -> None:
    """Without equal distances, the same outliers in the same order as when all is one block."""
    npos = Npos(alpha=10, beta=20, k=20, noise=100, space=space)
    features, labels = clusters(3000, 48, seed=1), torch.zeros(3000)
    expected = run(features, labels, 5, npos)
    monkeypatch.setattr(knn, "COLUMNS", columns)
    monkeypatch.setattr(boundary, "FEW_POINTS", 500)
    monkeypatch.setattr(npos_module, "KEPT_TABLES", 10**5)
    monkeypatch.setattr(store, "IN_MEMORY", 10**5)
    monkeypatch.setattr(store, "AT_ONCE", 10**4)
    generator = torch.Generator().manual_seed(0)
    found = synthesize(features, labels, 5, npos, generator, tmp_path)
    assert torch.equal(found, expected)
    assert list(tmp_path.iterdir()) == []


def test_many_features_make_no_large_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of features x width, nor of a table's rows x features, is ever in memory."""
    features, labels = clusters(6000, 64, seed=0), torch.zeros(6000)
    monkeypatch.setattr(boundary, "FEW_POINTS", 500)
    for module, constant, value in (
        (knn, "CHUNK_ELEMENTS", 20_000),
        (knn, "COLUMNS", 500),
        (npos_module, "KEPT_TABLES", 0),
        (npos_module, "NEAR_TERMS", 20_000),
        (store, "IN_MEMORY", 40_000),
        (store, "AT_ONCE", 10_000),
    ):
        monkeypatch.setattr(module, constant, value)
    with LargestTensor() as largest:
        run(mapped(features), labels, 5, Npos(alpha=10, beta=40, k=20, noise=100))
    assert largest.elements <= 64_000  # 500 columns x (100 noises or 64 rows and more), 6000 x 1
    assert largest.elements < features.numel() / 5
