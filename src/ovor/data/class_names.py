"""The one rule for class names: how they are written, which are refused, how they are listed."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from ovor.errors import UNPRINTABLE, OvorError

UNKNOWN = "unknown"  # what an image is called that is like no class that was learned


def as_name(text: str) -> str:
    """Write each accented letter as one character (NFC): some systems and keyboards make it two."""
    return unicodedata.normalize("NFC", text)


def folder_name(folder: Path) -> str:
    """Return the class name that a folder's name gives; refuse one that is not UTF-8."""
    try:
        folder.name.encode()
    except UnicodeEncodeError:
        shown = folder.name.encode("utf-8", "surrogateescape")
        raise OvorError(f"The folder {shown!r} has a name that is not UTF-8: rename it.") from None
    return as_name(folder.name)


def check_name(name: str, if_reserved: str, if_unreadable: str) -> None:
    """Refuse a name that means "no class", or that does not show on one line.

    The last two arguments are the advice that ends either sentence.
    """
    if name.strip().casefold() == UNKNOWN:
        raise OvorError(
            f"A class cannot be called {name!r}, which is the answer for images of no class: "
            f"{if_reserved}."
        )
    if not name.strip() or UNPRINTABLE.search(name):
        raise OvorError(
            f"A class cannot be called {name!r}, which cannot be read on one line: {if_unreadable}."
        )


def listed(names: Sequence[str]) -> str:
    """Quote the first five names for a sentence, and say if there are others."""
    return ", ".join(repr(name) for name in names[:5]) + (" and others" if len(names) > 5 else "")
