"""NPOS against Alg. 2 written out: every candidate materialised, every distance in float64."""

import time
from dataclasses import replace
from itertools import product

import faiss
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ovor.config import Npos
from ovor.outliers import exact_search as boundary
from ovor.outliers import feature_buffer as store
from ovor.outliers import knn, synthesize
from ovor.outliers import npos as npos_module

SEED = 7
SMALL = Npos(alpha=4, beta=9, k=6, noise=25, shuffle=False)
RELEASED = Npos(add_boundary=False, space="mixed", self_neighbor=True, shuffle=False)


def task(classes: int, per_class: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Clusters of unequal spread, away from the origin, as the features of a network are."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(per_class)
    centers = 2 * torch.randn(classes, width, generator=generator) + 3
    spread = 0.5 + torch.rand(classes, 1, generator=generator)
    scatter = torch.randn(len(labels), width, generator=generator)
    return centers[labels] + spread[labels] * scatter, labels


def draw(features: Tensor, npos: Npos) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    return npos.sigma * torch.randn(npos.noise, features.shape[1], generator=generator)


def run(features: Tensor, labels: Tensor, classes: int, npos: Npos) -> Tensor:
    return synthesize(features, labels, classes, npos, torch.Generator().manual_seed(SEED))


def kth(queries: Tensor, points: Tensor, k: int) -> Tensor:
    distances = torch.cdist(
        queries.double(), points.double(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    return distances.sort(dim=1).values[:, min(k, len(points)) - 1]


def boundary_scores(index: Tensor, npos: Npos) -> Tensor:
    if npos.self_neighbor:
        return kth(index, index, npos.k)
    if len(index) == 1:
        return torch.zeros(1)
    others = [torch.cat([index[:i], index[i + 1 :]]) for i in range(len(index))]
    rows = [kth(index[i : i + 1], rest, npos.k) for i, rest in enumerate(others)]
    return torch.cat(rows)


def oracle(features: Tensor, classes: int, npos: Npos) -> tuple[Tensor, Tensor]:
    """All candidates of Alg. 2 and their distances."""
    index = features if npos.space == "raw" else F.normalize(features)
    order = boundary_scores(index, npos).argsort(descending=True)[: round(npos.alpha * classes)]
    boundary = features[order] if npos.add_boundary else torch.zeros_like(features[order])
    candidates = (boundary[:, None] + draw(features, npos)).flatten(0, 1)
    queries = F.normalize(candidates.double()) if npos.space == "unit" else candidates
    return candidates, kth(queries, index, npos.k)


def assert_farthest(outliers: Tensor, features: Tensor, classes: int, npos: Npos) -> None:
    """The outliers are candidates, no one more often than it occurs, and none is left farther."""
    candidates, distances = oracle(features, classes, npos)
    wanted = min(npos.beta * classes, len(candidates))
    assert outliers.shape == (wanted, features.shape[1])
    rows, numbers = torch.cat([candidates, outliers]).unique(dim=0, return_inverse=True)
    available = numbers[: len(candidates)].bincount(minlength=len(rows))
    used = numbers[len(candidates) :].bincount(minlength=len(rows))
    assert (used <= available).all()
    of_row = torch.zeros(len(rows), dtype=torch.float64)
    of_row[numbers[: len(candidates)]] = distances
    expected = distances.sort(descending=True).values[:wanted]
    torch.testing.assert_close(of_row[numbers[len(candidates) :]], expected, rtol=1e-5, atol=0)


SWITCHES = list(product([True, False], ["raw", "unit", "mixed"], [True, False]))


@pytest.mark.parametrize(("add_boundary", "space", "self_neighbor"), SWITCHES)
def test_every_switch(add_boundary: bool, space: str, self_neighbor: bool) -> None:
    npos = replace(
        SMALL, add_boundary=add_boundary, space=space, self_neighbor=self_neighbor, sigma=0.7
    )
    features, labels = task(classes=3, per_class=20, width=12)
    assert_farthest(run(features, labels, 3, npos), features, 3, npos)


@pytest.mark.parametrize("add_boundary", [True, False])
@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
def test_class_by_class(add_boundary: bool, space: str) -> None:
    npos = replace(SMALL, add_boundary=add_boundary, space=space, per_class=True)
    features, labels = task(classes=4, per_class=15, width=12)
    features, labels = features[labels != 2], labels[labels != 2]  # a class without any image
    outliers = run(features, labels, 4, npos)
    assert len(outliers) == 3 * npos.beta
    for label, part in zip((0, 1, 3), outliers.split(npos.beta), strict=True):
        assert_farthest(part, features[labels == label], 1, npos)


def test_half_a_boundary_sample_a_class_is_one_for_two() -> None:
    npos = replace(SMALL, alpha=2.5, beta=1000, noise=3)
    features, labels = task(classes=2, per_class=10, width=8)
    outliers = run(features, labels, 2, npos)
    assert len(outliers) == 5 * 3
    assert_farthest(outliers, features, 2, npos)


@pytest.mark.parametrize("per_class", [1, 2, 3, 5])
@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
@pytest.mark.parametrize("add_boundary", [True, False])
def test_fewer_images_than_asked_for(
    per_class: int, classes: int, space: str, add_boundary: bool
) -> None:
    npos = replace(SMALL, alpha=20, k=50, space=space, add_boundary=add_boundary)
    features, labels = task(classes, per_class, width=8)
    assert_farthest(run(features, labels, classes, npos), features, classes, npos)


@pytest.mark.parametrize("add_boundary", [True, False])
def test_all_candidates_when_more_are_wanted(add_boundary: bool) -> None:
    npos = replace(SMALL, beta=1000, noise=7, add_boundary=add_boundary)
    features, labels = task(classes=2, per_class=10, width=8)
    outliers = run(features, labels, 2, npos)
    assert len(outliers) == npos.alpha * 2 * 7
    assert_farthest(outliers, features, 2, npos)


def test_one_class_has_one_image() -> None:
    features, labels = task(classes=2, per_class=10, width=8)
    features, labels = features[:11], labels[:11]
    assert_farthest(run(features, labels, 2, SMALL), features, 2, SMALL)
    each = run(features, labels, 2, replace(SMALL, per_class=True))
    assert_farthest(each[SMALL.beta :], features[10:], 1, SMALL)


@pytest.mark.parametrize("space", ["raw", "unit"])
def test_features_far_from_the_origin(space: str) -> None:
    """A common offset makes the expanded square cancel; it must not change who is chosen."""
    features, labels = task(classes=3, per_class=20, width=12)
    npos = replace(SMALL, space=space)
    features = features + (1000 if space == "raw" else 30)
    assert_farthest(run(features, labels, 3, npos), features, 3, npos)


def test_bounds_prune_nothing_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of candidates and few kept: where pruning has the most to get wrong."""
    npos = replace(SMALL, alpha=6, beta=10, noise=150, k=5)
    features, labels = task(classes=4, per_class=40, width=24)
    assert_farthest(run(features, labels, 4, npos), features, 4, npos)
    monkeypatch.setattr(knn, "CHUNK_ELEMENTS", 40 * len(features))
    monkeypatch.setattr(knn, "FEWEST_ROWS", 1)
    assert_farthest(run(features, labels, 4, npos), features, 4, npos)


@pytest.mark.parametrize("budget", [1, 100, 1000, 10**7])
@pytest.mark.parametrize("per_class", [True, False])
def test_the_chunk_budget_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, budget: int, per_class: bool
) -> None:
    npos = replace(SMALL, per_class=per_class)
    features, labels = task(classes=3, per_class=20, width=12)
    expected = run(features, labels, 3, npos)
    monkeypatch.setattr(knn, "CHUNK_ELEMENTS", budget)
    monkeypatch.setattr(knn, "FEWEST_ROWS", 1)
    torch.testing.assert_close(run(features, labels, 3, npos), expected, rtol=0, atol=0)


@settings(max_examples=80, deadline=None)
@given(
    per_class=st.integers(5, 60),
    width=st.integers(8, 24),
    k=st.integers(3, 30),  # two that are nearest to each other are equally far
    columns=st.integers(1, 100),
    at_once=st.integers(24, 999),
    switches=st.sampled_from(SWITCHES),
    in_memory=st.sampled_from([0, 2000, 10**9]),
    kept=st.sampled_from([0, 10**9]),
)
def test_many_small_blocks_and_files(
    per_class: int,
    width: int,
    k: int,
    columns: int,
    at_once: int,
    switches: tuple[bool, str, bool],
    in_memory: int,
    kept: int,
) -> None:
    """As if memory were tiny: every limit is forced down, and features go to files."""
    add_boundary, space, self_neighbor = switches
    npos = replace(
        SMALL, k=k, add_boundary=add_boundary, space=space, self_neighbor=self_neighbor, sigma=0.7
    )
    features, labels = task(3, per_class, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundary, "FEW_POINTS", 30)
        patch.setattr(knn, "COLUMNS", columns)
        patch.setattr(knn, "CHUNK_ELEMENTS", 500)
        patch.setattr(knn, "FEWEST_ROWS", 3)
        patch.setattr(npos_module, "KEPT_TABLES", kept)
        patch.setattr(npos_module, "NEAR_TERMS", 300)
        patch.setattr(npos_module, "SCORED", 3 * k)
        patch.setattr(store, "AT_ONCE", at_once)
        patch.setattr(store, "IN_MEMORY", in_memory)
        outliers = run(store.whole(store.collected([features])), labels, 3, npos)
    assert_farthest(outliers, features, 3, npos)


def released_steps(features: Tensor, select: int, wanted: int, npos: Npos) -> tuple[Tensor, Tensor]:
    """What the released code does, by faiss: the boundary is found, and only its size is used."""
    index = faiss.IndexFlatL2(features.shape[1])
    index.add(F.normalize(features).numpy())
    candidates = draw(features, npos).repeat(select, 1)
    squares, _ = index.search(candidates.numpy(), npos.k)
    top = torch.from_numpy(squares[:, -1]).topk(wanted)
    return candidates[top.indices], top.values


def test_released_preset_gives_sixteen_vectors_two_hundred_times() -> None:
    """At the paper's alpha = 10, beta = 160, K = 100 and 20 classes, as the released code does."""
    features, labels = task(classes=20, per_class=12, width=16)
    outliers = run(features, labels, 20, RELEASED)
    expected, squares = released_steps(features, select=200, wanted=3200, npos=RELEASED)
    distinct, counts = outliers.unique(dim=0, return_counts=True)
    assert counts.tolist() == [200] * 16
    torch.testing.assert_close(distinct, expected.unique(dim=0), rtol=0, atol=0)
    ours = kth(outliers, F.normalize(features), RELEASED.k).square().float()
    torch.testing.assert_close(ours, squares, rtol=1e-5, atol=0)  # in order of distance
    assert (ours.diff() <= 0).all()


@pytest.mark.slow
def test_twenty_times_faster_than_brute_force() -> None:
    """The size of a ten-task ImageNet-R task: 2400 features, 120,000 candidates, one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    features, labels = task(classes=20, per_class=120, width=768)
    start = time.perf_counter()
    run(features, labels, 20, Npos())
    ours = time.perf_counter() - start
    index = faiss.IndexFlatL2(768)
    index.add(features.numpy())
    candidates = features[:200, None] + draw(features, Npos())
    start = time.perf_counter()
    index.search(candidates.flatten(0, 1).numpy(), 100)
    brute = time.perf_counter() - start
    torch.set_num_threads(threads)
    assert brute > 20 * ours
