"""Data sets by name: the embedded ones, the paper's (Sec. 5.1), or one's own images.

The paper's are read from the data folder, see `ovor.data.sources`.
"""

from collections.abc import Callable

from ovor.data import cifar_100, cub_200, imagenet_r, train_test
from ovor.data.base import Dataset, Images
from ovor.data.embedded import quickdraw, quickdraw_dev
from ovor.data.folders import folder
from ovor.data.hf import hugging_face
from ovor.data.shards import shards
from ovor.data.sources import Source
from ovor.errors import OvorError

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
# One's own images, by what stands before the colon.
OWN: dict[str, Callable[[str], Dataset]] = {
    "folder": folder,
    "shards": shards,
    "hf": hugging_face,
}


def load_dataset(name: str) -> Dataset:
    kind, colon, place = name.partition(":")
    own = OWN.get(kind) if colon else None
    if not own and name not in DATASETS:
        raise OvorError(
            f"There is no data set '{name}': choose {', '.join(DATASETS)}, folder:PATH, "
            "shards:PATTERN or hf:NAME."
        )
    try:
        return own(place) if own else DATASETS[name]()
    except OSError as error:
        raise unreadable(error, name) from error


def unreadable(error: OSError, name: str) -> OvorError:
    return OvorError(
        f"{error.filename or name} cannot be read ({error.strerror or error}): allow this user to "
        "read it, or copy it anew."
    )
