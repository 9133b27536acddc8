"""A private folder for images on their way into a lesson, gone with the server whatever ends it."""

import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "ovor-serve-"
LOCK = "lock"


class Scratch:
    """Held by a lock, so that the next server can tell it from one that a crash has left."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))  # for this user alone (0700)
        self.lock = FileLock(self.path / "new")
        self.lock.acquire()
        os.rename(self.path / "new", self.path / LOCK)  # only now can a sweep find it, and held

    def folder(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(mode=0o700)
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.release()


def sweep(place: Path) -> None:
    """Remove what servers of this user have left that were killed."""
    for path in place.glob(f"{PREFIX}*"):
        lock = path / LOCK
        try:
            own = path.lstat().st_uid == os.getuid()
            if path.is_symlink() or not own or not lock.is_file() or lock.is_symlink():
                continue
            held = FileLock(lock)
            held.acquire(timeout=0)
        except (OSError, Timeout):  # its server is alive, or it has just gone
            continue
        shutil.rmtree(path, ignore_errors=True)
        held.release()
