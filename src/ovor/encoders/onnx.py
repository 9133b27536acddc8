"""Any network in an ONNX file, such as a company's own, run by onnxruntime on the CPU.

Images go in (N, 3, H, W). What comes out are vectors (N, D), activations (N, D, H, W) of which the
mean over all places is read, or tokens (N, T, D) of which the first and the mean of the others are
read. Several outputs are several depths.
"""

import hashlib
import json
import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ovor.encoders.backbone import Backbone
from ovor.encoders.base import Encoder
from ovor.encoders.preprocessing import (
    Preprocessing,
    find_for_any,
    input_size,
    of_config,
    read_config,
)
from ovor.errors import OvorError
from ovor.onnx_runtime import INSTALL, onnx_runtime

USUAL = 224  # pixels, where the file does not tell
SMALLEST = 32
AT_ONCE = 16 * USUAL**2  # pixels of the images that go in together
CONFIG = "pretrained_cfg"  # of the metadata: JSON in timm's words
TYPES = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16}


class OnnxEncoder(Encoder):
    """A session of onnxruntime, opened again wherever this is copied to."""

    bundles = False
    exports = False

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path.absolute()
        self.session = open_session(path)
        (image,) = self.session.get_inputs()
        self.input, self.dtype = image.name, TYPES[image.type]
        self.fixed_batch, _, *sides = (x if isinstance(x, int) else 0 for x in image.shape)
        self.fixed_size = max(sides)
        self.image_size = self.fixed_size or own_size(self.session, path)
        self.outputs = [output.name for output in self.session.get_outputs()]
        found = self.run(torch.zeros(1, 3, self.image_size, self.image_size), self.outputs)
        # Only what has a row for each image can be its features.
        fitting = [x.ndim in (2, 3, 4) and len(x) == 1 and x.is_floating_point() for x in found]
        self.outputs = [name for name, fits in zip(self.outputs, fitting, strict=True) if fits]
        kept = [x for x, fits in zip(found, fitting, strict=True) if fits]
        self.widths = tuple(pooled(x).shape[1] for x in kept)
        self.eval()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.session = open_session(self.path)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def input_size(self, wanted: int) -> int:
        size = wanted or self.image_size
        if self.fixed_size and size != self.fixed_size:
            raise OvorError(
                f"An image size of {size} does not fit this backbone, which takes one only: use "
                f"{self.image_size}, its own."
            )
        if size < min(SMALLEST, self.image_size):
            raise OvorError(
                f"An image size of {size} is too small for this backbone: use {self.image_size}, "
                "its own."
            )
        return size

    def batch(self, size: int) -> int:
        """Return a number that suits most networks: what goes on inside is not known."""
        return self.fixed_batch or max(1, AT_ONCE // size**2)

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        wanted = [self.outputs[depth] for depth in sorted(which)]
        found = [pooled(x) for x in self.run(images, wanted)]
        return torch.cat(found, dim=1).to(images.device)

    def run(self, images: Tensor, outputs: list[str]) -> list[Tensor]:
        """Return these outputs for images, in slices if the graph takes one number of them only."""
        size = self.fixed_batch or max(1, len(images))
        parts = [self.run_slice(part, size, outputs) for part in torch.split(images, size)]
        return [torch.cat(each) for each in zip(*parts, strict=True)]

    def run_slice(self, images: Tensor, size: int, outputs: list[str]) -> list[Tensor]:
        """Return the outputs for at most so many images, filled up to that number."""
        missing = size - len(images)
        full = torch.cat([images, images.new_zeros(missing, *images.shape[1:])])
        pixels = full.to("cpu", self.dtype).contiguous().numpy()
        try:
            found = self.session.run(outputs, {self.input: pixels})
        except Exception as error:  # its own kinds are not public
            side = images.shape[-1]
            raise OvorError(
                f"{self.path.name} cannot be run on {size} image(s) of {side} pixels "
                f"({first_line(error)}): if it is made for another size, write "
                f'{{"input_size": [3, SIZE, SIZE]}} into {self.path.with_suffix(".json").name} '
                "beside it, with mean and std."
            ) from error
        return [rows(torch.from_numpy(x), size, len(images)) for x in found]


def rows(found: Tensor, size: int, wanted: int) -> Tensor:
    """Return the rows of the images among those that were filled up, if it has rows of images."""
    return found[:wanted] if found.ndim and len(found) == size else found


def pooled(found: Tensor) -> Tensor:
    """Return what is kept of an output, each vector normalised (B, D)."""
    found = found.float()
    if found.ndim == 4:
        vectors = [found.mean(dim=(2, 3))]
    elif found.ndim == 3 and found.shape[1] > 1:
        vectors = [found[:, 0], found[:, 1:].mean(dim=1)]
    else:
        vectors = [found.flatten(1)]
    return torch.cat([F.layer_norm(x, x.shape[-1:]) for x in vectors], dim=1)


def load(name: str, _: int | None) -> Backbone:
    """Load a network from an ONNX file."""
    path = Path(os.path.expanduser(name))
    if not path.is_file():
        raise OvorError(f"There is no file {path}: give the path of an ONNX file after onnx:")
    encoder = OnnxEncoder(path)
    if not encoder.widths:
        raise OvorError(
            f"{path.name} has no output that could be features, (N, D), (N, D, H, W) or (N, T, D) "
            "of floating-point numbers with a row for each image: export the network with one."
        )
    own = preprocessing(encoder.session, path, encoder.image_size)
    return Backbone(encoder, f"onnx:{name}", f"file: {path.name}", digest(path), own)


def open_session(path: Path) -> Any:
    """Return a session for a file that takes one batch of images and nothing else."""
    onnxruntime = onnx_runtime("A network in an ONNX file")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        # By its path, as its weights may lie in files beside it.
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its own kinds are not public
        raise OvorError(
            f"{path.name} is no ONNX file that onnxruntime {onnxruntime.__version__} can open "
            f"({first_line(error)}): export it again, or update onnxruntime."
        ) from error
    check(session, path)
    return session


def check(session: Any, path: Path) -> None:
    """Refuse a graph that does not take one batch of images."""
    if "ovor" in session.get_modelmeta().custom_metadata_map:
        raise OvorError(
            f"{path.name} is a classifier that `ovor export` made, not a network to learn with: "
            "give the network that it was learned with."
        )
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 and inputs[0].type in TYPES else []
    if len(shape) != 4 or (isinstance(shape[1], int) and shape[1] != 3):
        said = ", ".join(f"{x.name} {x.type} {x.shape}" for x in inputs)
        raise OvorError(
            f"{path.name} does not take images, which are one input of floating-point numbers "
            f"(N, 3, H, W), but {said or 'nothing'}: export the network with such an input."
        )
    sides = {side for side in shape[2:] if isinstance(side, int)}
    if len(sides) > 1:
        raise OvorError(
            f"{path.name} takes images of {shape[2]} x {shape[3]} pixels, and images are square "
            "here: export the network for square ones."
        )


def preprocessing(session: Any, path: Path, size: int) -> Preprocessing:
    """Return how the network wants its images: its metadata says it, or a file beside it."""
    said = metadata(session, path)
    if {"mean", "std"} <= said.keys():
        found = of_config({"input_size": size, **said}, f"the metadata of {path.name}")
    else:
        found = find_for_any(path, path.name, size)
    return replace(found, size=size)


def own_size(session: Any, path: Path) -> int:
    """Return the size of image that the file says, or one beside it, or the usual one."""
    said = metadata(session, path) or read_config(path.with_suffix(".json")) or {}
    try:
        return input_size(said.get("input_size", USUAL))
    except (TypeError, ValueError, IndexError) as error:
        raise OvorError(
            f"{path.name} says {said['input_size']!r} of the size of its images: write it as "
            "[3, SIZE, SIZE]."
        ) from error


def metadata(session: Any, path: Path) -> dict[str, Any]:
    """Return what the file says of its images, in timm's words."""
    said = session.get_modelmeta().custom_metadata_map.get(CONFIG, "{}")
    try:
        return dict(json.loads(said))
    except (ValueError, TypeError) as error:
        raise OvorError(
            f"The metadata of {path.name} has a {CONFIG} that is not JSON ({error}): write it anew."
        ) from error


def digest(path: Path) -> str:
    """Return the SHA-256 of the file, and of what lies beside it and belongs to it."""
    files = [path, *sorted(external(path))]
    found = hashlib.sha256()
    for each in files:
        with each.open("rb") as file:
            own = hashlib.file_digest(file, "sha256")
        if len(files) == 1:
            return own.hexdigest()
        found.update(own.digest())
    return found.hexdigest()


def external(path: Path) -> set[Path]:
    """Return the files that hold tensors of the graph."""
    try:
        import onnx
    except ImportError as error:
        what = "A network in an ONNX file needs the package onnx"
        raise OvorError(f"{what}: {INSTALL}.") from error
    graph = onnx.load(str(path), load_external_data=False).graph
    places = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return {path.parent / place for place in places}


def first_line(error: Exception) -> str:
    """Return the beginning of what onnxruntime says."""
    return str(error).strip().split("\n")[0][:200]
