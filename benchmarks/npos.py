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
from ovor.outliers.npos import boundary_size, delta, draw_noise

CLASSES, WIDTH, SEED = 20, 768, 0
PAPER = 2_400  # features of one of ten tasks of ImageNet-R
NPOS = Npos()


def measure(quick: bool) -> Iterator[Row]:
    if quick:  # a quarter of the candidates, and without a target
        yield from against_brute_force(replace(NPOS, noise=150), rounds=1, at_least=None)
    else:
        yield from against_brute_force(NPOS, rounds=3, at_least=20)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        extra = fresh.submit(extra_memory).result()
    yield Row(f"NPOS, {PAPER:,} features: extra memory", "", (extra,), "MB", at_most=300)
    yield from growth(20_000 if quick else 100_000, rounds=1 if quick else 3)


def task(count: int) -> Tensor:
    """Return features of classes of unequal spread, in a space where few directions have most of
    the variance, like the features of a ViT."""
    generator = torch.Generator().manual_seed(SEED)
    labels = torch.arange(count) % CLASSES
    scale = torch.arange(1, WIDTH + 1).pow(-0.5)
    scale /= scale.square().mean().sqrt()
    centers = torch.randn(CLASSES, WIDTH, generator=generator)
    spread = 0.5 + torch.rand(CLASSES, 1, generator=generator)
    scatter = torch.randn(count, WIDTH, generator=generator).mul_(spread[labels])
    return scatter.add_(centers[labels]).mul_(scale)


def run(features: Tensor, npos: Npos) -> Tensor:
    return synthesize(features, CLASSES, npos, torch.Generator().manual_seed(SEED))


def brute_force(features: Tensor, npos: Npos) -> tuple[Tensor, Tensor]:
    """Return the outliers of Alg. 2 as one would write it with faiss, and their least distance."""
    noise = draw_noise(npos, WIDTH, torch.Generator().manual_seed(SEED))
    index = faiss.IndexFlatL2(WIDTH)
    index.add(features.numpy())
    squares, _ = index.search(features.numpy(), npos.k + 1)  # the nearest is the feature itself
    boundary = torch.from_numpy(squares[:, -1]).topk(boundary_size(npos, CLASSES)).indices
    candidates = (features[boundary, None] + noise).flatten(0, 1)
    found = [
        index.search(batch.numpy(), npos.k)[0][:, -1] for batch in torch.split(candidates, 10_000)
    ]
    top = torch.cat([torch.from_numpy(squares) for squares in found]).topk(npos.beta * CLASSES)
    return candidates[top.indices], top.values[-1].sqrt()


def against_brute_force(npos: Npos, rounds: int, at_least: float | None) -> Iterator[Row]:
    features = task(PAPER)
    outliers: dict[str, Tensor] = {}
    least = torch.tensor(0.0)

    def ours() -> None:
        outliers["ours"] = run(features, npos)

    def brute() -> None:
        nonlocal least
        outliers["faiss"], least = brute_force(features, npos)

    seconds = interleave({"ours": ours, "faiss": brute}, rounds)
    only_ours = without(outliers["ours"], outliers["faiss"])
    assert len(outliers["ours"]) == len(outliers["faiss"])
    distances = delta(only_ours.double(), features.double(), npos.k)
    assert (distances > least * (1 - 1e-5)).all(), "not the same"
    name, other = f"NPOS, {PAPER:,} features x {npos.noise} noises", "brute force with faiss"
    speed = ratios(seconds, slow="faiss", fast="ours")
    yield Row(f"{name}: speed", other, speed, at_least=at_least)
    same = 100 * (1 - len(only_ours) / len(outliers["ours"]))
    yield Row(f"{name}: same outliers", other, (same,), "%")


def without(outliers: Tensor, others: Tensor) -> Tensor:
    """Return the outliers that are not among the others."""
    known = {row.tobytes() for row in others.numpy()}
    return outliers[[row.tobytes() not in known for row in outliers.numpy()]]


def extra_memory() -> float:
    """Return the MB by which a process grows at most during a synthesis."""
    features = task(PAPER)
    run(features[:100], replace(NPOS, k=5, noise=5))
    before = resident("VmRSS")
    run(features, NPOS)
    return resident("VmHWM") - before


def growth(count: int, rounds: int) -> Iterator[Row]:
    many, few = task(count), task(count // 10)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a grid
    variants = {"many": lambda: run(many, NPOS), "few": lambda: run(few, NPOS)}
    seconds = interleave(variants, rounds, time.process_time)
    torch.set_num_threads(threads)
    yield Row(
        f"NPOS, {count:,} features: cost",
        f"{count // 10:,} features",
        ratios(seconds, slow="many", fast="few"),
        at_most=12,
    )
