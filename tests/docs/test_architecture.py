"""What the documents say of the tree is what the tree is."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from docs import architecture

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/ovor"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
LAYERS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
][0]["layers"]


def part_of(path: Path) -> str:
    """Return the package or module right below ovor that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the parts of ovor that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("ovor.")}
    return found & {part_of(file) for file in SOURCE.rglob("*.py")}


def imports_of(parts: set[str]) -> set[str]:
    files = [file for file in SOURCE.rglob("*.py") if part_of(file) in parts]
    assert files
    return set().union(*(imported(file) for file in files)) - parts


def rows() -> list[tuple[list[str], ...]]:
    """Return CONTRIBUTING's table: the parts in the first column, and those in the last."""
    table = re.findall(r"^\| (`[^|]*) \|[^|]*\| ([^|]*) \|$", CONTRIBUTING, re.MULTILINE)
    return [tuple(re.findall(r"`(\w+)", column) for column in row) for row in table]


@pytest.mark.parametrize(("parts", "known"), rows())
def test_a_part_knows_of_what_contributing_says(parts: list[str], known: list[str]) -> None:
    assert imports_of(set(parts)) == set(known)


def test_every_part_is_listed_once_and_has_a_layer() -> None:
    parts = {part_of(file) for file in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert sorted(name for named, _ in rows() for name in named) == sorted(parts)
    layered = {name.strip().removeprefix("ovor.") for layer in LAYERS for name in layer.split("|")}
    assert layered == parts


@pytest.mark.parametrize(
    "module", sorted({m for way in architecture.WAYS.values() for m, _ in way})
)
def test_the_picture_shows_modules_that_exist(module: str) -> None:
    assert (SOURCE / module).is_file()


def test_the_picture_is_the_one_that_is_drawn() -> None:
    assert architecture.PICTURE.read_text() == architecture.draw()
