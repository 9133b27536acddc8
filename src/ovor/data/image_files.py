"""The files of images, or of texts, in a folder and below it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from ovor.data.formats import BY_SUFFIX, IMAGE_FILES, FileKind, with_kind
from ovor.errors import OvorError

HIDDEN = (".", "__MACOSX")  # folders; the latter comes of archives made on a Mac


def find_images(folder: Path, kind: FileKind = IMAGE_FILES) -> tuple[list[Path], list[Path]]:
    """List the image files in a folder and below it; and the other files, hidden ones among them.

    Links to folders are not followed, as they may lead in circles; what is no regular file, such as
    a pipe, is no image whatever its name.
    """
    found: list[Path] = []
    others: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse_closed):
        left = [n for n in folders if n.startswith(HIDDEN) or os.path.islink(f"{parent}/{n}")]
        others += [Path(parent, name) for name in left]
        folders[:] = [name for name in folders if name not in left]
        for name in names:
            path = Path(parent, name)
            (found if kind.has(name) and path.is_file() else others).append(path)
    return sorted(found), sorted(others)


def each_image(folder: Path, kind: FileKind = IMAGE_FILES) -> Iterator[Path | OvorError]:
    """Yield the image files that `find_images` lists, in its order, as they are found.

    A folder that cannot be read is an error in its place, and the others are found all the same.
    """
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield _closed(error)
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(HIDDEN):
                yield from each_image(Path(entry.path), kind)
        elif kind.has(entry.name) and entry.is_file():
            yield Path(entry.path)


def _refuse_closed(error: OSError) -> None:
    """Refuse a folder that may not be read, which `os.walk` would take for an empty one."""
    raise _closed(error) from error


def _closed(error: OSError) -> OvorError:
    return OvorError(
        f"The folder {error.filename} cannot be read ({error.strerror}): change its permissions, "
        "or remove it."
    )


def instead(others: Sequence[PurePath]) -> str:
    """Say, within a sentence about images that are missing, which files of another kind there are.

    Nothing is said where their names do not tell what they are.
    """
    told = [path for path in others if path.suffix.lower() in BY_SUFFIX]
    return f", where {with_kind(told[0])} is none" if told else ""
