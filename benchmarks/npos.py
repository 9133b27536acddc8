"""Outlier synthesis: against brute force at the paper's size, and its growth to many features."""

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import faiss
import torch
from torch import Tensor

from benchmarks.harness import Row, interleave, ratios
from benchmarks.memory import resident
from ovor.config import Npos
from ovor.outliers import synthesize
from ovor.outliers.exact_search import farthest_from_others, farthest_from_sample
from ovor.outliers.knn import kth_distance

CLASSES, WIDTH, SEED = 20, 768, 0
PAPER = 2_400  # features of one of ten tasks of ImageNet-R
NPOS = Npos()
SAMPLE = 2_000  # features that the approximation measures distances to


def measure(quick: bool) -> Iterator[Row]:
    if quick:  # a quarter of the candidates, and without a target
        yield from against_brute_force(replace(NPOS, noise=150), rounds=1, at_least=None)
    else:
        yield from against_brute_force(NPOS, rounds=3, at_least=20)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        extra = fresh.submit(extra_memory).result()
    yield Row(f"NPOS, {PAPER:,} features: extra memory", "", (extra,), "MB", at_most=300)
    yield from growth(20_000 if quick else 100_000, rounds=1 if quick else 3)


def task(count: int) -> tuple[Tensor, Tensor]:
    """Classes of unequal spread in a space where few directions have most of the variance, like
    the features of a ViT."""
    generator = torch.Generator().manual_seed(SEED)
    labels = torch.arange(count) % CLASSES
    scale = torch.arange(1, WIDTH + 1).pow(-0.5)
    scale /= scale.square().mean().sqrt()
    centers = torch.randn(CLASSES, WIDTH, generator=generator)
    spread = 0.5 + torch.rand(CLASSES, 1, generator=generator)
    scatter = torch.randn(count, WIDTH, generator=generator).mul_(spread[labels])
    return scatter.add_(centers[labels]).mul_(scale), labels


def run(features: Tensor, labels: Tensor, npos: Npos) -> Tensor:
    return synthesize(features, labels, CLASSES, npos, torch.Generator().manual_seed(SEED))


def brute_force(features: Tensor, npos: Npos) -> tuple[Tensor, Tensor]:
    """Alg. 2 as one would write it with faiss: all outliers, and the least of their distances."""
    generator = torch.Generator().manual_seed(SEED)
    noise = npos.sigma * torch.randn(npos.noise, WIDTH, generator=generator)
    index = faiss.IndexFlatL2(WIDTH)
    index.add(features.numpy())
    squares, _ = index.search(features.numpy(), npos.k + 1)  # the nearest is the feature itself
    boundary = torch.from_numpy(squares[:, -1]).topk(round(npos.alpha * CLASSES)).indices
    candidates = (features[boundary, None] + noise).flatten(0, 1)
    found = [
        index.search(batch.numpy(), npos.k)[0][:, -1] for batch in torch.split(candidates, 10_000)
    ]
    top = torch.cat([torch.from_numpy(squares) for squares in found]).topk(npos.beta * CLASSES)
    return candidates[top.indices], top.values[-1].sqrt()


def against_brute_force(npos: Npos, rounds: int, at_least: float | None) -> Iterator[Row]:
    features, labels = task(PAPER)
    outliers: dict[str, Tensor] = {}
    least = torch.tensor(0.0)

    def ours() -> None:
        outliers["ours"] = run(features, labels, npos)

    def brute() -> None:
        nonlocal least
        outliers["faiss"], least = brute_force(features, npos)

    seconds = interleave({"ours": ours, "faiss": brute}, rounds)
    only_ours = without(outliers["ours"], outliers["faiss"])
    assert len(outliers["ours"]) == len(outliers["faiss"])
    assert (kth_distance(only_ours, features, npos.k) > least * (1 - 1e-5)).all(), "not the same"
    name, other = f"NPOS, {PAPER:,} features x {npos.noise} noises", "brute force with faiss"
    speed = ratios(seconds, slow="faiss", fast="ours")
    yield Row(f"{name}: speed", other, speed, at_least=at_least)
    same = 100 * (1 - len(only_ours) / len(outliers["ours"]))
    yield Row(f"{name}: same outliers", other, (same,), "%")


def without(outliers: Tensor, others: Tensor) -> Tensor:
    known = {row.tobytes() for row in others.numpy()}
    return outliers[[row.tobytes() not in known for row in outliers.numpy()]]


def extra_memory() -> float:
    """MB that a process holds at most during a synthesis, more than before."""
    features, labels = task(PAPER)
    run(features[:100], labels[:100], replace(NPOS, k=5, noise=5))
    before = resident("VmRSS")
    run(features, labels, NPOS)
    return resident("VmHWM") - before


def growth(count: int, rounds: int) -> Iterator[Row]:
    features, labels = task(count)
    few, few_labels = task(count // 10)
    sampled = replace(NPOS, sample=SAMPLE)
    outliers: dict[str, Tensor] = {}

    def exact() -> None:
        outliers["exact"] = run(features, labels, NPOS)

    def approximate() -> None:
        outliers["approximate"] = run(features, labels, sampled)

    variants = {
        "exact": exact,
        "approximate": approximate,
        "few": lambda: run(few, few_labels, NPOS),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a grid
    seconds = interleave(variants, rounds, time.process_time)
    torch.set_num_threads(threads)
    yield Row(
        f"NPOS, {count:,} features: cost",
        f"{count // 10:,} features",
        ratios(seconds, slow="exact", fast="few"),
        at_most=12,
    )
    name = f"NPOS, {count:,} features, sample {SAMPLE:,}"
    found = len(outliers["exact"]) - len(without(outliers["exact"], outliers["approximate"]))
    yield Row(f"{name}: speed", "exact", ratios(seconds, slow="exact", fast="approximate"))
    yield Row(f"{name}: same boundary", "exact", (boundary_recall(features),), "%")
    yield Row(f"{name}: same outliers", "exact", (100 * found / len(outliers["exact"]),), "%")
    far = {name: kth_distance(x[:400], features, NPOS.k).mean() for name, x in outliers.items()}
    yield Row(f"{name}: distance", "exact", (100 * float(far["approximate"] / far["exact"]),), "%")


def boundary_recall(features: Tensor) -> float:
    """Share of the exact boundary that a sample finds too, in %."""
    count, k = round(NPOS.alpha * CLASSES), max(1, round(NPOS.k * SAMPLE / len(features)))
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(SEED))
    exact = farthest_from_others(features, NPOS.k, count)
    sampled = farthest_from_sample(features, order[:SAMPLE], k, count)
    return 100 * len(set(exact.tolist()) & set(sampled.tolist())) / count
