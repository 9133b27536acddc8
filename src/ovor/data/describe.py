"""What can be read of the paper's data sets on this machine, and what to get for the rest."""

from dataclasses import dataclass
from pathlib import Path

from ovor.config import OvorError
from ovor.data.datasets import DATASETS, SOURCES


@dataclass(frozen=True)
class Description:
    name: str
    looked: tuple[Path, ...]
    found: Path | None
    problem: str
    """why it cannot be used although something was found; empty if it can"""
    advice: str
    """what to get, from whom, and where it must lie"""


def describe() -> tuple[Description, ...]:
    """Every data set of the paper; those found are read as a run would read them."""
    return tuple(_describe(name) for name in SOURCES)


def _describe(name: str) -> Description:
    source = SOURCES[name]
    found = next((place for place in source.looked() if place.exists()), None)
    problem = ""
    if found:
        try:
            DATASETS[name]()
        except OvorError as error:
            problem = str(error)
    return Description(name, source.looked(), found, problem, source.advice())
