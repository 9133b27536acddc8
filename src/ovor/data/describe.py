"""What can be read of the paper's data sets on this machine, and what to get for the rest."""

from dataclasses import dataclass
from pathlib import Path

from ovor.data.datasets import SOURCES, load_dataset, unreadable
from ovor.errors import OvorError


@dataclass(frozen=True)
class Description:
    name: str
    looked: tuple[Path, ...]
    found: Path | None
    problem: str
    """why it cannot be used although something is there; empty if it can, or if nothing is"""
    advice: str
    """what to get, from whom, and where it must lie"""


def describe() -> tuple[Description, ...]:
    """Every data set of the paper; those found are read as a run would read them."""
    return tuple(_describe(name) for name in SOURCES)


def _describe(name: str) -> Description:
    source = SOURCES[name]
    found, problem = None, ""
    try:
        found = source.found()
        if found:
            load_dataset(name)
    except OvorError as error:
        problem = str(error)
    except OSError as error:
        problem = str(unreadable(error, name))
    return Description(name, source.looked(), found, problem, source.advice())
