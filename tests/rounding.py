"""How far features may lie apart that are computed in two ways."""

from math import prod, sqrt

import onnx
from torch import Tensor, nn

from ovor.encoders import Encoder
from ovor.encoders.onnx import OnnxEncoder

LAYERS = (nn.Linear, nn.Conv2d)


def rounding(encoder: Encoder, features: Tensor) -> float:
    """Return what two passes in float32 may differ by.

    Each layer rounds what it gets, in both, and its sums of n products about sqrt(n) times more: in
    which order they are added differs by processor.
    """
    if isinstance(encoder, OnnxEncoder):
        graph = onnx.load(str(encoder.path)).graph
        widest = max((prod(x.dims[1:]) for x in graph.initializer), default=1)
        roundings = len(graph.node) * (1 + sqrt(widest))
    else:
        layers = [module for module in encoder.modules() if isinstance(module, LAYERS)]
        roundings = sum(1 + sqrt(layer.weight[0].numel()) for layer in layers)
    return 2 * roundings * 2**-24 * float(features.abs().max())
