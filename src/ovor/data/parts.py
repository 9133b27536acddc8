"""Which part of a data set is meant where images lie in folders `train` and `test`.

A class may be called so too. Folders of those names are parts if they hold class folders and there
is no other class beside them; whichever it was is said.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Literal

from ovor.data.class_names import listed
from ovor.errors import OvorError

Part = Literal["train", "test"]
Holds = Literal["classes", "images", "nothing"]  # what is in a folder
NAMES: dict[Part, tuple[str, ...]] = {  # the first that is there is taken
    "train": ("train", "training"),
    "test": ("test", "testing", "val", "valid", "validation"),
}
ALL = {name for names in NAMES.values() for name in names}


def is_part(name: str) -> bool:
    """Tell whether a folder's name may be that of a part of a data set."""
    return name.casefold() in ALL


def chosen_part(
    where: object, holds: Mapping[str, Holds], part: Part
) -> tuple[str | None, list[str]]:
    """Return the folder that is meant, or None if the folders are classes; and what to say.

    `holds` says of every folder what is in it.
    """
    named = [name for name in holds if is_part(name)]
    others = [name for name, held in holds.items() if held != "nothing" and not is_part(name)]
    if not any(holds[name] == "classes" for name in named):
        return None, [f"{_as_classes(named)}: no class folders are inside."]
    if others:
        return None, [f"{_as_classes(named)}: there are others beside, {listed(others)}."]
    own = wanted(named, part)
    if own is None:
        raise OvorError(
            f"{where} has {listed(named)}, by the name and the folders inside part of a data set, "
            f"and no part {part!r}: give what you mean alone, or {_as_label(named[0])}."
        )
    rest = [name for name in named if name != own]
    left = f", and left out {listed(rest)}" if rest else ""
    note = f"Took the part {own!r} of {where}, whose folders are the classes{left}"
    if not rest:  # no other part beside it: it may be a class with folders inside
        note += f"; or {_as_label(own)}"
    return own, [f"{note}."]


def mixed(paths: Iterable[PurePath]) -> list[str]:
    """Point out folders for testing inside class folders; paths begin with the class."""
    inside = {path.parts[1] for path in paths if len(path.parts) > 2}
    named = sorted(name for name in inside if name.casefold() in NAMES["test"])
    return [
        f"Careful: images in {listed(named)} of a class count as its own; if they are for testing, "
        "move them out."
    ] * bool(named)


def wanted(names: list[str], part: Part) -> str | None:
    """Return which of the names is that of the part, if one is."""
    by_name = {name.casefold(): name for name in names}
    return next((by_name[name] for name in NAMES[part] if name in by_name), None)


def _as_label(name: str) -> str:
    return f"if {name!r} is a class itself, give its folder alone with the label {name!r}"


def _as_classes(named: list[str]) -> str:
    return f"Took {listed(named)} as {'a class' if len(named) == 1 else 'classes'}"
