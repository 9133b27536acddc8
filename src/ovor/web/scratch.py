"""The place on the disk for what clients send, until it is used."""

import logging
import os
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from ovor.web.errors import Refused

PREFIX, LOCK = "ovor-serve-", "lock"  # of scratch folders
log = logging.getLogger("ovor.web")


class Scratch:
    """A private folder for the images of lessons, gone with the server whatever ends it.

    A lock in it tells the next server whether its owner lives, or was killed and left it behind.
    """

    def __init__(self) -> None:
        remove_abandoned(Path(tempfile.gettempdir()))
        self.make()

    def make(self) -> None:
        """Make the folder, for this user alone (0700)."""
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.lock = FileLock(self.path / "new")
        self.lock.acquire()
        os.rename(self.path / "new", self.path / LOCK)  # now others can find it, and it is held

    def folder(self) -> Path:
        """Return a new folder in it; if somebody has removed it all, make it again."""
        try:
            return Path(tempfile.mkdtemp(dir=self.path))
        except OSError:
            return self.made_again()

    def made_again(self) -> Path:
        """Return a new folder after the old ones were removed under the server."""
        self.lock.release()
        try:
            Path(tempfile.gettempdir()).mkdir(0o700, parents=True, exist_ok=True)
            self.make()
            log.warning("the temporary folder was removed: it is made again")
            return Path(tempfile.mkdtemp(dir=self.path))
        except OSError as error:
            log.error("the temporary folder cannot be made again: %s", error)
            raise Refused(
                503,
                f"The server has no place for what is sent to it ({error.strerror}): tell who "
                "runs it.",
                retry_after=60,
            ) from error

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.release()


def remove_abandoned(place: Path) -> None:
    """Remove the scratch folders of this user's servers that were killed."""
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
