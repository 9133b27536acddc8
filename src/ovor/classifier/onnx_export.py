"""Writing a classifier as one ONNX file: prompts folded in, class names and thresholds inside.

The file is written only if it computes what torch does.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ovor.atomic import write_atomically
from ovor.classifier.model import Classifier
from ovor.classifier.onnx import INSTALL, SCHEMA, check_place, open_session, sealed
from ovor.config import Transform
from ovor.data.transforms import channels
from ovor.errors import OvorError

KIND = "ovor classifier"
Names = tuple[str, ...]
INPUTS: Names = ("images",)
OUTPUTS: Names = ("logits", "margins")
TOLERANCE = 1e-4
LIMIT = 2_000_000_000  # bytes: protobuf, which ONNX files are written in, ends at 2 GB


def export_onnx(model: Classifier, path: str | Path) -> float:
    """Write the file if it computes what torch does; returns the largest difference found."""
    path = Path(path).expanduser()
    check_place(path)
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise OvorError(f"Exporting needs the package {error.name}: {INSTALL}.") from error
    learner, backbone = model.learner(), model.network()
    if not backbone.encoder.exports:
        raise OvorError(
            f"A model on {backbone.name} cannot be written as one ONNX file, as torch does not "
            "compute what that file does: hand on the model and that file, and predict with both "
            "(backbone=...)."
        )
    device = learner.device
    try:
        learner.cpu()
        content, difference = exported(model)
    finally:
        learner.to(device)
    write_atomically(path, content)
    return difference


def exported(model: Classifier) -> tuple[bytes, float]:
    """Return the content of the file, and how far what it computes is from the model."""
    transform = model.transform()
    graph = Graph(model, transform).eval()
    proto = to_proto(graph, torch.zeros(2, 3, transform.size, transform.size))
    proto.metadata_props.add(key="ovor", value=json.dumps(describe(model, transform)))
    content = sealed(proto.SerializeToString())
    return content, compare(graph, content, transform.size)


class Graph(nn.Module):
    """Pixels from 0 to 1 -> logits of all classes, and the margin of the most willing task."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Classifier, transform: Transform) -> None:
        super().__init__()
        self.learner = model.learner().eval()
        self.register_buffer("mean", channels(transform.mean))
        self.register_buffer("std", channels(transform.std))
        self.judge = model.judge()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        images = (images - self.mean) / self.std
        features = self.learner.features(images)
        logits, margin = self.judge(self.learner.logits(features), features)
        return logits.float(), margin.float()


def describe(model: Classifier, transform: Transform) -> dict[str, Any]:
    """Return all that the metadata says."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "tasks": [list(task.classes) for task in model.tasks_],
        "thresholds": [task.threshold for task in model.tasks_],
        "method": model.run().name,
        "backbone": {"name": model.network().name, "sha256": model.network().sha256},
        "preprocessing": {
            "color": "RGB, transparent pixels on white, upright as EXIF says",
            "resize": f"shorter side to {int(transform.size / transform.crop_pct)}, "
            f"{transform.interpolation} with antialiasing (Pillow's)",
            "crop": f"central {transform.size} x {transform.size}",
            "scale": "divide bytes by 255",
            "normalise": f"in the graph: (x - {transform.mean}) / {transform.std}",
            "size": transform.size,
            "crop_pct": transform.crop_pct,
            "interpolation": transform.interpolation,
        },
    }


def to_proto(
    graph: nn.Module, example: Tensor, inputs: Names = INPUTS, outputs: Names = OUTPUTS
) -> Any:
    """Return the graph as an ONNX message that takes any number of images."""
    try:
        program = to_program(graph, example, inputs, outputs)
    except Exception as error:  # every stage of the exporter has errors of its own
        raise OvorError(
            f"torch {torch.__version__} cannot write this model as ONNX ({type(error).__name__}): "
            "save it with its backbone (bundle=True) instead, and report this."
        ) from error
    size = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
    if size > LIMIT:
        raise OvorError(
            f"The network has {size / 1e9:.1f} GB, and an ONNX file holds at most "
            f"{LIMIT / 1e9:.0f}: save it with its backbone (bundle=True) instead."
        )
    proto = program.model_proto
    for node in proto.graph.node:  # where in this machine's files torch has traced it
        del node.metadata_props[:]
    return proto


@torch.no_grad()
def to_program(
    graph: nn.Module, example: Tensor, inputs: Names = INPUTS, outputs: Names = OUTPUTS
) -> Any:
    """Return the graph as torch's exporter writes it, traced with an example of its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        # Exported first: by itself torch.onnx tries other ways after a failure, each for seconds,
        # and prints about them.
        traced = torch.export.export(
            graph,
            (example,),
            dynamic_shapes={name: {0: torch.export.Dim.DYNAMIC} for name in inputs},
            strict=False,
        )
        return torch.onnx.export(
            traced,
            dynamo=True,
            input_names=list(inputs),
            output_names=list(outputs),
            verbose=False,
        )


def compare(graph: Graph, content: bytes, size: int) -> float:
    """Return the largest difference between the file's outputs and the graph's, or refuse it.

    Both see the same random images, in batches of other sizes than the graph was traced with.
    """
    session, worst = open_session(content, "the export"), 0.0
    draw = torch.Generator().manual_seed(1)
    for count in (1, 3, 8):
        images = torch.rand(count, 3, size, size, generator=draw)
        with torch.no_grad():
            ours = graph(images)
        theirs = session.run(None, {"images": images.numpy()})
        for mine, other in zip(ours, theirs, strict=True):
            bound = mine.abs().clamp(min=1)  # float32 has 7 digits: large logits differ more
            difference = ((mine - torch.from_numpy(other)).abs() / bound).max()
            worst = max(worst, float(difference))
    if not worst <= TOLERANCE:
        raise OvorError(
            f"The export differs from the model by {worst:.1e}, more than {TOLERANCE:.0e}, and was "
            "not written: report this with the versions of torch and onnxruntime."
        )
    return worst
