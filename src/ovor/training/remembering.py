"""A frozen network that computes the features of the same input once, for what reads it often.

Texts are the same in every epoch, as nothing is cropped or turned, and seeds of a grid share most
of them: on disk, features are there for the next run too.
"""

import contextlib
import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ovor.config import Transform
from ovor.data.cache import admitted, written
from ovor.encoders.base import Encoder

FOLDER = "~/.cache/ovor/features"
SCHEMA = 5  # to be raised when an encoder makes other features of the same input


class Remembering(Encoder):
    """Stands for an encoder whose weights do not change; its one feature is its last depth."""

    def __init__(self, encoder: Encoder, sha256: str, limit: int, folder: str = FOLDER) -> None:
        super().__init__()
        self.encoder = encoder
        self.reads, self.widths, self.image_size = encoder.reads, encoder.widths, encoder.image_size
        self.sha256, self.limit = sha256, limit
        self.folder = Path(folder).expanduser()
        self.known: dict[bytes, Tensor] = {}

    @property
    def width(self) -> int:
        return self.encoder.width

    def input_size(self, wanted: int) -> int:
        return self.encoder.input_size(wanted)

    def batch(self, size: int) -> int:
        return self.encoder.batch(size)

    def tensor(self, views: Tensor, transform: Transform) -> Tensor:
        return self.encoder.tensor(views, transform)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.depths(inputs, (len(self.widths) - 1,))

    def depths(self, inputs: Tensor, which: Collection[int]) -> Tensor:
        """Return the features at these depths, computed for inputs alone that are new."""
        said = f"{SCHEMA} {self.sha256} {inputs.dtype} {tuple(inputs.shape[1:])} ".encode()
        keys = [hashlib.sha256(said + row.cpu().numpy().tobytes()).digest() for row in inputs]
        new = {
            key: row for row, key in enumerate(keys) if key not in self.known and not self.read(key)
        }
        if new:
            self.compute(inputs[list(new.values())], list(new))
        whole = torch.stack([self.known[key] for key in keys]).to(inputs.device)
        parts = torch.split(whole, list(self.widths), dim=1)
        return torch.cat([parts[depth] for depth in sorted(which)], dim=1)

    @torch.no_grad()
    def compute(self, inputs: Tensor, keys: list[bytes]) -> None:
        """Keep the features at all depths: others may ask for others."""
        found = self.encoder.depths(inputs, range(len(self.widths))).float().cpu()
        for key, features in zip(keys, found, strict=True):
            self.known[key] = features.clone()
            self.write(key)

    def path(self, key: bytes) -> Path:
        return self.folder / key.hex()[:2] / f"{key.hex()}.npy"

    def read(self, key: bytes) -> bool:
        """Look on the disk, and say whether it is there and whole."""
        if not self.limit:
            return False
        try:
            self.known[key] = torch.from_numpy(np.load(self.path(key), allow_pickle=False))
        except (OSError, ValueError, EOFError):
            return False
        return True

    def write(self, key: bytes) -> None:
        """Keep features for other runs; a full disk is no reason to stop."""
        feature = self.known[key].numpy()
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            if self.limit and admitted(self.folder / "sizes", feature.nbytes + 128, self.limit):
                with written(self.path(key)) as file:
                    np.save(file, feature)
