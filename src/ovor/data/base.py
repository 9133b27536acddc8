"""What a data set is: class names, and training and test images with one label each.

The paper's protocol needs no more than this; where the pixels come from is each file's own affair.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Integers = NDArray[np.int64]


class Images(Protocol):
    """Labelled images; an image is read when it is asked for."""

    @property
    def labels(self) -> Integers: ...

    def __len__(self) -> int: ...

    def image(self, index: int) -> Image.Image:
        """The image at `index`, as RGB."""
        ...


@dataclass(frozen=True, eq=False)
class Dataset:
    """A label is a position in `class_names`."""

    name: str
    class_names: tuple[str, ...]
    train: Images
    test: Images
