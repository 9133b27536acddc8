"""timm and torchvision, the oracles of the parity tests; import them from here.

The product has a way to import them where torchvision does not fit torch.
"""

from ovor.encoders.timm import import_timm

timm = import_timm()

import torchvision.transforms  # noqa: E402
from timm.models.vision_transformer import VisionTransformer as TimmViT  # noqa: E402

__all__ = ["TimmViT", "timm", "torchvision"]
