"""What a program should know of what it asked for, said as Python says such things: by warnings."""

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

PACKAGE = __name__.partition(".")[0]


def tell(notes: Iterable[str]) -> None:
    """Warn of every note, at the line outside of this package that asked."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    for note in notes:
        warnings.warn(note, stacklevel=level)


def about_labels(labels: Sequence[Any] | None) -> list[str]:
    """Say that numbers become names, which scikit-learn's scores do not take for the same."""
    other = next((label for label in labels or () if not isinstance(label, str)), None)
    if other is None:
        return []
    return [
        f"Classes have names: the label {other} becomes the text {str(other)!r}, and predict says "
        "that; to compare it with labels of your own, make them text too (y.astype(str))."
    ]
