"""Where a model file may lie, and who may change it: one process at a time. No torch here, so that
the command line can look before it loads anything.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ovor.errors import OvorError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other process from changing the model at `path`, or say that one does."""
    check_place(path)
    real = real_path(path)
    lock = FileLock(real.parent / f".{real.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OvorError(
            f"Another process is changing {path}: wait until it is done, and try again."
        ) from None
    except OSError as error:
        raise OvorError(
            f"The folder of {path} cannot be written to ({error.strerror}): change its "
            "permissions, or put the model elsewhere."
        ) from error
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held, so that nobody else has it
        lock.release()


def checkpoint_of(path: Path) -> Path:
    """Return where a lesson for the model at `path` is kept while it goes on."""
    real = real_path(path)
    return real.parent / f"{real.name}.learning"


def check_finished(path: Path) -> None:
    """Refuse a model that a lesson of the command line was begun for and not ended."""
    if checkpoint_of(path).exists():
        raise OvorError(
            f"A lesson of {path.name} was begun on the command line and is unfinished: finish it "
            "first (ovor learn --resume), or throw it away (--restart)."
        )


def real_path(path: Path) -> Path:
    """Return the file that a link leads to: a model is one, by whatever name it is reached."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_place(path: Path) -> None:
    """Refuse a path where no model file can be written."""
    check_no_folder(path)
    parent = real_path(path).parent
    if not parent.is_dir():  # the lock would make it
        raise OvorError(f"There is no folder {parent}: make it first.")


def check_no_folder(path: Path) -> None:
    """Refuse a folder where a model file is meant."""
    if path.is_dir():
        raise OvorError(
            f"{path} is a folder: give the name of a model file, such as {path / 'model.ovor'}."
        )


class ReplacedError(OvorError):
    """Somebody else put another file in the model's place; what was done is beside it."""

    def __init__(self, path: Path, beside: Path) -> None:
        self.beside = beside
        super().__init__(
            f"{path.name} was replaced by somebody else in the meantime, and is left as it is now: "
            f"what was done here is beside it, in {beside.name}. Put that in its place, or do the "
            f"same again with {path.name} as it is now."
        )


def free_name(path: Path) -> Path:
    """Return a name beside the model that no file has, for what must not replace it."""
    real = real_path(path)
    names = (f"{real.stem}.mine{n or ''}{real.suffix}" for n in range(10_000))
    return next(place for name in names if not (place := real.with_name(name)).exists())
