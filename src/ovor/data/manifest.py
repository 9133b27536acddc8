"""manifest.json beside shards: class names, which shards train and which test, where labels are."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from ovor.errors import OvorError, explain

NAME = "manifest.json"
STRICT = ConfigDict(extra="forbid", strict=True)
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class Splits:
    """Shards as names, globs and brace ranges, relative to the manifest."""

    train: Patterns
    test: Patterns


@dataclass(frozen=True, config=STRICT)
class Manifest:
    classes: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """names by label, in the order that seed 0 learns them; without them, the labels themselves"""
    splits: Splits | None = None
    """without them, the names of the shards tell"""
    label: Annotated[str, Field(pattern=r"^(cls|json:.+)$")] = "cls"
    """of every sample: its member .cls, or a field of its member .json, as in json:field"""
    image: str = ""
    """ending of the image where samples have several, such as jpg beside mask.png"""

    def __post_init__(self) -> None:
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise ValueError(f"the class {twice!r} is listed twice")


MANIFEST = TypeAdapter(Manifest)


def read_manifest(path: Path) -> Manifest:
    try:
        return MANIFEST.validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise OvorError(f"There is no manifest {path}: check the path.") from error
    except ValidationError as error:
        raise OvorError(
            f'{path} is no manifest of shards ({explain(error)}): write {{"classes": [...], '
            '"splits": {"train": [...], "test": [...]}, "label": "cls"}, of which all may be left '
            "out."
        ) from error
