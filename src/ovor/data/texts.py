"""Labelled texts as people have them: tables, folders of .txt, zips, and what Python holds.

A str is a text itself, a Path the file of one, or a table or folder of many. Nobody needs more of a
text than a network reads, so of a huge file only the beginning is read.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from ovor.data.class_names import as_name, listed
from ovor.data.formats import (
    ADDRESS,
    HEAD,
    IMAGE_FILES,
    IMAGE_HEADS,
    TEXT_FILES,
    check_is_file,
    kind_of,
    missing,
    reason,
)
from ovor.data.frames import images_in, is_frame
from ovor.data.image_files import each_image, find_images
from ovor.data.images import IN_MEMORY, Content, at_home, settled
from ovor.data.labelled import (
    Groups,
    Labelled,
    Labels,
    by_packed_folders,
    from_folder,
    is_zip,
    rows_of_part,
    shown_files,
)
from ovor.data.memory import from_memory
from ovor.data.packed import Packed
from ovor.data.parts import Part
from ovor.data.sources import held
from ovor.data.tables import (
    ANY_TEXTS,
    IMAGE_PATHS,
    Named,
    Row,
    has_columns,
    is_path_column,
    is_table,
    may_hold,
    other_columns,
    read_table,
)
from ovor.errors import OvorError, with_article

READ = 2**20  # bytes of a file: more than any network here reads
QUOTED = 60  # characters of a text in a list or a sentence
SOMETHING = re.compile(r"[^\s\x00-\x1f\x7f\ufeff]")
Text = str | Path | Packed | Content


def read_texts(
    source: Any, labels: Labels | None, part: Part, columns: Named | None = (None, None)
) -> Labelled:
    """Return the texts of each class; of a data set in parts, those of this part.

    `columns` name those of a table that are meant, of texts and of labels; None where nobody can.
    """
    sought = ANY_TEXTS.by(columns)
    path = at_home(source) if isinstance(source, str | Path) and is_place(source) else None
    if path is None or not (labels is None or isinstance(labels, str)):
        if isinstance(source, str | Path) and labels is None:
            raise no_source(at_home(source))
        return from_memory(source, labels, part, spread_texts, sought)
    if isinstance(labels, str):
        return _all_as(labels, path, columns or (None, None))
    if path.is_dir():
        return from_folder(path, part, TEXT_FILES)
    if is_zip(path):
        return from_zip(path, part, columns)
    if is_table(path.name):
        rows = read_table(content_of(path), path, path.suffix.lower(), sought)
        return by_rows(rows, path, part)
    if TEXT_FILES.has(path.name):
        raise OvorError(f'{path} is one text: say what it is of (labels="CLASS").')
    raise no_source(path)


def no_source(path: Path) -> OvorError:
    if ADDRESS.match(str(path)):
        return missing(path)
    return OvorError(
        f"{path} {held(path)}: give a table of texts and labels (.csv, .tsv, .jsonl), a folder "
        "with one folder of .txt files per class in it, or a zip of either."
    )


def is_place(text: str | Path) -> bool:
    """Tell whether there is a file or a folder of this name; most texts are too long for one."""
    try:
        return at_home(text).exists()
    except (OSError, ValueError):
        return False


def content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OvorError(f"{path} cannot be read ({error.strerror}): check the path.") from error


def by_rows(rows: list[Row], name: object, part: Part | None) -> Labelled:
    """Group the texts of a table by their labels; two people may have written the same."""
    rows, notes = rows_of_part(rows, name, part)
    groups: Groups = {}
    labels: dict[str, set[str]] = {}
    for row in rows:
        label = as_name(row.label)
        groups.setdefault(label, []).append(in_line(row, name))
        if row.item:
            labels.setdefault(row.item, set()).add(label)
    torn = [text for text, own in labels.items() if len(own) > 1]
    if torn:
        notes.append(
            f"{len(torn):,} {'text' if len(torn) == 1 else 'texts'} in {name} with more than one "
            "label, which count for each: look at "
            f"{quoted(torn[0])} ({listed(sorted(labels[torn[0]]))})."
        )
    return dict(sorted(groups.items())), notes


def in_line(row: Row, name: object) -> Text:
    """Return the text of a line; without any, what says so with its number when it is read."""
    if SOMETHING.search(row.item):
        return row.item
    return Content(f"The text in line {row.line} of {name}", b"")


def _all_as(label: str, path: Path, columns: Named) -> Labelled:
    """Return one text, or all in a folder, a zip or a table, as texts of one class."""
    items = find_texts(path, columns=columns)
    if not items:
        raise OvorError(f"There is no text in {path}: add some (.txt), or give another folder.")
    return {as_name(label): items}, []


def from_zip(archive: Path, part: Part, columns: Named | None) -> Labelled:
    """Find the texts of every class in a zip, by a table in it or by its folders."""
    shown, links = shown_files(archive)
    sought = ANY_TEXTS.by(columns)
    tables = [file for file in shown if is_table(file.path.name)]
    fitting = [
        file for file in tables if has_columns(file.content(), file.path.suffix.lower(), sought)
    ]
    if len(tables) == 1 and not any(TEXT_FILES.has(file.path.name) for file in shown):
        fitting = tables  # nothing else can be meant: what is wrong with it is said as it is read
    if len(fitting) > 1:
        raise OvorError(
            f"{archive} has the tables {fitting[0].name} and {fitting[1].name}: unpack it, and "
            "give the one that you mean."
        )
    if fitting:
        table = fitting[0]
        rows = read_table(table.content(), table, table.path.suffix.lower(), sought)
        groups, notes = by_rows(rows, table, part)
        return groups, [f"Took the texts from {table}.", *notes]
    return by_packed_folders(archive, shown, links, part, TEXT_FILES)


def find_texts(source: Any, name: str | None = None, columns: Named = (None, None)) -> list[Text]:
    """List the texts in whatever was given; of a class, if it is named and has any there."""
    path = at_home(source) if isinstance(source, str | Path) and is_place(source) else None
    if path is None:
        return spread_texts(source)
    if is_table(path.name) and path.is_file():
        return _in_table(path, name, columns)
    if name is not None and (path.is_dir() or is_zip(path)):
        groups, _ = read_texts(path, None, "train")
        if name not in groups:
            raise OvorError(f"{path} has no text of {name!r}: it has {listed([*groups])}.")
        return groups[name]
    if path.is_dir():
        return list(find_images(path, TEXT_FILES)[0])
    if is_zip(path):
        return [file for file in shown_files(path)[0] if TEXT_FILES.has(file.path.name)]
    return [path]


def _in_table(path: Path, name: str | None, columns: Named) -> list[Text]:
    """List the texts of a table, which need have no labels unless a class is meant."""
    sought, suffix = ANY_TEXTS.by(columns), path.suffix.lower()
    rows = read_table(content_of(path), path, suffix, sought.unlabelled() if not name else sought)
    if name is None:
        return [in_line(row, path) for row in rows]
    groups, _ = by_rows(rows, path, "train")
    if name not in groups:
        raise OvorError(f"{path} has no line of {name!r}: its labels are {listed([*groups])}.")
    return groups[name]


def spread_texts(given: Any) -> list[Text]:
    """List single texts: a str is one, a Path those of a file or a folder."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Path):
        if not is_place(given):
            raise missing(given, "file or folder")
        return find_texts(given)
    if isinstance(given, bytes | bytearray) or hasattr(given, "read"):
        return [opened(given)]
    if is_frame(given):
        return images_in(given, ANY_TEXTS)
    if isinstance(given, Mapping):
        raise OvorError("Texts by class are for learning: give the texts alone, as a list.")
    if not isinstance(given, Iterable):
        raise OvorError(
            f"Texts cannot be {with_article(type(given).__name__)}: give a text, a list of "
            "them, or the Path of a file."
        )
    return [opened(item) for item in given]


def opened(item: Any) -> Any:
    """Return what a file holds if the item is one that is open, else the item itself."""
    if isinstance(item, bytes | bytearray):
        return Content(IN_MEMORY, bytes(item))
    if not hasattr(item, "read"):
        return str(item) if type(item).__name__ == "str_" else item  # numpy's own
    content = item.read() if hasattr(item, "encoding") else settled(item)
    return content


# --- from an item to its text


def to_text(item: Any) -> str:
    """Return the text of an item, without what is no character; refuse one without any."""
    name: object = None
    if isinstance(item, str):
        text = item[:READ]
    elif isinstance(item, Path):
        text, name = decode(_beginning(item), item), item
    elif isinstance(item, Packed | Content):
        content = item.content() if isinstance(item, Packed) else item.content
        name = None if str(item) == IN_MEMORY else item
        text = decode(content[:READ], name or f"a text {IN_MEMORY}")
    else:
        raise OvorError(
            f"A text cannot be {with_article(type(item).__name__)}: give a str, or the Path of a "
            ".txt file."
        )
    if not SOMETHING.search(text):
        what = f"{name} is empty" if name else "A text is empty"
        raise OvorError(f"{what}, or has nothing in it that could be read: leave it out.")
    # Halves of characters that are written in two (of JSON), which no encoder takes.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _beginning(path: Path) -> bytes:
    check_is_file(path)
    try:
        with path.open("rb") as file:
            return file.read(READ)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (OSError, ValueError) as error:
        raise OvorError(f"The text {path} cannot be read ({reason(error)}).") from error


def decode(content: bytes, name: object) -> str:
    """Return UTF-8 as text, with or without the mark that some editors put before it."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        return decoder.decode(content, final=len(content) < READ)
    except UnicodeDecodeError as error:
        kind = no_text(content, str(name))
        if kind:
            raise OvorError(
                f"{name} is {kind}, not a text: give texts (.txt files, or a table), or leave it "
                "out."
            ) from error
        line = content.count(b"\n", 0, error.start) + 1
        raise OvorError(
            f"Line {line} of {name} is not UTF-8, which texts are read as: save it as UTF-8, or "
            "leave it out."
        ) from error


def no_text(content: bytes, name: str) -> str | None:
    """Return what a file is that is surely no text, by its first bytes or its name."""
    if content.startswith(IMAGE_HEADS) or IMAGE_FILES.has(PurePath(name).name):
        return "an image"
    return kind_of(content[:HEAD], name) if b"\0" in content else None


def quoted(item: Any) -> str:
    """Return what to call a text: the path of its file, or its beginning on one line."""
    if not isinstance(item, str):
        return str(item)
    line = " ".join(item[: 4 * QUOTED].split())
    return line if len(line) <= QUOTED else f"{line[: QUOTED - 1].rstrip()}…"


# --- which kind it is


def kind_held(source: Any, columns: Named = (None, None), wanted: str | None = None) -> str | None:
    """Return what a source holds, "images" or "texts", or None where that cannot be told.

    `wanted` is what a table with columns of both is read for.
    """
    path = at_home(source) if isinstance(source, str | Path) and is_place(source) else None
    if path is None:
        return None
    if is_table(path.name) and path.is_file():
        return _in_columns(content_of(path), path.suffix.lower(), columns, wanted)
    if is_zip(path):
        shown, _ = shown_files(path)
        tables = [file for file in shown if is_table(file.path.name)]
        told = [
            _in_columns(file.content(), file.path.suffix.lower(), columns, wanted)
            for file in tables
        ]
        names = [file.path.name for file in shown]
        return next(filter(None, told), None) or _by_names(names)
    if path.is_dir():
        images = next(each_image(path), None) is not None
        texts = not images and next(each_image(path, TEXT_FILES), None) is not None
        return "images" if images else "texts" if texts else None
    return _by_names([path.name])


def check_shown(source: Path, columns: Named) -> None:
    """Say of a source that shows neither images nor texts, by names alone, what can be given."""
    path = at_home(source)
    if is_table(path.name) and path.is_file():
        sought = ANY_TEXTS.by(columns)
        raise other_columns(content_of(path), path.name, path.suffix.lower(), sought)
    if ADDRESS.match(str(source)):
        raise missing(source)
    if not is_zip(path):
        raise OvorError(
            f"{path} {held(path)}: give a folder with one folder of images, or of .txt files, per "
            "class in it, a table of paths or texts with their labels (.csv, .tsv, .jsonl), or a "
            "zip of either."
        )


def _in_columns(content: bytes, suffix: str, columns: Named, wanted: str | None) -> str | None:
    """Return what a table is of: by the column that was named, by what is wanted, else images."""
    texts = may_hold(content, suffix, ANY_TEXTS.by(columns))
    if columns[0] is not None and not is_path_column(columns[0]):
        return "texts" if texts else None
    if may_hold(content, suffix, IMAGE_PATHS) and not (texts and wanted == "texts"):
        return "images"
    return "texts" if texts else None


def _by_names(names: Iterable[str]) -> str | None:
    names = list(names)
    if any(map(IMAGE_FILES.has, names)):
        return "images"
    return "texts" if any(map(TEXT_FILES.has, names)) else None
