"""The demo now, and as it was when it was first finished: the same settings on the same weights.

It takes the old package from the history of this repository, so it needs a clone with all of it.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import Row, interleave, ratios

FIRST = "ec1eb83"  # the last commit before speed was looked at, and before other methods came
ROOT = Path(__file__).parent.parent
NOTHING: dict[str, partial[None]] = {}


def measure(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder, "old")
        old.mkdir()
        archive = subprocess.run(
            ["git", "archive", FIRST, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", str(old)], input=archive, check=True)
        for asset in (ROOT / "src/ovor/assets").iterdir():
            shutil.copy(asset, old / "src/ovor/assets")
        children = {"old": partial(demo, old / "src"), "new": partial(demo, ROOT / "src")}
        seconds = interleave(children, 1 if quick else 5, warm=NOTHING)
    yield Row("the demo", "as first finished", ratios(seconds, "old", "new"), wish=1.0)


def demo(source: Path) -> None:
    """In a folder that is thrown away; then the default was five epochs."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "ovor", "run", "--epochs", "4", "--out", f"{folder}/run"],
            env={"PYTHONPATH": str(source)},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
