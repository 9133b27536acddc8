"""The encoder of a model alone as ONNX: views in, the features out that the model learns from.

What follows from features is little, and is computed elsewhere: in a browser, say.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ovor.classifier.model import Classifier
from ovor.classifier.onnx import open_session
from ovor.classifier.onnx_export import TOLERANCE, Exportable, to_proto
from ovor.config import Transform
from ovor.data.transforms import channels
from ovor.errors import OvorError
from ovor.learners.analytic import Analytic
from ovor.onnx_runtime import INSTALL, onnx_runtime


class EncoderGraph(Exportable):
    """Views (B, S, S, 3 bytes) -> features as the learner has them, not rounded."""

    takes, gives = "views", ("features",)
    mean: Tensor
    std: Tensor

    def __init__(self, learner: Analytic, transform: Transform) -> None:
        super().__init__()
        self.learner = learner
        self.register_buffer("mean", channels(transform.mean))
        self.register_buffer("std", channels(transform.std))

    def forward(self, views: Tensor) -> Tensor:
        pixels = views.permute(0, 3, 1, 2).float() / 255
        return self.learner.features((pixels - self.mean) / self.std).float()


def export_encoder(model: Classifier) -> tuple[bytes, NDArray[np.float32]]:
    """Return the ONNX file, if it computes what torch does, and what it makes of `pattern`."""
    onnx_runtime("Exporting")
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise OvorError(f"Exporting needs the package {error.name}: {INSTALL}.") from error
    learner = learner_of(model)
    size = model.transform().size
    graph = EncoderGraph(learner, model.transform()).eval()
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    content: bytes = to_proto(graph, example).SerializeToString()
    return content, checked(graph, content, size)


def learner_of(model: Classifier) -> Analytic:
    """Return what computes the features of a model, on the CPU, or say why nothing can."""
    network = model.network()
    if network.encoder.reads.written:
        raise OvorError(
            f"{network.name} reads {network.encoder.reads.many}, and a page without a server asks "
            "about images: serve this model instead (ovor serve), or use another backbone."
        )
    if model.run().method != "analytic":
        raise OvorError(
            f"This model was made with {model.run().name}, which learns by training, and a page "
            "does not train: use a model of the method analytic, the default."
        )
    if not network.encoder.exports:
        raise OvorError(
            f"{network.name} cannot be written as ONNX by torch, so no page can compute with it: "
            "use another backbone, such as photos."
        )
    learner = model.exact("be taught in a page") if model.tasks_ else model.new_learner()
    return learner.cpu()


@torch.no_grad()
def checked(graph: EncoderGraph, content: bytes, size: int) -> NDArray[np.float32]:
    """Return the file's features of the pattern; refuse a file that does not compute as torch."""
    session = open_session(content, "the encoder")
    views = np.random.default_rng(1).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    views = np.concatenate([pattern(size)[None], views])
    ours = graph(torch.from_numpy(views)).numpy()
    [theirs] = session.run(None, {"views": views})
    worst = float((abs(ours - theirs) / np.maximum(abs(ours), 1)).max())
    if not worst <= TOLERANCE:
        raise OvorError(
            f"The encoder differs from torch by {worst:.1e}, more than {TOLERANCE:.0e}, and was "
            "not written: report this with the versions of torch and onnxruntime."
        )
    return np.asarray(theirs[0], np.float32)


def pattern(size: int) -> NDArray[np.uint8]:
    """Return a view by which another engine is tried: bands that a page draws by the same rule."""
    y, x, channel = np.ogrid[:size, :size, :3]
    return np.asarray((3 * x + 5 * y + 80 * channel) % 256, np.uint8)
