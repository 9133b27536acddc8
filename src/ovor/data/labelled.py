"""Labelled images as people have them, in whatever they are: the images of each class.

A folder of class folders, with or without `train` and `test`; a table of paths and labels; a zip of
either; a folder or an image and its label; or images and labels in memory.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from ovor.data.class_names import as_name, listed
from ovor.data.folders import find_classes, holds, visible_folders
from ovor.data.formats import ADDRESS, IMAGE_FILES, FileKind, is_image, missing, with_kind
from ovor.data.image_files import HIDDEN, find_images
from ovor.data.images import Picture, at_home, spread
from ovor.data.memory import from_memory
from ovor.data.packed import Packed, packed_files
from ovor.data.parts import Holds, Part, chosen_part, is_part, mixed, wanted
from ovor.data.sources import held
from ovor.data.tables import IMAGE_PATHS, Named, Row, Sought, has_columns, is_table, read_table
from ovor.errors import OvorError

Groups = dict[str, list[Picture]]  # the images of each class
Labelled = tuple[Groups, list[str]]  # and what the user should know, a sentence each
Labels = str | Iterable[Any]  # one for all images, or one each


def read_labelled(
    source: Any, labels: Labels | None, part: Part, columns: Named = (None, None)
) -> Labelled:
    """Return the images of each class; of a data set in parts, those of this part.

    `columns` name those of a table that are meant, of paths and of labels.
    """
    if not isinstance(source, str | Path) or not (labels is None or isinstance(labels, str)):
        return from_memory(source, labels, part)
    path = at_home(source)
    if ADDRESS.match(str(source)) and not path.exists():
        raise missing(source)
    if isinstance(labels, str):
        return _all_as(labels, path)
    if path.is_dir():
        return from_folder(path, part)
    if is_zip(path):
        return from_zip(path, part)
    if is_table(path.name) and path.is_file():
        return from_table(path, part, IMAGE_PATHS.by(columns))
    if is_image(path.name) and path.is_file():
        raise OvorError(f'{path} is one image: say what it shows (labels="CLASS").')
    raise OvorError(
        f"{path} {held(path)}: give a folder with one folder per class in it, or a table of paths "
        "and labels (.csv, .tsv, .jsonl), or a zip of either."
    )


def read_images(source: Any, name: str | None = None) -> list[Picture]:
    """List the images in whatever was given; of a class, if it is named and has a folder there."""
    path = at_home(source) if isinstance(source, str | Path) else None
    if path is None or not path.exists():
        return spread(source)
    if is_table(path.name) and path.is_file():
        groups, _ = from_table(path, None if name is None else "train")
        if name is not None and name not in groups:
            raise OvorError(f"{path} has no line of {name!r}: its labels are {listed([*groups])}.")
        return [item for own in groups if name in (None, own) for item in groups[own]]
    if name is not None:
        with suppress(OvorError):  # then it has no class folders: all images in it are meant
            groups, _ = read_labelled(path, None, "train")
            if name in groups:
                return groups[name]
    if is_zip(path):
        files, _ = packed_files(path)
        return [file for file in files if is_image(file.path.name) and not _hidden(file.path)]
    return spread(path)


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip" and path.is_file()


def _all_as(label: str, path: Path) -> Labelled:
    """Return one image, or all in a folder or a zip, as images of one class."""
    if is_table(path.name):
        raise OvorError(f"{path} says the labels itself: leave the label out.")
    items = read_images(path)
    if not items:
        raise OvorError(f"There is no image in {path}: add some, or give another folder.")
    return {as_name(label): items}, []


# --- folders


def from_folder(root: Path, part: Part, kind: FileKind = IMAGE_FILES) -> Labelled:
    """Find the images of every class folder, and note what else lies there."""
    if not root.is_dir():
        raise OvorError(f"{root} {held(root)}: give a folder with one folder per class in it.")
    root, notes = _of_part(root, part, kind)
    if not visible_folders(root) and find_images(root, kind)[0]:
        raise no_class_folders(root, kind)
    found, others = find_classes(root, kind)
    groups: Groups = {name: list(paths) for name, paths in found.items()}
    notes += mixed(path.relative_to(root) for paths in found.values() for path in paths)
    return groups, notes + left_out([path.relative_to(root) for path in others], root, kind)


def _of_part(root: Path, part: Part, kind: FileKind) -> tuple[Path, list[str]]:
    """Return the folder whose folders are the classes, and what to say of it."""
    folders = visible_folders(root)
    if len(folders) == 1 and not is_part(folders[0].name):
        inner = {folder.name: holds(folder, kind) for folder in _parts_in(folders[0])}
        if "classes" in inner.values():  # one more folder around a data set
            root, folders = folders[0], visible_folders(folders[0])
    if not any(is_part(folder.name) for folder in folders):
        return root, []
    held_there = {folder.name: holds(folder, kind) for folder in folders}
    own, notes = chosen_part(root, held_there, part)
    return (root / own if own else root), notes


def _parts_in(folder: Path) -> list[Path]:
    return [inner for inner in visible_folders(folder) if is_part(inner.name)]


def no_class_folders(where: Path, kind: FileKind = IMAGE_FILES) -> OvorError:
    return OvorError(
        f"{where} has no class folders: put the {kind.many} of each class in one, or say what all "
        'of them show (labels="CLASS").'
    )


def left_out(others: Sequence[PurePath], where: Path, kind: FileKind = IMAGE_FILES) -> list[str]:
    """Say which files are not learned, and that a table among them can be given instead."""
    if not others:
        return []
    names = ", ".join(with_kind(path) for path in others[:5])
    more = " and others" if others[5:] else ""
    notes = [f"Not {kind.many} in a class folder, left out: {names}{more}."]
    table = next((path for path in others if is_table(path.name)), None)
    if table is not None:
        notes.append(f"If {table.name} says the classes, give it instead: {where / table}.")
    return notes


# --- tables


def from_table(path: Path, part: Part | None, sought: Sought = IMAGE_PATHS) -> Labelled:
    """Find the images of every class in a table, whose paths are relative to it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise OvorError(f"{path} cannot be read ({error.strerror}): check the path.") from error

    def find(text: str) -> Path | None:
        places = (path.parent / at_home(way) for way in (text, text.replace("\\", "/")))
        return next((place for place in places if place.is_file()), None)

    return by_rows(read_table(content, path, path.suffix.lower(), sought), path, part, find)


def by_rows(
    rows: list[Row], name: object, part: Part | None, find: Callable[[str], Picture | None]
) -> Labelled:
    rows, notes = rows_of_part(rows, name, part)
    groups: Groups = {}
    seen: dict[Picture, Row] = {}
    for row in rows:
        item = find(row.item)
        if item is None:
            raise OvorError(
                f"Line {row.line} of {name} names {row.item}, and there is no such file: paths are "
                "relative to the table; correct it, or remove the line."
            )
        before = seen.setdefault(item, row)
        if as_name(before.label) != as_name(row.label):
            raise OvorError(
                f"Line {row.line} of {name} calls {row.item} {row.label!r}, and line "
                f"{before.line} calls it {before.label!r}: remove one."
            )
        if before is row:
            groups.setdefault(as_name(row.label), []).append(item)
    if len(seen) < len(rows):
        notes.append(f"{name} has {len(rows) - len(seen)} lines twice, which count once.")
    return dict(sorted(groups.items())), notes


def rows_of_part(rows: list[Row], name: object, part: Part | None) -> tuple[list[Row], list[str]]:
    """Keep the rows that are for learning, or for testing, if the table says which are."""
    named = sorted({row.part for row in rows})
    if part is None or named == [""]:
        return rows, []
    own = wanted(named, part)
    if own is None:
        raise OvorError(
            f"{name} says which rows are {listed(named)}, and none is called {part!r}: correct "
            "that column, or remove it."
        )
    rest = [other for other in named if other != own]
    note = f"Took the rows of {name} that are {own!r}" + f", not {listed(rest)}" * bool(rest)
    return [row for row in rows if row.part == own], [f"{note}."]


# --- zips


def shown_files(archive: Path) -> tuple[list[Packed], list[PurePosixPath]]:
    """List the files in a zip that are not hidden; and its links, which are not followed."""
    files, links = packed_files(archive)
    return [file for file in files if not _hidden(file.path)], links


def from_zip(archive: Path, part: Part) -> Labelled:
    """Find the images of every class in a zip, by its folders or by a table in it."""
    shown, links = shown_files(archive)
    tables = [file for file in shown if is_table(file.path.name)]
    fitting = [file for file in tables if has_columns(file.content(), file.path.suffix.lower())]
    if len(fitting) > 1:
        raise OvorError(
            f"{archive} has the tables {fitting[0].name} and {fitting[1].name}: unpack it, and "
            "give the one that you mean."
        )
    if fitting:
        return _by_packed_table(fitting[0], shown, part)
    return by_packed_folders(archive, shown, links, part, IMAGE_FILES)


def by_packed_folders(
    archive: Path, shown: list[Packed], links: list[PurePosixPath], part: Part, kind: FileKind
) -> Labelled:
    """Find the images of every class in a zip by its folders."""
    images = {file.path: file for file in shown if kind.has(file.path.name)}
    others = [file.path for file in shown if file.path not in images] + links
    root, notes = _root(archive, images, part)
    groups: Groups = {}
    for path, file in images.items():
        inner = path.relative_to(root) if path.is_relative_to(root) else None
        if inner is not None and len(inner.parts) > 1:
            groups.setdefault(as_name(inner.parts[0]), []).append(file)
        elif inner is not None:
            others.append(path)
    if not groups:
        raise no_class_folders(archive, kind)
    notes += mixed(file.path.relative_to(root) for own in groups.values() for file in own)
    return dict(sorted(groups.items())), notes + left_out(others, archive, kind)


def _by_packed_table(table: Packed, files: list[Packed], part: Part) -> Labelled:
    by_path = {file.path: file for file in files}

    def find(text: str) -> Packed | None:
        return by_path.get(table.path.parent / text.replace("\\", "/"))

    rows = read_table(table.content(), table, table.path.suffix.lower())
    groups, notes = by_rows(rows, table, part, find)
    return groups, [f"Took the labels from {table}.", *notes]


def _root(
    archive: Path, images: dict[PurePosixPath, Packed], part: Part
) -> tuple[PurePosixPath, list[str]]:
    """Return the folder in a zip whose folders are the classes, and what to say of it."""
    root, notes = PurePosixPath(), list[str]()
    held_there = _held_in(images, root)
    outer = next(iter(held_there), "")
    if held_there == {outer: "classes"} and not is_part(outer):  # a folder was zipped with its name
        root /= outer
        notes = [f"Took the folders in {outer!r} of {archive} as the classes."]
        held_there = _held_in(images, root)
    outer = next(iter(held_there), "")
    inner = _held_in(images, root / outer)
    if len(held_there) == 1 and any(is_part(n) and inner[n] == "classes" for n in inner):
        root, held_there = root / outer, inner  # one more around a data set
    own, said = (
        chosen_part(archive, held_there, part) if any(map(is_part, held_there)) else (None, [])
    )
    return (root / own if own else root), notes + said


def _held_in(images: Iterable[PurePosixPath], root: PurePosixPath) -> dict[str, Holds]:
    """Say of each folder below the root whether it holds class folders, or images right away."""
    found: dict[str, Holds] = {}
    for path in images:
        parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
        if len(parts) == 2:
            found[parts[0]] = "images"
        elif len(parts) > 2:
            found.setdefault(parts[0], "classes")
    return found


def _hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(HIDDEN) for part in path.parts)
