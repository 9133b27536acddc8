"""The fast search for outliers against Algorithm 2 written plainly (`ovor.outliers.npos`), and the
preset of the released code against faiss."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import faiss
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from outlier_checks import (
    SEED,
    assert_farthest,
    boundary_is_clear,
    clusters,
    limits,
    longest,
    rounding,
    run,
)
from ovor.config import Npos
from ovor.outliers import npos, synthesize
from ovor.outliers.feature_buffer import collected, whole

SMALL = Npos(alpha=4, beta=9, k=6, noise=25, shuffle=False)
RELEASED = Npos(add_boundary=False, space="mixed", self_neighbor=True, shuffle=False)
SWITCHES = [
    {"add_boundary": add_boundary, "space": space, "self_neighbor": self_neighbor}
    for add_boundary, space, self_neighbor in product(
        [True, False], ["raw", "unit", "mixed"], [True, False]
    )
]


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("beta", [9, 100])  # 100: all candidates, and so the whole boundary
def test_every_switch(beta: int, switches: dict[str, bool | str]) -> None:
    settings = replace(SMALL, beta=beta, sigma=0.7, **switches)
    features = clusters(60, 12, seed=1)
    outliers = run(features, 3, settings)
    assert_farthest(outliers, features, 3, settings)
    plain = npos.synthesize(features, 3, settings, torch.Generator().manual_seed(SEED))
    assert_farthest(plain, features, 3, settings)


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_same_outliers_in_the_same_order(shuffle: bool) -> None:
    """Noise and order are drawn alike; the distances are farther apart than rounding moves them."""
    settings, features = replace(SMALL, alpha=1, noise=9, shuffle=shuffle), clusters(60, 12)
    plain, fast = (
        found(features, 1, settings, torch.Generator().manual_seed(SEED))
        for found in (npos.synthesize, synthesize)
    )
    distances = npos.delta(plain.double(), features.double(), settings.k)
    reach = 2 * longest(features - features.mean(0)) + longest(plain - features.mean(0))
    assert distances.square().sort().values.diff().min() > 2 * rounding(12, reach)
    assert torch.equal(fast, plain)


def test_half_a_boundary_sample_a_class_is_one_for_two() -> None:
    settings, features = replace(SMALL, alpha=2.5, beta=1000, noise=3), clusters(20, 8)
    outliers = run(features, 2, settings)
    assert len(outliers) == 5 * 3
    assert_farthest(outliers, features, 2, settings)


@pytest.mark.parametrize("images", [1, 2, 3, 5, 11])
@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
@pytest.mark.parametrize("add_boundary", [True, False])
def test_fewer_images_than_asked_for(images: int, space: str, add_boundary: bool) -> None:
    settings = replace(SMALL, alpha=20, k=50, space=space, add_boundary=add_boundary)
    features = clusters(images, 8)
    assert_farthest(run(features, 2, settings), features, 2, settings)


@pytest.mark.parametrize("add_boundary", [True, False])
def test_all_candidates_when_more_are_wanted(add_boundary: bool) -> None:
    settings = replace(SMALL, beta=1000, noise=7, add_boundary=add_boundary)
    features = clusters(20, 8)
    outliers = run(features, 2, settings)
    assert len(outliers) == settings.alpha * 2 * 7
    assert_farthest(outliers, features, 2, settings)


@pytest.mark.parametrize("space", ["raw", "unit"])
def test_features_far_from_the_origin(space: str) -> None:
    """A common offset makes the expanded square cancel; it must not change who is chosen."""
    settings = replace(SMALL, space=space)
    features = clusters(60, 12) + (1000 if space == "raw" else 30)
    assert_farthest(run(features, 3, settings), features, 3, settings)


@pytest.mark.parametrize("chunk", [1, 100, 40 * 160, 2**20])
def test_bounds_prune_nothing_that_counts(chunk: int) -> None:
    """Thousands of candidates and few kept: where pruning has the most to get wrong."""
    settings = replace(SMALL, alpha=6, beta=10, noise=150, k=5)
    features = clusters(160, 24)
    with limits(CHUNK_ELEMENTS=chunk, FEWEST_ROWS=1):
        assert_farthest(run(features, 4, settings), features, 4, settings)


@settings(max_examples=80, deadline=None)
@given(
    size=st.integers(1, 200),
    width=st.integers(8, 24),
    k=st.integers(1, 30),
    columns=st.integers(1, 120),
    at_once=st.integers(24, 999),
    beta=st.sampled_from([9, 100]),
    switches=st.sampled_from(SWITCHES),
    kept=st.sampled_from([0, 10**9]),
    seed=st.integers(0, 99),
)
def test_many_small_blocks_in_memory_and_in_files(
    size: int,
    width: int,
    k: int,
    columns: int,
    at_once: int,
    beta: int,
    switches: dict[str, bool | str],
    kept: int,
    seed: int,
) -> None:
    """As if memory were tiny, every limit being forced down; a file changes no bit."""
    settings = replace(SMALL, k=k, beta=beta, sigma=0.7, **switches)
    features = clusters(size, width, seed)
    assume(boundary_is_clear(features, 3, settings))
    tables = {"KEPT_TABLES": kept, "NEAR_TERMS": 300, "MEASURED": 3 * k, "COLUMNS": columns}
    chunks = {"AT_ONCE": at_once, "CHUNK_ELEMENTS": 500, "FEWEST_ROWS": 3}
    with limits(FEW_POINTS=30, SAMPLE=30, **tables, **chunks):
        in_memory = run(features, 3, settings)
        with limits(IN_MEMORY=0):
            in_a_file = run(whole(collected([features])), 3, settings)
    assert torch.equal(in_a_file, in_memory)
    assert_farthest(in_memory, features, 3, settings)


@pytest.mark.parametrize("space", ["raw", "unit", "mixed"])
@pytest.mark.parametrize("columns", [64, 1000, 4096])
def test_larger_blocks(space: str, columns: int, tmp_path: Path) -> None:
    settings = Npos(alpha=10, beta=20, k=20, noise=100, space=space, shuffle=False)
    features, generator = clusters(1500, 48, seed=1), torch.Generator().manual_seed(SEED)
    tiny = {"KEPT_TABLES": 10**5, "IN_MEMORY": 10**5, "AT_ONCE": 10**4}
    with limits(COLUMNS=columns, FEW_POINTS=500, **tiny):
        found = synthesize(features, 5, settings, generator, tmp_path)
    assert_farthest(found, features, 5, settings)
    assert list(tmp_path.iterdir()) == []


def released_steps(features: Tensor, select: int, wanted: int) -> tuple[Tensor, Tensor]:
    """Return the outliers of the released code and their squared distances, by faiss: it finds the
    boundary, and then uses its size alone."""
    index = faiss.IndexFlatL2(features.shape[1])
    index.add(F.normalize(features).numpy())
    noise = npos.draw_noise(RELEASED, features.shape[1], torch.Generator().manual_seed(SEED))
    candidates = noise.repeat(select, 1)
    squares, _ = index.search(candidates.numpy(), RELEASED.k)
    top = torch.from_numpy(squares[:, -1]).topk(wanted)
    return candidates[top.indices], top.values


def test_released_preset_gives_sixteen_vectors_two_hundred_times() -> None:
    """At the paper's alpha = 10, beta = 160, K = 100 and 20 classes, as the released code does."""
    features = clusters(240, 16)
    outliers = run(features, 20, RELEASED)
    expected, squares = released_steps(features, select=200, wanted=3200)
    distinct, counts = outliers.unique(dim=0, return_counts=True)
    assert counts.tolist() == [200] * 16
    assert torch.equal(distinct, expected.unique(dim=0))
    ours = npos.delta(outliers.double(), F.normalize(features.double()), RELEASED.k).square()
    error = rounding(16, 1 + longest(outliers))
    torch.testing.assert_close(ours, squares.double(), rtol=0, atol=2 * error)  # in this order
