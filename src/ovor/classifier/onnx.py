"""A classifier from one ONNX file, which predicts without torch; `onnx_export` writes such files.

Input: `images`, float32 (B, 3, S, S), RGB from 0 to 1; or of texts `ids`, int64 (B, windows, N), by
the tokenizer that lies beside the file. Outputs: `logits` (B, classes) and `margins`
(B), below 0 where the image is like no class that was learned. How an image becomes the input is in
the metadata.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ovor.classifier.answers import Answers
from ovor.classifier.prediction import (
    Names,
    Scores,
    check_scores,
)
from ovor.config import Transform
from ovor.data.class_names import check_stored
from ovor.data.modality import IMAGES, Modality, View
from ovor.data.tokens import modality_of
from ovor.errors import OvorError
from ovor.onnx_runtime import onnx_runtime

SCHEMA = 1
# One more entry of the metadata (field 14: key 1, value 2) whose value, the last 64 bytes of the
# file, is the digest of all before the entry: protobuf messages may simply be joined.
SEAL = b"\x72\x4f\x0a\x0bovor-sha256\x12\x40"
SEALED = len(SEAL) + 64


class OnnxClassifier(Answers):
    """Predicts as the `Classifier` that was exported, without torch and without its backbone."""

    def __init__(self, session: Any, about: dict[str, Any], reads: Modality = IMAGES) -> None:
        """Take a session of onnxruntime, the metadata of its file, and what it reads."""
        self.session, self.about, self.reads = session, about, reads
        said = about["preprocessing"]
        self.transform = Transform(
            size=said["size"],
            crop_pct=said.get("crop_pct", 1.0),
            interpolation=said.get("interpolation", "bilinear"),  # older exports do not say
        )

    @classmethod
    def load(cls, path: str | Path) -> "OnnxClassifier":
        """Return the classifier of a file; one that is damaged or of another format is refused."""
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
        found = cls(session, about, modality_of(about["preprocessing"], path))
        try:
            for name in found.classes_:
                check_stored(name)
        except ValueError as error:
            raise OvorError(f"{path} cannot be used, {error}: export it anew.") from error
        found.check_numbers(path)
        return found

    def check_numbers(self, path: Path) -> None:
        """Refuse a file whose numbers are not finite: nothing would be named by it.

        What it says of a grey image tells, and takes less time than looking at all of them.
        """
        try:
            check_scores(self.scores(self.reads.blank(self.transform)[None]))
        except OvorError as error:
            raise OvorError(f"{path} cannot be used. {error}") from error

    @property
    def classes_(self) -> Names:
        """The names of the classes, in the order in which they were learned."""
        return np.array([name for task in self.about["tasks"] for name in task], dtype=object)

    @property
    def task_sizes_(self) -> list[int]:
        """The number of classes of each task."""
        return [len(task) for task in self.about["tasks"]]

    def view(self, decoded: Any) -> View:
        """Return what the network sees of an item."""
        return self.reads.view(decoded, self.transform)

    def scores(self, views: View) -> Scores:
        """Return the classes' probabilities and the margins of a stack of views."""
        portions = self.reads.portions(views)
        found = [
            self.session.run(None, {self.reads.input_name: self.reads.exported(views[some])})
            for some in portions
        ]
        order = np.argsort(np.concatenate(portions))
        logits, margins = (np.concatenate(parts)[order] for parts in zip(*found, strict=True))
        shifted = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
        return Scores(shifted / shifted.sum(1, keepdims=True), margins.astype(np.float64))


def open_session(content: bytes, name: str) -> Any:
    """Return a session of onnxruntime for the content of a file."""
    onnxruntime = onnx_runtime(f"Predicting with {name}")
    try:
        # What the export was compared on; other providers may compute with fewer bits.
        return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds are not public
        raise OvorError(
            f"onnxruntime {onnxruntime.__version__} cannot open {name}: update onnxruntime."
        ) from error


def sealed(content: bytes) -> bytes:
    """Return the content with its digest at the end."""
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def check_seal(content: bytes, path: Path) -> None:
    """Refuse a file whose content is not what was exported."""
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


def check_place(path: Path) -> None:
    """Refuse a path where no file can be written: better before the work than after it."""
    if not path.parent.is_dir():
        raise OvorError(f"There is no folder {path.parent}: make it first.")
    if path.is_dir():
        raise OvorError(f"{path} is a folder: choose another name for the file.")
