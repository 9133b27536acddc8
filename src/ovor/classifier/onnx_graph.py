"""What an export computes, as a module for torch's exporter."""

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ovor.classifier.rejection import margins
from ovor.config import Transform
from ovor.errors import OvorError

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier

LIMIT = 2_000_000_000  # bytes: protobuf, which ONNX files are written in, ends at 2 GB


class Graph(nn.Module):
    """Pixels from 0 to 1 -> logits of all classes, and the margin of the most willing task."""

    def __init__(self, model: "Classifier", transform: Transform) -> None:
        super().__init__()
        self.learner = model.learner().eval()
        self.mean, self.std = transform.mean, transform.std
        self.sizes = model.task_sizes_
        self.thresholds = [task.threshold for task in model.tasks_]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        images = (images - self.mean) / self.std
        logits = self.learner.logits(self.learner.features(images)).float()
        return logits, margins(logits, self.sizes, self.thresholds)


def to_proto(graph: Graph, example: Tensor) -> Any:
    """With any number of images."""
    try:
        program = to_program(graph, example)
    except Exception as error:  # every stage of the exporter has errors of its own
        raise OvorError(
            f"torch {torch.__version__} cannot write this model as ONNX ({type(error).__name__}): "
            "export it with --bundle instead, and report this."
        ) from error
    size = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
    if size > LIMIT:
        raise OvorError(
            f"The network has {size / 1e9:.1f} GB, and an ONNX file holds at most "
            f"{LIMIT / 1e9:.0f}: export it with --bundle instead."
        )
    return program.model_proto


@torch.no_grad()
def to_program(graph: Graph, example: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        # Exported first: by itself torch.onnx tries other ways after a failure, each for seconds,
        # and prints about them.
        exported = torch.export.export(
            graph,
            (example,),
            dynamic_shapes={"images": {0: torch.export.Dim.DYNAMIC}},
            strict=False,
        )
        return torch.onnx.export(
            exported,
            dynamo=True,
            input_names=["images"],
            output_names=["logits", "margins"],
            verbose=False,
        )
