"""The frozen backbone: the network, and where its weights come from (App. C)."""

from ovor.encoders.backbone import Backbone
from ovor.encoders.base import Encoder
from ovor.encoders.prefixed import Prefix, Prefixed, Prefixes
from ovor.encoders.vit import Architecture, VisionTransformer
from ovor.encoders.weights import load_backbone

__all__ = [
    "Architecture",
    "Backbone",
    "Encoder",
    "Prefix",
    "Prefixed",
    "Prefixes",
    "VisionTransformer",
    "load_backbone",
]
