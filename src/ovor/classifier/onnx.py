"""A classifier as one ONNX file: prompts folded in, class names and thresholds inside.

Input: `images`, float32 (B, 3, S, S), RGB from 0 to 1. Outputs: `logits` (B, classes) and `margins`
(B), below 0 where no task claims the image. How an image becomes the input is in the metadata.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from ovor.classifier.prediction import Answers, Names, Predictions, answers, predictions
from ovor.config import Transform
from ovor.data.images import spread
from ovor.data.transforms import test_view
from ovor.errors import OvorError

if TYPE_CHECKING:
    from ovor.classifier.model import Classifier

SCHEMA = 1
KIND = "ovor classifier"
TOLERANCE = 1e-4
ERRORS = 3  # and nothing less is worth a line of onnxruntime's log
# One more entry of the metadata (field 14: key 1, value 2) whose value, the last 64 bytes of the
# file, is the digest of all before the entry: protobuf messages may simply be joined.
SEAL = b"\x72\x4f\x0a\x0bovor-sha256\x12\x40"
SEALED = len(SEAL) + 64
INSTALL = "install it with: pip install 'ovor[onnx]'"


def export_onnx(model: "Classifier", path: str | Path) -> float:
    """Write the file if it computes what torch does; returns the largest difference found."""
    from ovor.tensor_file import write_atomically

    path = Path(path).expanduser()
    check_place(path)
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise OvorError(f"Exporting needs the package {error.name}: {INSTALL}.") from error
    learner = model.learner()
    device = learner.device
    try:
        learner.cpu()
        content, difference = exported(model)
    finally:
        learner.to(device)
    write_atomically(path, content)
    return difference


def check_place(path: Path) -> None:
    """Can there be a file? Asked before the work, not after it."""
    if not path.parent.is_dir():
        raise OvorError(f"There is no folder {path.parent}: make it first.")
    if path.is_dir():
        raise OvorError(f"{path} is a folder: choose another name for the file.")


def exported(model: "Classifier") -> tuple[bytes, float]:
    """The content of the file, and how far it is from the model."""
    import torch

    from ovor.classifier.onnx_graph import Graph, to_proto

    transform = model.transform()
    graph = Graph(model, transform).eval()
    proto = to_proto(graph, torch.zeros(2, 3, transform.size, transform.size))
    proto.metadata_props.add(key="ovor", value=json.dumps(describe(model, transform)))
    content = sealed(proto.SerializeToString())
    return content, compare(graph, content, transform.size)


def describe(model: "Classifier", transform: Transform) -> dict[str, Any]:
    """All that the metadata says."""
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "tasks": [list(task.classes) for task in model.tasks_],
        "thresholds": [task.threshold for task in model.tasks_],
        "method": model.run().name,
        "backbone": {"name": model.network().name, "sha256": model.network().sha256},
        "preprocessing": {
            "color": "RGB, transparent pixels on white, upright as EXIF says",
            "resize": f"shorter side to {int(transform.size / transform.crop_pct)}, bilinear with "
            "antialiasing (Pillow's)",
            "crop": f"central {transform.size} x {transform.size}",
            "scale": "divide bytes by 255",
            "normalise": f"in the graph: (x - {transform.mean}) / {transform.std}",
            "size": transform.size,
            "crop_pct": transform.crop_pct,
        },
    }


def compare(graph: Any, content: bytes, size: int) -> float:
    """Both on the same random images, in batches of other sizes than it was traced with."""
    import torch

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


def sealed(content: bytes) -> bytes:
    """With its digest at the end."""
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def check_seal(content: bytes, path: Path) -> None:
    view = memoryview(content)  # slices without a copy
    body, seal = view[:-SEALED], view[-SEALED:]
    if seal[: len(SEAL)] != SEAL:
        raise OvorError(
            f"{path} is truncated, damaged, or not an export of ovor's: make it anew with "
            "`ovor export`."
        )
    if seal[len(SEAL) :] != hashlib.sha256(body).hexdigest().encode():
        raise OvorError(
            f"{path} is damaged, its content does not match its digest: copy it again, or export "
            "it anew."
        )


def open_session(content: bytes, name: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise OvorError(f"Predicting with {name} needs onnxruntime: {INSTALL}.") from error
    onnxruntime.set_default_logger_severity(ERRORS)
    try:
        # What the export was compared on; other providers may compute with fewer bits.
        return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds are not public
        raise OvorError(
            f"onnxruntime {onnxruntime.__version__} cannot open {name}: update onnxruntime."
        ) from error


class OnnxClassifier:
    """Predicts as the `Classifier` that was exported, without torch and without its backbone."""

    def __init__(self, session: Any, about: dict[str, Any]) -> None:
        self.session, self.about = session, about
        self.transform = Transform(
            size=about["preprocessing"]["size"], crop_pct=about["preprocessing"]["crop_pct"]
        )

    @classmethod
    def load(cls, path: str | Path) -> "OnnxClassifier":
        path = Path(path).expanduser()
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise OvorError(f"The export {path} {what}: make one with `ovor export MODEL {path}`.")
        content = path.read_bytes()
        check_seal(content, path)
        session = open_session(content, str(path))
        said = session.get_modelmeta().custom_metadata_map.get("ovor", "{}")
        about = json.loads(said)
        if about.get("schema") != SCHEMA:
            raise OvorError(
                f"{path} has the format {about.get('schema')!r}, and this version of ovor reads "
                f"{SCHEMA}: update ovor, or export it anew."
            )
        return cls(session, about)

    @property
    def classes_(self) -> Names:
        names = [name for task in self.about["tasks"] for name in task]
        return np.array(names, dtype=object)

    @property
    def task_sizes_(self) -> list[int]:
        return [len(task) for task in self.about["tasks"]]

    def predict(self, X: Any) -> Predictions:  # noqa: N803
        """As `Classifier.predict`."""
        return predictions(self.classes_, answers(self, spread(X)))

    def answer(self, images: Sequence[Image.Image]) -> Answers:
        views = np.stack([np.asarray(test_view(image, self.transform)) for image in images])
        pixels = views.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
        logits, margins = self.session.run(None, {"images": pixels})
        shifted = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
        return Answers(shifted / shifted.sum(1, keepdims=True), margins.astype(np.float64))
