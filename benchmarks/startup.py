"""How long the command line takes to print its help, which needs no torch.

In seconds, since a person waits for them; Python itself and torch stand beside them for scale.
"""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Row, interleave, ratios

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


def python(arguments: list[str]) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
