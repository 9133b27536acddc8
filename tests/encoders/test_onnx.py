"""Networks in ONNX files: what onnxruntime computes, and sentences where it cannot."""

import copy
import hashlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from torch import Tensor

from ovor.encoders import load_backbone
from ovor.encoders.onnx import OnnxEncoder
from ovor.errors import OvorError
from rounding import rounding
from small_networks import onnx_file, onnx_outputs

PIXELS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}


def encoder_of(path: Path) -> OnnxEncoder:
    found = load_backbone(f"onnx:{path}").encoder
    assert isinstance(found, OnnxEncoder)
    return found


def refused(path: object) -> str:
    with pytest.raises(OvorError) as found:
        load_backbone(f"onnx:{path}")
    return str(found.value)


def random_images(count: int, size: int) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def expected(images: Tensor) -> Tensor:
    activation, tokens, vector = onnx_outputs(images.double())
    parts = [activation.mean(dim=(2, 3)), tokens[:, 0], tokens[:, 1:].mean(dim=1), vector]
    return torch.cat([F.layer_norm(x, x.shape[-1:]) for x in parts], dim=1)


def test_maps_tokens_and_vectors_become_features(tmp_path: Path) -> None:
    encoder, images = encoder_of(onnx_file(tmp_path / "net.onnx")), random_images(3, 32)
    found = encoder.depths(images, [0, 1, 2])
    assert encoder.widths == (8, 16, 6)
    assert (found - expected(images)).abs().max() <= rounding(encoder, found)


def test_a_number_of_images_that_is_fixed_is_filled_up(tmp_path: Path) -> None:
    encoder = encoder_of(onnx_file(tmp_path / "net.onnx", shape=(2, 3, 32, 32)))
    images = random_images(5, 32)
    found = encoder.depths(images, [0, 1, 2])
    assert (encoder.batch(32), encoder.image_size) == (2, 32)
    assert (found - expected(images)).abs().max() <= rounding(encoder, found)
    with pytest.raises(OvorError, match="takes one only: use 32, its own"):
        encoder.input_size(64)


def test_all_outputs_are_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of(onnx_file(tmp_path / "net.onnx"))
    runs: list[list[str]] = []
    real = encoder.session.run

    def run(outputs: list[str], feed: Any) -> Any:
        runs.append(outputs)
        return real(outputs, feed)

    monkeypatch.setattr(encoder.session, "run", run)
    encoder.depths(random_images(3, 32), [0, 2])
    assert runs == [["map", "vector"]]


def test_half_precision_goes_in_as_such(tmp_path: Path) -> None:
    def halve(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if tensor.data_type == TensorProto.FLOAT:
                half = onnx.numpy_helper.to_array(tensor).astype("float16")
                tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))

    path = onnx_file(tmp_path / "net.onnx", element=TensorProto.FLOAT16, change=halve)
    images = random_images(2, 32)
    found = encoder_of(path).depths(images, [0, 1, 2])
    assert found.dtype == torch.float32
    assert (found - expected(images)).abs().max() < 0.02


def test_copies_open_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx_file(tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    encoder, images = encoder_of(Path("net.onnx")), random_images(2, 32)
    monkeypatch.chdir("/")
    for again in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert torch.equal(again.depths(images, [1]), encoder.depths(images, [1]))


def test_weights_beside_the_file_are_part_of_its_digest(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "net.onnx")
    assert load_backbone(f"onnx:{path}").sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    onnx.save(
        onnx.load(path),
        tmp_path / "apart.onnx",
        save_as_external_data=True,
        location="apart.data",
        size_threshold=64,
    )
    first = load_backbone(f"onnx:{tmp_path / 'apart.onnx'}").sha256
    data = bytearray((tmp_path / "apart.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "apart.data").write_bytes(data)
    assert load_backbone(f"onnx:{tmp_path / 'apart.onnx'}").sha256 != first


def test_the_file_says_how_it_wants_its_images(tmp_path: Path) -> None:
    said = {"pretrained_cfg": json.dumps({**PIXELS, "input_size": [3, 48, 48], "crop_pct": 0.8})}
    own = load_backbone(f"onnx:{onnx_file(tmp_path / 'a.onnx', metadata=said)}").preprocessing
    assert own is not None
    assert (own.size, own.mean, own.crop_pct, own.guessed) == (48, (0.5, 0.4, 0.3), 0.8, False)


def test_a_file_beside_it_says_how_it_wants_its_images(tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "a.onnx")
    (tmp_path / "a.json").write_text(json.dumps({**PIXELS, "input_size": 40}))
    own = load_backbone(f"onnx:{path}").preprocessing
    assert own is not None
    assert (own.size, own.std, own.guessed) == (40, (0.2, 0.25, 0.3), False)


def test_nothing_says_how_it_wants_its_images(tmp_path: Path) -> None:
    own = load_backbone(f"onnx:{onnx_file(tmp_path / 'a.onnx')}").preprocessing
    assert own is not None
    assert (own.size, own.guessed) == (224, True)


def test_what_is_no_such_graph_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert "There is no file" in refused(path)
    assert "There is no file" in refused("")
    with pytest.raises(OvorError, match=f"write onnx:{path}"):
        load_backbone(str(path))
    path.write_bytes(b"no graph")
    assert "is no ONNX file that onnxruntime" in refused(path)
    for shape in (("N", 1, "S", "S"), ("N", 32, 32, 3)):
        assert "does not take images" in refused(onnx_file(path, shape=shape))
    assert "and images are square here" in refused(onnx_file(path, shape=("N", 3, 32, 64)))
    assert "has no output that could be features" in refused(onnx_file(path, outputs=("shape",)))
    assert "cannot be run on 1 image(s) of 2 pixels" in refused(
        onnx_file(path, shape=("N", 3, 2, 2))
    )
    assert "`ovor export` made" in refused(onnx_file(path, metadata={"ovor": "{}"}))
    assert "not JSON" in refused(onnx_file(path, metadata={"pretrained_cfg": "{"}))
    wrong = {"pretrained_cfg": json.dumps({"input_size": "large"})}
    assert "size of its images" in refused(onnx_file(path, metadata=wrong))


def test_several_inputs_are_a_sentence(tmp_path: Path) -> None:
    def add_input(model: onnx.ModelProto) -> None:
        model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1]))

    said = refused(onnx_file(tmp_path / "net.onnx", change=add_input))
    assert "does not take images" in said
    assert "mask" in said


def test_without_onnxruntime_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = onnx_file(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "pip install 'ovor[onnx]'" in refused(path)
