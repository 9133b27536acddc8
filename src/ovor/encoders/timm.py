"""Any network of timm's, by timm's own way to read features at several depths.

Its class token, if it has one, and its mean patch token; of a convolutional network the mean over
all places.
"""

import hashlib
import inspect
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.backbone import Backbone
from ovor.encoders.base import KEPT_BLOCK, Encoder
from ovor.encoders.hub import download
from ovor.encoders.preprocessing import CONFIG, Preprocessing, fitting, of_config
from ovor.errors import OvorError

WEIGHTS = "model.safetensors"
# Of timm's settings: where weights are, or in which other format they were.
ELSEWHERE = ("url", "hf_hub_id", "hf_hub_filename", "source", "state_dict", "custom_load")
INSTALL = "pip install 'ovor[timm]'"
SMALLEST = 32  # pixels, where most convolutional networks come to see one place
STAND_INS: list[Any] = []  # what they declare is gone when they are collected


@dataclass(frozen=True)
class Checkpoint:
    """Which network of timm's, and the file of its weights."""

    architecture: str
    options: dict[str, Any]
    """of the network, that are not its usual ones"""
    config: dict[str, Any]
    """timm's `pretrained_cfg`"""
    file: Path
    name: str
    """without the timm: before it"""
    source: str


@dataclass(frozen=True)
class Outline:
    """What a network computes of one image of some size."""

    widths: tuple[int, ...]
    largest: int
    """numbers in its largest activation"""


class TimmEncoder(Encoder):
    """A network of timm's, and what is read of it."""

    bundles = False

    def __init__(self, model: nn.Module, image_size: int) -> None:
        super().__init__()
        self.model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.image_size = image_size
        names = [name.rpartition(".")[2] for name, _ in model.named_parameters()]
        takes = inspect.signature(model.forward_intermediates).parameters  # type: ignore[arg-type]
        self.class_token = "cls_token" in names and "return_prefix_tokens" in takes
        self.options = {"return_prefix_tokens": True} if self.class_token else {}
        stages: Any = model.feature_info
        self.stages = len(stages)
        # After the stages there may be one layer more, which is wider, or nothing but a norm.
        self.more = stages[-1]["num_chs"] != model.num_features
        self.outlines: dict[int, Outline] = {}
        self.requires_grad_(False).eval()
        self.widths = self.outline(fitting(image_size)).widths

    def read(self, images: Tensor, which: Collection[int]) -> list[Tensor]:
        """Return the pooled features of these depths, each B, vectors, D.

        The depth after the stages is what follows them.
        """
        x = images.contiguous(memory_format=torch.channels_last)
        stages = sorted(depth for depth in which if depth < self.stages)
        ends = self.stages in which
        found = self.model.forward_intermediates(
            x,
            indices=stages or [self.stages - 1],
            norm=False,
            stop_early=not ends,
            intermediates_only=not ends,
            **self.options,
        )
        last, middle = found if ends else (None, found)
        pooled = [self.pooled(part) for part in (middle if stages else [])]
        return pooled if last is None else [*pooled, self.pooled(last)]

    def pooled(self, part: Any) -> Tensor:
        """Return what is kept of an activation: the class token, and the mean over all places."""
        places, prefix = part if isinstance(part, tuple | list) else (part, None)
        mean = places.mean(dim=1 if places.ndim == 3 else (2, 3))  # B, N, D or B, D, H, W
        return torch.stack([mean] if prefix is None else [prefix[:, 0], mean], dim=1).float()

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        found = self.read(images, which)
        return torch.cat([F.layer_norm(x, x.shape[-1:]).flatten(1) for x in found], dim=1)

    @torch.no_grad()
    def outline(self, size: int) -> Outline:
        """Return what it computes of an image of this size, by computing it of an empty one."""
        if size not in self.outlines:
            like = next(self.parameters())
            image = torch.zeros(1, 3, size, size, dtype=like.dtype, device=like.device)
            with largest(self.model) as sizes:
                found = self.read(image, range(self.stages + self.more))
            widths = tuple(x[0].numel() for x in found)
            self.outlines[size] = Outline(widths, max(sizes))
        return self.outlines[size]

    def input_size(self, wanted: int) -> int:
        size = wanted or self.image_size
        try:
            fits = size >= min(SMALLEST, self.image_size) and self.outline(size).widths
        except Exception:  # each network has its own way to refuse a size
            fits = ()
        if fits != self.widths:
            raise OvorError(
                f"An image size of {size} does not fit this backbone: use {self.image_size}, its "
                f"own, or try another from {min(SMALLEST, self.image_size)} on."
            )
        return size

    def batch(self, size: int) -> int:
        """Return so few that every activation is small enough for the C library to keep its memory.

        A larger one would be paid for anew each time, page by page.
        """
        return max(1, KEPT_BLOCK // (4 * self.outline(size).largest))


@contextmanager
def largest(model: nn.Module) -> Iterator[list[int]]:
    """Note how many numbers each layer of a network returns."""
    sizes = [1]

    def note(_: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel())

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    try:
        yield sizes
    finally:
        for hook in hooks:
            hook.remove()


def load(name: str, _: int | None) -> Backbone:
    """Load a network by timm's name, with or without its tag, or from a folder as on the hub."""
    timm = import_timm()
    if not name:
        raise OvorError("Write which network of timm's, such as timm:convnext_tiny.in12k.")
    folder = Path(os.path.expanduser(name))
    local = folder.is_dir() or os.sep in name
    found = in_folder(folder, name) if local else on_hub(timm, name)
    label = found.source.removeprefix("hub: ").removeprefix("folder: ")
    encoder, own = build(timm, found, label)
    with found.file.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Backbone(encoder, f"timm:{found.name}", found.source, sha256, own)


def in_folder(folder: Path, name: str) -> Checkpoint:
    """Return what a folder holds that is laid out as a timm repository on the hub."""
    for file in (CONFIG, WEIGHTS):
        if not (folder / file).is_file():
            raise OvorError(
                f"{folder} has no {file}: give a folder with both, {CONFIG} and {WEIGHTS}, as timm "
                "writes them for the hub."
            )
    try:
        said = json.loads((folder / CONFIG).read_bytes())
        architecture = said["architecture"]
        config = dict(said.get("pretrained_cfg", said))
        options = dict(said.get("model_args") or {})
    except (ValueError, KeyError, TypeError) as error:
        raise OvorError(
            f"{folder / CONFIG} does not say which network of timm's it is: write its "
            '"architecture" into it, such as "convnext_tiny".'
        ) from error
    classes = said.get("num_classes", config.get("num_classes"))
    config = {"num_classes": classes, **config} if classes is not None else config
    return Checkpoint(
        architecture, options, config, folder / WEIGHTS, name, f"folder: {folder.name}"
    )


def on_hub(timm: Any, name: str) -> Checkpoint:
    """Return which network a name of timm's is, its weights fetched if they are not cached."""
    architecture, _, tag = name.partition(".")
    known = timm.is_model(architecture)
    tags = timm.list_pretrained(f"{architecture}.*") if known else []
    if not known or (tag and name not in tags):
        near = tags[:1] or get_close_matches(architecture, timm.list_models(), n=1)
        other = f"such as timm:{near[0]}" if near else "timm.list_pretrained() has them all"
        raise OvorError(f"timm {timm.__version__} has no {name}: give another name, {other}.")
    found = timm.get_pretrained_cfg(name)
    if not found.hf_hub_id:
        raise OvorError(
            f"The hub has no weights for {name}: choose another of timm's, or give a folder with "
            f"its {CONFIG} and {WEIGHTS}."
        )
    full = f"{architecture}.{found.tag}" if found.tag else architecture
    repo = found.hf_hub_id + (full if found.hf_hub_id.endswith("/") else "")
    file = download(
        repo,
        found.hf_hub_filename or WEIGHTS,
        None,
        f"give its folder, with its {CONFIG}, as timm:FOLDER",
    )
    return Checkpoint(architecture, {}, found.to_dict(), file, full, f"hub: {repo}")


def build(timm: Any, found: Checkpoint, label: str) -> tuple[TimmEncoder, Preprocessing]:
    """Return the frozen network with its weights, and how it wants its images."""
    model = create(timm, found, label)
    if not hasattr(model, "forward_intermediates"):
        raise OvorError(
            f"timm {timm.__version__} cannot read features inside {label}: update timm, or choose "
            "another network."
        )
    config = model.pretrained_cfg
    channels, *_, size = config["input_size"]
    if channels != 3:
        raise OvorError(f"{label} reads {channels} channels, not the 3 of images: choose another.")
    try:
        encoder = TimmEncoder(model, size)
    except Exception as error:  # each network fails in its own way
        raise OvorError(
            f"Features inside {label} cannot be read ({type(error).__name__}: {error}): choose "
            "another network of timm's."
        ) from error
    said = {"input_size": size, **found.config}
    return encoder, of_config(said, f"The {CONFIG} of {label}")


def create(timm: Any, found: Checkpoint, label: str) -> Any:
    """Return timm's network, every weight of which is from the file."""
    config = {key: value for key, value in found.config.items() if key not in ELSEWHERE}
    config["file"] = str(found.file)
    # timm takes a file for another number of classes too, and then draws what does not fit.
    options = {"num_classes": config.get("num_classes", 1000), **found.options}
    for flexible in ({"dynamic_img_size": True}, {}):  # not every network knows the word
        try:
            return timm.create_model(
                found.architecture, pretrained=True, pretrained_cfg=config, **options, **flexible
            )
        except Exception as error:
            if flexible and isinstance(error, TypeError):
                continue
            raise OvorError(
                f"The weights of {label} are not those of timm's {found.architecture} "
                f"({type(error).__name__}): check both, or download them again."
            ) from error
    raise AssertionError("the last one returns or raises")


def import_timm() -> Any:
    """Return the package timm, or say how to install it.

    Some torchvision wheels have no compiled operators beside a CPU build of torch, and then neither
    torchvision nor timm can be imported until the operators they mention are declared.
    """
    try:
        import timm
    except ImportError as error:
        raise OvorError(f"Networks by timm's names need the package timm: {INSTALL}") from error
    except RuntimeError as error:
        if "torchvision::nms" not in str(error) or torch.version.cuda is not None:
            raise OvorError(
                f"timm cannot be imported ({error}): install the torchvision that belongs to torch "
                f"{torch.__version__}."
            ) from error
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        STAND_INS.append(library)
        import timm
    return timm
