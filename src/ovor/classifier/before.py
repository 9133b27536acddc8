"""A model file and its past: what it was before its last change, and whether it is still the one
that was read.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ovor.classifier.file import Model, read_model
from ovor.classifier.lock import real_path
from ovor.errors import OvorError


def before(path: Path) -> Path:
    """Return where the model at `path` is kept as it was before its last change."""
    real = real_path(path)
    return real.with_name(real.name + ".before")


@contextmanager
def keeping_before(path: Path) -> Iterator[str]:
    """Keep the file as it is beside itself, if what changes it succeeds; give its identity."""
    kept = before(path)
    beside = kept.with_name(kept.name + ".tmp")
    beside.unlink(missing_ok=True)
    try:
        os.link(real_path(path), beside)  # takes no space until the other one changes
    except OSError:
        shutil.copyfile(path, beside)
    try:
        yield fingerprint(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    beside.replace(kept)


def drop_before(path: Path) -> None:
    """Keep nothing of what the model was."""
    before(path).unlink(missing_ok=True)


def read_before(path: Path, expected: str) -> Model:
    """Return the model as it was before its last change, or say that it is not kept."""
    kept = before(path)
    unnamed = kept.with_name(kept.name + ".tmp")  # where a kill may have left it
    if unnamed.exists() and fingerprint(unnamed) == expected:
        kept = unnamed
    if not expected or not kept.exists() or fingerprint(kept) != expected:
        raise OvorError(
            f"Nothing is kept of {path} before its last change, so it cannot be undone: take "
            "back what it learned with `ovor unlearn`, or use a copy of your own."
        )
    return read_model(kept)


def fingerprint(path: Path) -> str:
    """Return a digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
