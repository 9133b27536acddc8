"""Data sets by name: the embedded ones, or any folder of images.

The paper's Sec. 5.1 names its own; they are read from folders as well.
"""

from collections.abc import Callable

from ovor.config import OvorError
from ovor.data.base import Dataset, Images
from ovor.data.embedded import quickdraw, quickdraw_dev
from ovor.data.folders import folder

__all__ = ["DATASETS", "Dataset", "Images", "load_dataset"]

DATASETS: dict[str, Callable[[], Dataset]] = {
    "quickdraw": quickdraw,
    "quickdraw-dev": quickdraw_dev,
}
FOLDER = "folder:"


def load_dataset(name: str) -> Dataset:
    if name.startswith(FOLDER):
        return folder(name.removeprefix(FOLDER))
    if name not in DATASETS:
        raise OvorError(
            f"There is no data set '{name}': choose {', '.join(DATASETS)} or {FOLDER}PATH."
        )
    return DATASETS[name]()
