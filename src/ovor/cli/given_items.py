"""What a command is asked about: files, folders with all below them, standard input, texts."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from itertools import islice

from ovor.data.modality import Columns, Found, Item, Modality
from ovor.errors import OvorError

LOOKED_AHEAD = 500  # names by which columns are aligned


def given_items(given: Sequence[str], reads: Modality, columns: Columns) -> list[Item]:
    """Return all items, or raise what is wrong with one."""
    ahead, found = look_ahead(given, reads, columns)
    items = []
    for _, item in (*ahead, *found):
        if isinstance(item, OvorError):
            raise item
        items.append(item)
    return items


def look_ahead(
    given: Sequence[str], reads: Modality, columns: Columns = (None, None)
) -> tuple[list[Found], Iterator[Found]]:
    """Return the first items, by which rows are aligned, and the others; refuse to have none.

    On standard input they may come slowly: of those it is the first.
    """
    found = find(given, reads, columns)
    ahead = list(islice(found, 1 if "-" in given else LOOKED_AHEAD))
    if not ahead:
        raise OvorError(
            f"There is no {reads.one} on standard input, which - stands for: give one a line."
            if "-" in given
            else f"There is no {reads.one} given: give files or folders, or - and standard input."
        )
    alone = len(given) == len(ahead) == 1 and "-" not in given
    if alone and isinstance(ahead[0][1], OvorError):
        raise ahead[0][1]  # nothing else was asked for
    return ahead, found


def find(given: Iterable[str], reads: Modality, columns: Columns) -> Iterator[Found]:
    """Yield what is given, and in the place of a - what standard input says line by line."""
    for argument in given:
        if not argument.strip():  # such as a variable of the shell that is not set
            yield argument, OvorError(f"An empty {reads.one} is given: leave it out.")
            continue
        if argument != "-":
            yield from reads.asked(argument, columns)
            continue
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # names need not be UTF-8
        for number, line in enumerate(sys.stdin, 1):
            if line.strip():
                yield from reads.line(line.rstrip("\r\n"), f"Line {number} of standard input")
