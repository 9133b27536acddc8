"""DBpedia's ontology as Zhang, Zhao and LeCun (2015) made a benchmark of it: 14 kinds of things."""

from pathlib import Path

from ovor.data.base import Dataset
from ovor.data.corpus import Rows, damage_named, labelled, read_lines, read_rows
from ovor.data.sources import Expected, Source, held
from ovor.errors import OvorError

SIDES = ("train", "test")


def _read(source: Source, root: Path) -> Dataset:
    for name in ("classes.txt", "train.csv", "test.csv"):
        if not (root / name).is_file():
            raise OvorError(f"{root} {held(root)}, and no {name}: {source.advice()}.")
    names = [name.strip() for name in read_lines(root / "classes.txt") if name.strip()]
    return labelled(source.name, [_rows(root / f"{side}.csv", names) for side in SIDES])


def _rows(path: Path, names: list[str]) -> Rows:
    """Read lines of a class from 1, a title and a description; there is no header."""
    found = []
    for number, row in enumerate(read_rows(path), 1):
        with damage_named(path):
            kind, title, content = row
            if not 1 <= int(kind) <= len(names):
                raise ValueError(f"line {number} has the class {kind}, of {len(names)}")
            found.append((f"{title.strip()}\n{content.strip()}", names[int(kind) - 1]))
    return found


SOURCE = Source(
    name="dbpedia",
    places=("dbpedia_csv", "dbpedia"),
    get="dbpedia_csv.tar.gz of Xiang Zhang's text classification data sets, and unpack it",
    layout="dbpedia_csv/classes.txt, train.csv and test.csv",
    expected=Expected(classes=14, train=560_000, test=70_000),
    read=_read,
    things="texts",
)
