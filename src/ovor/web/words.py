"""What clients may read of an error: a sentence without any path of this machine."""

import re
from pathlib import Path

from ovor.errors import OvorError, in_words, one_line

FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/'\":,;()]+/)+")  # of an absolute path


def for_clients(error: Exception, model: Path) -> str:
    """Return a sentence for who asked; the log says more to who runs the server."""
    if isinstance(error, OSError):
        return f"The server cannot do that now ({error.strerror}): tell who runs it."
    if isinstance(error, OvorError | MemoryError):
        return without_paths(in_words(error), model)
    return "This went wrong in the server, not in the request: its log says more."


def without_paths(text: str, model: Path) -> str:
    """Return a text with the names of files, and not of the folders that they are in."""
    return FOLDERS.sub("", one_line(text.replace(str(model), model.name)))
