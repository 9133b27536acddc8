"""One's own texts as a data set: whatever `ovor learn` takes, with a split or without."""

from pathlib import PurePosixPath

import numpy as np

from ovor.data.base import Dataset, chance, for_testing, trainable
from ovor.data.corpus import labelled
from ovor.data.images import at_home
from ovor.data.labelled import Groups
from ovor.data.texts import read_texts, to_text


def own_texts(place: str) -> Dataset:
    """Read a table, a folder of class folders or a zip.

    Where nothing says which texts are for testing, about one in five is, by what it says: a text
    stays on its side when others come.
    """
    path = at_home(place)
    sides = [_rows(read_texts(path, None, part, columns=None)[0]) for part in ("train", "test")]
    if sides[0] == sides[1]:
        names = sorted({label for _, label in sides[0]})
        chances = np.array([chance(PurePosixPath(text)) for text, _ in sides[0]])
        labels = np.array([names.index(label) for _, label in sides[0]], dtype=np.int64)
        tests = for_testing(chances, labels).tolist()
        sides = [
            [row for row, tested in zip(sides[0], tests, strict=True) if tested == side]
            for side in (False, True)
        ]
    return trainable(labelled(f"texts:{place}", sides))


def _rows(groups: Groups) -> list[tuple[str, str]]:
    return [(to_text(item), name) for name, items in groups.items() for item in items]
