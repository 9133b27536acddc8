"""Images or texts and labels in columns of a data frame: pandas, Polars or Arrow, none is needed.

The columns are called as in a table on disk; images may be paths, bytes, arrays or Pillow images.
"""

from collections.abc import Mapping
from typing import Any

from ovor.data.class_names import listed
from ovor.data.parts import Part, wanted
from ovor.data.tables import IMAGE_PATHS, PARTS, Sought
from ovor.errors import OvorError


def is_frame(source: object) -> bool:
    """Tell a data frame from anything else by what all of them have."""
    return hasattr(source, "columns") and hasattr(source, "__getitem__")


def images_in(frame: Any, sought: Sought = IMAGE_PATHS) -> list[Any]:
    """Return the column of images; if there is one column only, that is it."""
    names = column_names(frame)
    return values(
        frame, names[0] if len(names) == 1 else chosen(names, sought.names, f"{sought.item}s")
    )


def labelled_in(
    frame: Any, part: Part, sought: Sought = IMAGE_PATHS
) -> tuple[list[tuple[Any, Any]], list[str]]:
    """Return images with their labels, and what to say; by a column `split` the rows of a part."""
    names = column_names(frame)
    labels = values(frame, chosen(names, sought.labels, "labels"))
    items = values(frame, chosen(names, sought.names, f"{sought.item}s"))
    pairs = list(zip(items, labels, strict=True))
    split = next((name for name in names if name.casefold() in PARTS), None)
    if split is None:
        return pairs, []
    parts = [str(value).strip().casefold() for value in values(frame, split)]
    own = wanted(sorted(set(parts)), part)
    if own is None:
        raise OvorError(
            f"The column {split!r} says {listed(sorted(set(parts)))}, and none is {part!r}: "
            "correct it, or leave it out."
        )
    note = f"Took the rows of which the column {split!r} says {own!r}."
    return [pair for pair, said in zip(pairs, parts, strict=True) if said == own], [note]


def column_names(frame: Any) -> list[str]:
    """Return the columns' names; Arrow has the columns themselves where others have those."""
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def chosen(names: list[str], known: tuple[str, ...], what: str) -> str:
    """Return the column of images or labels by its name."""
    here = [name for name in names if name.strip().casefold() in known]
    if not here:
        raise OvorError(
            f"The data frame has no column of {what}: call one of its columns {known[0]!r} (it has "
            f"{listed(names)})."
        )
    if len(here) > 1:
        raise OvorError(
            f"The data frame has the columns {listed(here)}, and either may be the {what}: leave "
            "one out."
        )
    return here[0]


def values(frame: Any, name: str) -> list[Any]:
    """Return the cells of a column as Python has them."""
    column = frame[name]
    cells = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [_content(cell) for cell in cells]


def _content(cell: Any) -> Any:
    """Return what a cell holds; Hugging Face's images are {"bytes": …, "path": …}."""
    if isinstance(cell, Mapping) and {"bytes", "path"} <= cell.keys():
        return cell["bytes"] or cell["path"]
    return cell
