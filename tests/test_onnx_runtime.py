"""onnxruntime computes, and tells nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")


def written(home: Path, program: str) -> list[Path]:
    """Return what a program leaves in an empty home."""
    home.mkdir()
    said = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    said |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    subprocess.run([sys.executable, "-c", program], check=True, env=said)
    return sorted(home.rglob("*"))


def test_nothing_of_the_device_is_written_down_for_its_maker(tmp_path: Path) -> None:
    quiet = "from ovor.onnx_runtime import onnx_runtime; onnx_runtime('A test')"
    assert written(tmp_path / "ours", quiet) == []
    if not written(tmp_path / "theirs", "import onnxruntime"):
        pytest.skip("this release of onnxruntime writes nothing anyway")
