"""The network for photographs at 224 px: against timm's own, against onnxruntime, and the peak.

All have the same random weights, and their features are compared before their time.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Row, interleave, ratios
from benchmarks.models import Step
from benchmarks.step import PRODUCTS, SIDE, product
from ovor.analysis.cost import count_macs
from ovor.encoders import efficientnet
from ovor.encoders.efficientnet import EfficientNet, pooled
from ovor.encoders.timm import import_timm

SIZE = 224
PORTIONS = 4  # of as many images as the network likes at once
# By timm's names for the parts of a block with and without an expansion: the packages'.
PLAIN = {"conv_dw": "_depthwise_conv", "bn1": "_bn1", "conv_pw": "_project_conv", "bn2": "_bn2"}
EXPANDED = {
    "conv_pw": "_expand_conv",
    "bn1": "_bn0",
    "conv_dw": "_depthwise_conv",
    "bn2": "_bn1",
    "conv_pwl": "_project_conv",
    "bn3": "_bn2",
}
AROUND = {"conv_stem": "_conv_stem", "bn1": "_bn0", "conv_head": "_conv_head", "bn2": "_bn1"}


def measure(quick: bool) -> Iterator[Row]:
    timm = random_timm()
    ours = efficientnet.build(renamed(timm), "timm's network")
    size = ours.batch(SIZE)
    images = torch.randn(PORTIONS * size, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    every = range(len(ours.widths))
    session = Session(ours, images[:size])
    with torch.no_grad():
        expected = pooled(timm.forward_features(images[:size]))
        ends = ours.depths(images[:size], every)[:, -expected.shape[1] :]
        torch.testing.assert_close(ends, expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(session(images[:size]), ours.depths(images[:size], every))
        seconds = interleave(
            {
                "timm": lambda: timm.forward_features(images),
                "timm in portions": in_portions(timm.forward_features, images, size),
                "onnxruntime": in_portions(session, images, size),
                "ours": in_portions(lambda x: ours.depths(x, every), images, size),
                "peak": product(),
            },
            3 if quick else 9,
        )
    yield from rows(seconds, ours, len(images), size)


def rows(
    seconds: dict[str, list[float]], ours: EfficientNet, count: int, size: int
) -> Iterator[Row]:
    speed = tuple(count / s for s in seconds["ours"])
    yield Row("encoding photographs, photos", "", speed, unit="images a second")
    whole = ratios(seconds, "timm", "ours")
    yield Row(f"  {size} at once", f"timm, {count} at once", whole, at_least=1.3)
    yield Row(f"  {size} at once", f"timm, {size}", ratios(seconds, "timm in portions", "ours"))
    yield Row(f"  {size} at once", f"onnxruntime, {size}", ratios(seconds, "onnxruntime", "ours"))
    empty = copy.deepcopy(ours).to("meta")
    macs = count_macs(lambda image: empty.depths(image, range(len(ours.widths))), SIZE)
    done = [2 * macs * count / s / 1e9 for s in seconds["ours"]]
    peak = [PRODUCTS * 2 * SIDE**3 / s / 1e9 for s in seconds["peak"]]
    shares = tuple(100 * d / p for d, p in zip(done, peak, strict=True))
    yield Row("  its share of the peak", "product", shares, unit="%")


def random_timm() -> Any:
    """Return timm's network, its norms drawn so that they do something."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        timm = import_timm().create_model("tf_efficientnet_lite0").eval().requires_grad_(False)
        for module in timm.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.1)
    return timm


def renamed(timm: nn.Module) -> dict[str, Tensor]:
    """Return the weights of timm's network under the names of the packages."""
    tensors, found = timm.state_dict(), {}
    blocks = sorted({tuple(map(int, k.split(".")[1:3])) for k in tensors if k[:7] == "blocks."})
    for name, tensor in tensors.items():
        *place, part, kind = name.split(".")
        if not place and part in AROUND:
            found[f"{AROUND[part]}.{kind}"] = tensor
        elif place:
            stage, number = map(int, place[1:])
            names = EXPANDED if f"{'.'.join(place)}.conv_pwl.weight" in tensors else PLAIN
            found[f"_blocks.{blocks.index((stage, number))}.{names[part]}.{kind}"] = tensor
    return found


def in_portions(forward: Any, images: Tensor, size: int) -> Step:
    def run() -> None:
        for some in images.split(size):  # type: ignore[no-untyped-call]
            forward(some)

    return run


class Session:
    """The same features by onnxruntime, with as many threads as torch has."""

    def __init__(self, ours: EfficientNet, example: Tensor) -> None:
        import onnxruntime

        program = torch.onnx.export(Depths(ours).eval(), (example,), dynamo=True, verbose=False)
        assert program is not None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = onnxruntime.InferenceSession(
            program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images: Tensor) -> Tensor:
        (found,) = self.session.run(None, {self.input: images.numpy()})
        return torch.from_numpy(found)


class Depths(nn.Module):
    """All depths of a network, as a module that torch can export."""

    def __init__(self, network: EfficientNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.depths(images, range(len(self.network.widths)))
