"""The contract of every encoder: images in, features of several depths out, in one pass.

Whatever keeps it can be learned with by the methods that need no more than features.
"""

from collections.abc import Collection
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made", bound=nn.Module)
KEPT_BLOCK = 31 * 2**20  # bytes: glibc keeps freed blocks of up to 32 MB


class Encoder(nn.Module):
    """A frozen network whose features can be read at several depths."""

    widths: tuple[int, ...]  # of the features at each depth, first to last
    image_size: int  # side of the square input that it was trained with
    bundles: ClassVar[bool] = True  # do its tensors alone make it again, in a model file?
    exports: ClassVar[bool] = True  # can torch write it as ONNX?

    def input_size(self, wanted: int) -> int:
        """Return the side of the square input in pixels: the one wanted, or for 0 its own.

        A size that it cannot take is an OvorError.
        """
        raise NotImplementedError

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        """Return the features at these depths side by side (B, sum of their widths).

        Each pooled vector is normalised without gain or bias, so that it depends on no data and
        anybody's sums of it can be added to anybody's.
        """
        raise NotImplementedError

    @property
    def width(self) -> int:
        """How wide the one feature is that `forward` returns."""
        return self.widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Return one feature of each image (B, width), for methods that read no depths."""
        return self.depths(images, (len(self.widths) - 1,))

    def batch(self, size: int) -> int:
        """Return how many images of this size the memory near a processor likes at once."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device


def with_memory(module: Made) -> Made:
    """Give a module that was made on torch's meta device memory on the CPU, still without values.

    Its own `to_empty` does the same by a way that imports sympy, for which whoever asks about one
    image would wait a second.
    """
    empty = {name: torch.empty(x.shape, dtype=x.dtype) for name, x in module.state_dict().items()}
    module.load_state_dict(empty, assign=True)
    return module
