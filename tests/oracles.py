"""timm and torchvision, the oracles of the parity tests; import them from here.

Some torchvision wheels have no compiled operators beside a CPU build of torch, and then neither
torchvision nor timm can be imported until the operators they mention are declared.
"""

import torch

try:
    import torchvision
except RuntimeError:
    if torch.version.cuda is not None:
        raise
    LIBRARY = torch.library.Library("torchvision", "DEF")  # undone when it is collected
    for operator in ("nms", "qnms"):
        LIBRARY.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

import timm
import torchvision.transforms
from timm.models.vision_transformer import VisionTransformer as TimmViT

__all__ = ["TimmViT", "timm", "torchvision"]
