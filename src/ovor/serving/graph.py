"""What an export computes, as a module for torch's exporter."""

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ovor.config import Transform
from ovor.unknown import margins

if TYPE_CHECKING:
    from ovor.classifier import Classifier


class Graph(nn.Module):
    """Pixels from 0 to 1 -> logits of all classes, and the margin of the most willing task."""

    def __init__(self, model: "Classifier", transform: Transform) -> None:
        super().__init__()
        self.learner = model.learner().cpu().eval()
        self.mean, self.std = transform.mean, transform.std
        self.sizes = model.task_sizes_
        self.thresholds = [task.threshold for task in model.tasks_]

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        images = (images - self.mean) / self.std
        logits = self.learner.logits(self.learner.features(images)).float()
        return logits, margins(logits, self.sizes, self.thresholds)


def to_proto(graph: Graph, example: Tensor) -> Any:
    """With any number of images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        program = torch.onnx.export(
            graph,
            (example,),
            dynamo=True,
            input_names=["images"],
            output_names=["logits", "margins"],
            dynamic_shapes={"images": {0: torch.export.Dim.DYNAMIC}},
            verbose=False,
        )
    assert program is not None
    return program.model_proto
