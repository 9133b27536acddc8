"""Rows come back as they went in, wherever they were kept, and leave nothing behind."""

import errno
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from outlier_checks import limits
from ovor.errors import OvorError
from ovor.outliers import feature_buffer
from ovor.outliers.feature_buffer import FeatureBuffer, Mapped, chunks, collected, gathered


@pytest.fixture
def _small() -> Iterator[None]:
    with limits(IN_MEMORY=100):
        yield


def numbers(rows: int, width: int) -> Tensor:
    return torch.arange(float(rows * width)).view(rows, width)


def anonymous_kilobytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.integers(1, 7),
    st.integers(0, 300),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
)
def test_rows_come_back(
    sizes: list[int], width: int, in_memory: int, at_once: int, dtype: torch.dtype
) -> None:
    expected = torch.cat([numbers(size, width) for size in sizes]).to(dtype)
    with limits(IN_MEMORY=in_memory, AT_ONCE=at_once, GATHERED=2):
        rows = collected(torch.split(expected, sizes))
        assert isinstance(rows, Mapped) == (expected.nbytes > in_memory)
        assert (len(rows), *rows.shape) == (len(expected), *expected.shape)
        assert torch.equal(rows[:], expected)
        assert torch.equal(rows[1:4], expected[1:4])
        if len(expected):
            assert torch.equal(torch.cat(list(chunks(rows))), expected)
            some = torch.randint(len(expected), (7,))
            assert torch.equal(rows[some], expected[some])
            assert torch.equal(torch.cat(list(gathered(rows, some))), expected[some])


@pytest.mark.usefixtures("_small")
def test_a_file_has_no_name_and_goes_with_its_reader(tmp_path: Path) -> None:
    kept = FeatureBuffer(tmp_path)
    for part in torch.split(numbers(90, 4), 10):
        kept.add(part)
        assert list(tmp_path.iterdir()) == []
    tensor = kept.tensor()
    del kept
    gc.collect()
    assert torch.equal(tensor, numbers(90, 4))
    assert torch.equal(tensor[torch.tensor([3, 80])], numbers(90, 4)[[3, 80]])
    assert open_files(tmp_path) <= 1  # the tensor's own
    del tensor
    assert open_files(tmp_path) == 0


def open_files(folder: Path) -> int:
    """Return how many files of a folder are mapped here, removed or not."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(folder) in line for line in lines)


def test_many_rows_take_no_memory_of_the_process(tmp_path: Path) -> None:
    """40 MB beyond a limit of 4 MB."""
    with limits(IN_MEMORY=4 * 2**20):
        before = anonymous_kilobytes()
        rows = collected((torch.ones(1000, 1000) for _ in range(10)), tmp_path)
        assert anonymous_kilobytes() - before < 20 * 1024
        assert isinstance(rows, Mapped)
        assert sum(float(chunk.sum()) for chunk in chunks(rows)) == 1e7
        assert anonymous_kilobytes() - before < 20 * 1024


@pytest.mark.usefixtures("_small")
def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(feature_buffer.tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(OvorError, match=r"No space left on device.*room for three times"):
        FeatureBuffer(tmp_path).add(numbers(90, 4))


@pytest.mark.usefixtures("_small")
def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OvorError, match="No such file or directory"):
        FeatureBuffer(tmp_path / "none").add(numbers(90, 4))
