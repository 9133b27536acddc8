"""Files that are there whole or not at all. No torch here: the command line begins with it."""

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, flush to disk, then rename over it."""
    if path.is_symlink():  # it stays one
        path = Path(os.path.realpath(path))
    beside = path.with_name(path.name + ".tmp")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.filename:
            error.filename = str(path)  # the name that people know
        raise
