"""A list of tensors that are kept, not learned: class means, covariances, earlier weights."""

from collections.abc import Iterator

from torch import Tensor, nn


class BufferList(nn.Module):
    """A ParameterList for buffers: saved with the module, seen by no optimiser."""

    def append(self, tensor: Tensor) -> None:
        self.register_buffer(str(len(self)), tensor)

    def __len__(self) -> int:
        return len(self._buffers)

    def __getitem__(self, index: int) -> Tensor:
        return self.get_buffer(str(index % len(self)))

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))
