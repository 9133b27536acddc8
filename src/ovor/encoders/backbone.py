"""A frozen network together with where it is from and how it wants its images."""

from dataclasses import dataclass

from ovor.encoders.base import Encoder
from ovor.encoders.preprocessing import Preprocessing
from ovor.encoders.vit import VisionTransformer
from ovor.errors import OvorError

PAPER = "vit_base_patch16_224.augreg_in21k_ft_in1k"


@dataclass(frozen=True)
class Backbone:
    """A frozen network and where its weights come from, which goes into every result."""

    encoder: Encoder
    name: str  # as it was asked for
    source: str
    sha256: str  # of the file
    preprocessing: Preprocessing | None = None  # what it wants of images, as far as it is known

    @property
    def vit(self) -> VisionTransformer:
        """The encoder as a vision transformer, for what reads its blocks."""
        if not isinstance(self.encoder, VisionTransformer):
            raise OvorError(
                f"This needs a vision transformer, and {self.name} is none: choose another "
                f'backbone, such as "embedded" or "{PAPER}".'
            )
        return self.encoder

    @property
    def num_heads(self) -> int:
        """Heads of its attention, 0 where it has none."""
        return self.vit.arch.num_heads if isinstance(self.encoder, VisionTransformer) else 0
