"""What people ask assistants for: CLINC150, Banking77 and HWU64, in the layouts of their makers."""

from pathlib import Path

from ovor.data.base import Dataset
from ovor.data.corpus import Rows, damage_named, labelled, read_json, read_lines, read_rows
from ovor.data.sources import Expected, Source, held
from ovor.errors import OvorError

SIDES = ("train", "test")
OUT_OF_SCOPE = "oos"  # what CLINC150 calls a text of no intent


def _clinc(source: Source, root: Path) -> Dataset:
    """Read data_full.json, whose texts out of scope are of no class."""
    if not root.is_file():
        if not (root / "data_full.json").is_file():
            return _sequences(source, root)
        root /= "data_full.json"
    found = read_json(root)
    with damage_named(root):
        parts = {
            name: [(str(text), str(intent)) for text, intent in found[name]]
            for name in ("train", "test", "oos_test")
        }
    sides = ([row for row in parts[name] if row[1] != OUT_OF_SCOPE] for name in ("train", "test"))
    return labelled(source.name, sides, [text for text, _ in parts["oos_test"]])


def _tables(source: Source, root: Path) -> Dataset:
    """Read train.csv and test.csv with a header and columns text and category."""
    if not (root / "train.csv").is_file():
        return _sequences(source, root)
    return labelled(source.name, [_table(source, root / f"{side}.csv") for side in SIDES])


def _table(source: Source, path: Path) -> Rows:
    if not path.is_file():
        raise OvorError(f"{path.parent} has no {path.name}: {source.advice()}.")
    header, *rows = [*read_rows(path)] or [[]]
    with damage_named(path):
        text, category = header.index("text"), header.index("category")
        return [(row[text], row[category]) for row in rows]


def _sequences(source: Source, root: Path) -> Dataset:
    """Read train/seq.in and train/label, a line a text, and the same for test.

    So the collection Few-Shot-Intent-Detection has all three, and CLINC150's texts out of scope in
    oos/test.
    """
    strange = root / "oos" / "test" / "seq.in"
    unknown = read_lines(strange) if strange.is_file() else []
    return labelled(source.name, [_lines(source, root / side) for side in SIDES], unknown)


def _lines(source: Source, folder: Path) -> Rows:
    files = [folder / name for name in ("seq.in", "label")]
    for path in files:
        if not path.is_file():
            raise OvorError(
                f"{folder.parent} {held(folder.parent)}, and no {folder.name}/{path.name}: "
                f"{source.advice()}."
            )
    texts, labels = map(read_lines, files)
    if len(texts) != len(labels):
        raise OvorError(
            f"{folder} has {len(texts)} texts and {len(labels)} labels: get it anew, whole."
        )
    return list(zip(texts, labels, strict=True))


FEW_SHOT = "of the collection Few-Shot-Intent-Detection"
CLINC150 = Source(
    name="clinc150",
    places=("clinc150/data_full.json", "clinc150", "CLINC150", "data_full.json"),
    get="data_full.json of Clinc's oos-eval",
    layout=f"clinc150/data_full.json, or CLINC150/train/seq.in, label and the others {FEW_SHOT}",
    expected=Expected(classes=150, train=15_000, test=4_500),
    read=_clinc,
    things="texts",
)
BANKING77 = Source(
    name="banking77",
    places=("banking77", "banking_data", "BANKING77"),
    get="train.csv and test.csv of banking_data, in PolyAI's task-specific-datasets",
    layout=f"banking77/train.csv and test.csv, or BANKING77/train/seq.in, label, … {FEW_SHOT}",
    expected=Expected(classes=77, train=10_003, test=3_080),
    read=_tables,
    things="texts",
)
HWU64 = Source(
    name="hwu64",
    places=("hwu64", "hwu", "HWU64"),
    get="train.csv and test.csv of hwu in DialoGLUE's data, which has PolyAI's split",
    layout=f"hwu64/train.csv and test.csv, or HWU64/train/seq.in, label and the others {FEW_SHOT}",
    expected=Expected(classes=64, train=8_954, test=1_076),
    read=_tables,
    things="texts",
)
