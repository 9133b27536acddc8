"""The contract of every encoder: images or texts in, features of several depths out, in one pass.

It says itself what it reads (`reads`), which has the words for people, finds and decodes items, and
makes views of them; of a stack of views the encoder makes its own input (`tensor`).

Whatever keeps it can be learned with by the methods that need no more than features.
"""

from collections.abc import Collection
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from ovor.config import Transform
from ovor.data.modality import IMAGES, Modality
from ovor.data.transforms import channels, normalised

Made = TypeVar("Made", bound=nn.Module)
KEPT_BLOCK = 31 * 2**20  # bytes: glibc keeps freed blocks of up to 32 MB


class Encoder(nn.Module):
    """A frozen network whose features can be read at several depths."""

    reads: Modality = IMAGES
    widths: tuple[int, ...]  # of the features at each depth, first to last
    image_size: int  # side of the square input that it was trained with, or tokens of a window
    bundles: ClassVar[bool] = True  # do its tensors alone make it again, in a model file?
    exports: ClassVar[bool] = True  # can torch write it as ONNX?
    free: ClassVar[tuple[int, ...]] = (0,)  # dimensions of an export's input that may be any

    def tensor(self, views: Tensor, transform: Transform) -> Tensor:
        """Return what `depths` takes of a stack of views, on their device."""
        return normalised(views, transform)

    def example(self, transform: Transform, count: int, draw: torch.Generator) -> Tensor:
        """Return an input of an export, drawn by chance: of images, numbers from 0 to 1."""
        return torch.rand(count, 3, transform.size, transform.size, generator=draw)

    def of_export(self, given: Tensor, transform: Transform) -> Tensor:
        """Return what `depths` takes of an export's input."""
        return (given - channels(transform.mean)) / channels(transform.std)

    def input_size(self, wanted: int) -> int:
        """Return the side of the square input in pixels: the one wanted, or for 0 its own.

        A size that it cannot take is an OvorError.
        """
        raise NotImplementedError

    def depths(self, inputs: Tensor, which: Collection[int]) -> Tensor:
        """Return the features at these depths side by side (B, sum of their widths).

        Each pooled vector is normalised without gain or bias, so that it depends on no data and
        anybody's sums of it can be added to anybody's.
        """
        raise NotImplementedError

    @property
    def spread_widths(self) -> tuple[int, ...]:
        """How wide what `spreads` returns is at each depth."""
        return self.widths

    def spreads(self, inputs: Tensor, which: Collection[int]) -> Tensor:
        """Return each depth's features and how much the places of an input differ there.

        That is the standard deviation over all places of what the features have the mean of,
        normalised as they are. An encoder that does not tell places returns the features alone.
        """
        return self.depths(inputs, which)

    @property
    def width(self) -> int:
        """How wide the one feature is that `forward` returns."""
        return self.widths[-1]

    def forward(self, images: Tensor) -> Tensor:
        """Return one feature of each image (B, width), for methods that read no depths."""
        return self.depths(images, (len(self.widths) - 1,))

    def batch(self, size: int) -> int:
        """Return how many items of this size the memory near a processor likes at once."""
        raise NotImplementedError

    def bundled(self) -> dict[str, Tensor]:
        """Return the tensors that make it again, in a model file that has it inside."""
        return self.state_dict()

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
