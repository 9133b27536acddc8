"""Measuring side by side, on a machine that other work shares.

No absolute time is a claim. Variants run in turn, again and again, and each round gives one ratio;
of those, the median is reported, with the quartiles as its spread.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

Seconds = dict[str, list[float]]  # by variant, one per round


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure beside its target."""

    what: str
    against: str
    """what a ratio is to; empty if the figure is none"""
    samples: tuple[float, ...]
    """the figure of each round"""
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None
    wish: float | None = None
    """aimed at, as a lower bound, but not failed for"""

    @property
    def middle(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles; with fewer than four rounds, the extremes."""
        if len(self.samples) < 4:
            return min(self.samples), max(self.samples)
        low, _, high = quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def met(self) -> bool | None:
        """None without a target."""
        if self.at_least is None and self.at_most is None:
            return None
        low = self.at_least is None or self.middle >= self.at_least
        high = self.at_most is None or self.middle <= self.at_most
        return low and high


def interleave(
    variants: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    warm: Mapping[str, Callable[[], object]] | None = None,
) -> Seconds:
    """Seconds of each variant in each round, after one that does not count: of `warm`, or of all.

    Every other round goes backwards, so that none has always the same one before it. With the clock
    `time.process_time` other work does not count as ours: for what runs on one core.
    """
    seconds: Seconds = {name: [] for name in variants}
    gc.freeze()  # else each collection goes through all of torch, for longer than some variants
    for run in (variants if warm is None else warm).values():
        run()
    for number in range(rounds):
        for name in list(variants)[:: -1 if number % 2 else 1]:
            gc.collect()
            start = clock()
            variants[name]()
            seconds[name].append(clock() - start)
    gc.unfreeze()
    return seconds


def ratios(seconds: Seconds, slow: str, fast: str) -> tuple[float, ...]:
    """How many times as fast as `slow` the other was, round by round."""
    return tuple(s / f for s, f in zip(seconds[slow], seconds[fast], strict=True))
