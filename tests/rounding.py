"""How far features may lie apart that are computed in two ways."""

import onnx
from torch import Tensor, nn

from ovor.encoders import Encoder
from ovor.encoders.onnx import OnnxEncoder

LAYERS = (nn.Linear, nn.Conv2d)


def rounding(encoder: Encoder, features: Tensor) -> float:
    """Return what two passes in float32 may differ by: each layer rounds what it gets, in both."""
    if isinstance(encoder, OnnxEncoder):
        layers = len(onnx.load(str(encoder.path)).graph.node)
    else:
        layers = sum(isinstance(module, LAYERS) for module in encoder.modules())
    return 2 * layers * 2**-24 * float(features.abs().max())
