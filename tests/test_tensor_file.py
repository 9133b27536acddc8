"""Files that come back as they were, or say that they are damaged."""

from pathlib import Path

import pytest
import torch

from ovor.errors import OvorError
from ovor.tensor_file import load_tensors, save_tensors


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "file.safetensors"
    save_tensors(path, {"b": torch.arange(64.0).view(8, 8), "a": torch.ones(3).half()}, {"x": [1]})
    return path


def test_round_trip(saved: Path) -> None:
    tensors, meta = load_tensors(saved)
    assert torch.equal(tensors["b"], torch.arange(64.0).view(8, 8))
    assert tensors["a"].dtype == torch.half
    assert meta == {"x": [1]}
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_flipped_bit_is_found(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-20] ^= 1
    saved.write_bytes(content)
    with pytest.raises(OvorError, match="damaged"):
        load_tensors(saved)


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_a_truncated_file_is_named(saved: Path, length: int) -> None:
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(OvorError, match=saved.name):
        load_tensors(saved)


def test_a_failed_write_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="disk full"):
        save_tensors(saved, {"c": torch.zeros(1)}, {})
    assert saved.read_bytes() == before
