"""The images that a command is given: files, folders with all below them, standard input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from ovor.data.image_files import each_image, find_images, instead
from ovor.data.images import at_home
from ovor.errors import OvorError

LOOKED_AHEAD = 500  # names by which columns are aligned
Found = tuple[str, Path | OvorError]  # an image as it is named, and where it is or why it is not


def image_paths(given: Sequence[str]) -> list[Path]:
    """Return where all images are, or raise what is wrong with one."""
    ahead, found = look_ahead(given)
    paths = []
    for _, place in (*ahead, *found):
        if isinstance(place, OvorError):
            raise place
        paths.append(place)
    return paths


def look_ahead(given: Sequence[str]) -> tuple[list[Found], Iterator[Found]]:
    """Return the first images, by which rows are aligned, and the others; refuse to have none.

    On standard input they may come slowly: of those it is the first.
    """
    found = find(given)
    ahead = list(islice(found, 1 if "-" in given else LOOKED_AHEAD))
    if not ahead:
        raise OvorError("There is no image given: give files or folders, or - and paths.")
    if len(given) == len(ahead) == 1 and isinstance(ahead[0][1], OvorError):
        raise ahead[0][1]  # nothing else was asked for
    return ahead, found


def find(given: Iterable[str]) -> Iterator[Found]:
    """Yield files as they are, folders with all images below them, - as standard input says."""
    for path in spelled_out(given):
        if not path.is_dir():
            yield str(path), path
            continue
        image: Path | OvorError | None = None
        for image in each_image(path):
            yield str(path if isinstance(image, OvorError) else image), image
        if image is None:
            held = instead(find_images(path)[1])
            yield str(path), OvorError(f"There is no image in {path}{held}: check the folder.")


def spelled_out(given: Iterable[str]) -> Iterator[Path]:
    """Yield the paths that are given, and in the place of a - those on standard input."""
    for text in given:
        if text != "-":
            yield at_home(text)
            continue
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # names need not be UTF-8
        lines = (line.rstrip("\r\n") for line in sys.stdin)
        yield from (Path(line) for line in lines if line.strip())
