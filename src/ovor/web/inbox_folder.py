"""The inbox on the disk (`--inbox FOLDER`): images under names of our own, and a list of them."""

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ovor.atomic import write_atomically
from ovor.data.modality import WORDS, Words
from ovor.errors import OvorError, one_line

NAME = re.compile(r"[0-9a-f]{32}")  # of a file: never what a client calls it
KIND = "reads"  # a file that says what is kept there, if it is not images
LIST = "inbox.json"  # what clients call the images, the oldest first
log = logging.getLogger("ovor.web")


@dataclass(frozen=True)
class InboxFolder:
    """A folder that one server at a time keeps its inbox in."""

    path: Path
    lock: FileLock
    words: Words

    @classmethod
    def opened(cls, path: Path, words: Words) -> "InboxFolder":
        """Return the folder, made if it is not there, or say why it cannot be used."""
        try:
            path.mkdir(0o700, exist_ok=True)
            lock = FileLock(path / ".lock")
            lock.acquire(timeout=0)
        except Timeout:
            raise OvorError(
                f"Another server keeps its inbox in {path}: give another folder by --inbox."
            ) from None
        except OSError as error:
            raise OvorError(
                f"{path} cannot keep the inbox ({error.strerror}): give a folder by --inbox."
            ) from error
        found = cls(path, lock, words)
        found.check_kind()
        return found

    def check_kind(self) -> None:
        """Refuse a folder of images for texts, and the reverse: what cannot be read would go."""
        try:
            kept = (self.path / KIND).read_text("utf-8", "replace").strip()
        except OSError:
            kept = next(iter(WORDS)) if self.names() else self.words.many
        if kept != self.words.many:
            self.close()
            raise OvorError(
                f"The inbox in {self.path} is of {one_line(kept)[:50]}, and this model reads "
                f"{self.words.many}: give another folder by --inbox."
            )
        if kept != next(iter(WORDS)):
            write_atomically(self.path / KIND, kept.encode())

    def close(self) -> None:
        self.lock.release()

    def names(self) -> dict[str, str]:
        """Return what clients called the images that are there, by id, the oldest first."""
        try:
            listed = json.loads((self.path / LIST).read_text("utf-8"))
            said = {str(key): one_line(str(name))[:200] for key, name in dict(listed).items()}
        except (OSError, ValueError, TypeError):  # made by nobody, or not by us
            said = {}
        files = {
            path.name: path.stat().st_mtime
            for path in self.path.iterdir()
            if NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink()
        }
        later = sorted((key for key in files if key not in said), key=files.__getitem__)
        return {key: said.get(key, self.words.one) for key in (*said, *later) if key in files}

    def put(self, key: str, content: bytes) -> Path:
        """Write an image."""
        path = self.path / key
        write_atomically(path, content)
        return path

    def remove(self, key: str) -> None:
        (self.path / key).unlink(missing_ok=True)

    def write_list(self, names: dict[str, str]) -> None:
        """Write what clients call the images."""
        write_atomically(self.path / LIST, json.dumps(names).encode())
