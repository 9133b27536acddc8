"""Small networks of random weights, as timm and as ONNX files have them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from oracles import timm

VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 3, "num_heads": 2}
# By name: timm's architecture, options that make it small, and the size of its images.
TIMM: dict[str, tuple[str, dict[str, Any], int]] = {
    "vit": ("vit_tiny_patch16_224", VIT, 32),
    "registers": ("vit_small_patch14_reg4_dinov2", VIT, 32),
    "average": ("vit_medium_patch16_gap_240", VIT, 32),
    "convnext": ("convnext_atto", {"depths": [1, 1, 2, 1], "dims": [8, 16, 24, 32]}, 64),
    "efficientnet": ("tf_efficientnet_lite0", {}, 64),
    "mobilenet": ("mobilenetv3_small_050", {}, 64),
}
PIXELS = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}


def timm_model(kind: str) -> Any:
    """Return one of timm's networks, drawn so that every weight matters."""
    architecture, options, size = TIMM[kind]
    said = {"input_size": (3, size, size), "crop_pct": 0.9, **PIXELS}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = timm.create_model(architecture, pretrained_cfg_overlay=said, **options)
        for name, parameter in model.named_parameters():
            if name.endswith(("gamma", "bias", "_token")):  # which start as 0, or almost
                torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def timm_folder(folder: Path, kind: str) -> Path:
    """Write such a network as timm writes it for the hub."""
    options = TIMM[kind][1]
    timm.models.save_for_hf(timm_model(kind), folder, model_args=options, safe_serialization=True)
    return folder


def onnx_weights() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "kernel": torch.randn(8, 3, 4, 4, generator=draw) / 7,
        "bias": torch.randn(8, generator=draw),
        "linear": torch.randn(8, 6, generator=draw),
    }


def onnx_outputs(images: Tensor) -> list[Tensor]:
    """Return what the ONNX files of this module compute, by torch: map, tokens and vector."""
    weights = {name: x.to(images.dtype) for name, x in onnx_weights().items()}
    activation = F.conv2d(images, weights["kernel"], weights["bias"], stride=4).relu()
    tokens = activation.flatten(2).transpose(1, 2)
    return [activation, tokens, activation.mean(dim=(2, 3)) @ weights["linear"]]


def onnx_file(
    path: Path,
    shape: tuple[int | str, ...] = ("N", 3, "S", "S"),
    outputs: tuple[str, ...] = ("map", "tokens", "vector"),
    metadata: Mapping[str, str] | None = None,
    element: int = TensorProto.FLOAT,
    change: Callable[[onnx.ModelProto], None] = lambda _: None,
) -> Path:
    """Write a graph that computes `onnx_outputs`."""
    tensors = [numpy_helper.from_array(x.numpy(), name) for name, x in onnx_weights().items()]
    tensors.append(numpy_helper.from_array(np.array([0, 8, -1], np.int64), "flat"))
    nodes = [
        helper.make_node("Conv", ["images", "kernel", "bias"], ["sums"], strides=[4, 4]),
        helper.make_node("Relu", ["sums"], ["map"]),
        helper.make_node("Reshape", ["map", "flat"], ["rows"]),
        helper.make_node("Transpose", ["rows"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("ReduceMean", ["map"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "linear"], ["vector"]),
        helper.make_node("Shape", ["images"], ["shape"]),
    ]
    images = helper.make_tensor_value_info("images", element, shape)
    kinds = {"shape": TensorProto.INT64}
    wanted = [
        helper.make_tensor_value_info(name, kinds.get(name, element), None) for name in outputs
    ]
    graph = helper.make_graph(nodes, "small", [images], wanted, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, dict(metadata or {}))
    change(model)
    onnx.save(model, str(path))
    return path
