"""Data sets by name: the embedded ones, the paper's (Sec. 5.1), or any folder of images.

The paper's are read from the data folder, see `ovor.data.sources`.
"""

from collections.abc import Callable

from ovor.config import OvorError
from ovor.data import cifar_100, cub_200, imagenet_r, train_test
from ovor.data.base import Dataset, Images
from ovor.data.embedded import quickdraw, quickdraw_dev
from ovor.data.folders import folder
from ovor.data.sources import Source

__all__ = ["DATASETS", "SOURCES", "Dataset", "Images", "load_dataset"]

DATASETS: dict[str, Callable[[], Dataset]] = {
    "quickdraw": quickdraw,
    "quickdraw-dev": quickdraw_dev,
    "imagenet-r": imagenet_r.imagenet_r,
    "imagenet-r:pilot": train_test.imagenet_r_pilot,
    "cifar-100": cifar_100.cifar_100,
    "cub-200": cub_200.cub_200,
    "cub-200:pilot": train_test.cub_200_pilot,
    "imagenet-a": train_test.imagenet_a,
}
SOURCES: dict[str, Source] = {
    "imagenet-r": imagenet_r.SOURCE,
    "imagenet-r:pilot": train_test.IMAGENET_R_PILOT,
    "cifar-100": cifar_100.SOURCE,
    "cub-200": cub_200.SOURCE,
    "cub-200:pilot": train_test.CUB_200_PILOT,
    "imagenet-a": train_test.IMAGENET_A,
}
FOLDER = "folder:"


def load_dataset(name: str) -> Dataset:
    if not name.startswith(FOLDER) and name not in DATASETS:
        raise OvorError(
            f"There is no data set '{name}': choose {', '.join(DATASETS)} or {FOLDER}PATH."
        )
    try:
        return folder(name.removeprefix(FOLDER)) if name.startswith(FOLDER) else DATASETS[name]()
    except OSError as error:
        raise unreadable(error, name) from error


def unreadable(error: OSError, name: str) -> OvorError:
    return OvorError(
        f"{error.filename or name} cannot be read ({error.strerror or error}): allow this user to "
        "read it, or copy it anew."
    )
