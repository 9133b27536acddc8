"""Writing a classifier as one ONNX file: prompts folded in, class names and thresholds inside.

The file is written only if it computes what torch does.
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ovor.atomic import write_atomically
from ovor.classifier.model import Classifier
from ovor.classifier.onnx import SCHEMA, check_place, open_session, sealed
from ovor.config import Transform
from ovor.errors import OvorError
from ovor.onnx_runtime import INSTALL, onnx_runtime

KIND = "ovor classifier"
# Of the exporter's, which tells of packages that it does without.
logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
TOLERANCE = 1e-4
LIMIT = 2_000_000_000  # bytes: protobuf, which ONNX files are written in, ends at 2 GB


def export_onnx(model: Classifier, path: str | Path) -> float:
    """Write the file if it computes what torch does; returns the largest difference found."""
    path = Path(path).expanduser()
    check_place(path)
    onnx_runtime("Exporting")
    try:
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
    for end, beside in model.reads.files().items():
        write_atomically(path.with_suffix(end), beside)
    write_atomically(path, content)
    return difference


def exported(model: Classifier) -> tuple[bytes, float]:
    """Return the content of the file, and how far what it computes is from the model."""
    transform = model.transform()
    graph = Graph(model, transform).eval()
    proto = to_proto(graph, graph.example(2))
    proto.metadata_props.add(key="ovor", value=json.dumps(describe(model, transform)))
    content = sealed(proto.SerializeToString())
    return content, compare(graph, content)


class Exportable(nn.Module):
    """A graph of one input, and what a file of it calls its ends."""

    takes: str
    gives: tuple[str, ...]
    free: tuple[int, ...] = (0,)  # dimensions of the input that may be any


class Graph(Exportable):
    """Pixels, or ids of tokens -> logits of all classes, and the margin of the likeliest task."""

    def __init__(self, model: Classifier, transform: Transform) -> None:
        super().__init__()
        self.learner = model.learner().eval()
        self.encoder, self.transform = model.network().encoder, transform
        self.takes, self.gives = self.encoder.reads.input_name, ("logits", "margins")
        self.free = self.encoder.free
        self.judge = model.judge()

    def example(self, count: int) -> Tensor:
        """Return so many random items as the graph takes them, the same every time."""
        draw = torch.Generator().manual_seed(count)
        return self.encoder.example(self.transform, count, draw)

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        features = self.learner.features(self.encoder.of_export(items, self.transform))
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
        "preprocessing": model.reads.described(transform),
    }


def to_proto(graph: Exportable, example: Tensor) -> Any:
    """Return the graph as an ONNX message that takes any number of items."""
    try:
        program = to_program(graph, example)
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
def to_program(graph: Exportable, example: Tensor) -> Any:
    """Return the graph as torch's exporter writes it, traced with an example of its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        # Exported first: by itself torch.onnx tries other ways after a failure, each for seconds,
        # and prints about them.
        traced = torch.export.export(
            graph,
            (example,),
            dynamic_shapes=(dict.fromkeys(graph.free, torch.export.Dim.DYNAMIC),),
            strict=False,
        )
        return torch.onnx.export(
            traced,
            dynamo=True,
            input_names=[graph.takes],
            output_names=list(graph.gives),
            verbose=False,
        )


def compare(graph: Graph, content: bytes) -> float:
    """Return the largest difference between the file's outputs and the graph's, or refuse it.

    Both see the same random items, in batches of other sizes than the graph was traced with.
    """
    session, worst = open_session(content, "the export"), 0.0
    for count in (1, 3, 8):
        items = graph.example(count)
        with torch.no_grad():
            ours = graph(items)
        theirs = session.run(None, {graph.takes: items.numpy()})
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
