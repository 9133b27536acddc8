"""How long the command line takes to print its help, which needs no torch, and to name one image.

In seconds, since a person waits for them; Python itself and torch stand beside them for scale. To
name an image takes little more than to load torch and the weights of the backbone.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.torch import save_file

from benchmarks.harness import Row, interleave, ratios
from benchmarks.models import random_vit
from ovor import Classifier

COMMANDS = {
    "ovor --help": ["-m", "ovor", "--help"],
    "ovor run --help": ["-m", "ovor", "run", "--help"],
    "python -c pass": ["-c", "pass"],
    "importing torch": ["-c", "import torch"],
}


def measure(quick: bool) -> Iterator[Row]:
    children = {name: partial(python, arguments) for name, arguments in COMMANDS.items()}
    seconds = interleave(children, 3 if quick else 9)
    yield Row("ovor --help", "", tuple(seconds["ovor --help"]), unit="s", at_most=0.5)
    for name in ("ovor run --help", "python -c pass"):
        yield Row(name, "", tuple(seconds[name]), unit="s")
    yield Row("importing torch", "ovor --help", ratios(seconds, "importing torch", "ovor --help"))
    with tempfile.TemporaryDirectory() as folder:
        yield predict(Path(folder), 2 if quick else 5)


def predict(folder: Path, rounds: int) -> Row:
    """The whole command on one image, with a model on ViT-B/16."""
    save_file(random_vit().state_dict(), folder / "vit.safetensors")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 256, 256, 3), np.uint8)
    model = Classifier(str(folder / "vit.safetensors"), "simplecil", hold_out=0.0)
    model.learn(pixels, ["a", "b"])
    model.save(folder / "m.ovor")
    Image.fromarray(pixels[0]).save(folder / "a.jpg")
    load = (
        "import torch; from ovor.encoders import load_backbone; "
        f"load_backbone({str(folder / 'vit.safetensors')!r})"
    )
    children = {
        "predict": ["-m", "ovor", "predict", str(folder / "m.ovor"), str(folder / "a.jpg")],
        "load": ["-c", load],
    }
    seconds = interleave({name: partial(python, args) for name, args in children.items()}, rounds)
    found = ratios(seconds, "predict", "load")
    return Row("ovor predict, one image", "loading torch and weights", found, at_most=1.5)


def python(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
