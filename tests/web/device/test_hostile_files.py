"""Whatever happens to a model file, the page opens it as it was saved or says why not."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from ovor.tensor_file import digest, load_tensors

from ...classifier.damage import Damage, append, flip, move, overwrite, prepend, truncate
from ...classifier.test_file import JSON, Change, header_edit, places, swapped
from .page import Device, SaidError
from .table import classifier, clouds, images

often = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
WIDTH, CLASSES = 16, 3
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two lessons, small enough to be sent often."""
    features, rows = clouds([5] * CLASSES, WIDTH)
    model = classifier(features)
    model.learn(images(range(10)), [f"c{row}" for row in rows[:10]], once=True)
    model.learn(images(range(10, 15)), ["__proto__"] * 5)
    path = tmp_path_factory.mktemp("hostile") / "m.ovor"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def again(device: Device, file: Path) -> bytes:
    """The file as the page saves it again."""
    (found,) = device.opening([file.read_bytes()])
    assert isinstance(found, bytes)
    return found


def check_sentence(said: SaidError | bytes, *words: str) -> None:
    """One sentence for people in one line: not an error of the program's own."""
    assert isinstance(said, SaidError)
    text = str(said)
    assert said.kind == "Refused", said.stack
    assert text.endswith(".")
    assert text[0].isupper()
    assert "\n" not in text
    assert "/" not in text
    assert len(text) < 600
    assert all(word in text for word in words), text


def refused(device: Device, content: bytes, *words: str) -> None:
    check_sentence(device.opening([content])[0], *words)


def test_names_that_mean_something_to_javascript(device: Device, file: Path, again: bytes) -> None:
    memory = device.memory(file.read_bytes())
    for name in ("constructor", "toString", "hasOwnProperty"):
        memory.do("rename", "c0", name)
        memory.do("rename", name, "c0")
    assert [c["name"] for c in memory.do("model")["lessons"][1]["classes"]] == ["__proto__"]
    assert device.page.evaluate("({}).expected === undefined && ({}).polluted === undefined")


@pytest.mark.parametrize("damage", [flip, truncate, append, prepend, overwrite, move])
@often
@given(data=st.data())
def test_damage(
    damage: Damage, device: Device, file: Path, again: bytes, data: st.DataObject
) -> None:
    (found,) = device.opening([damage(file.read_bytes(), data)])
    if isinstance(found, bytes):
        assert found == again
    else:
        check_sentence(found)


def test_every_cut_of_the_beginning(device: Device, file: Path) -> None:
    content = file.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    cuts = [content[:end] for end in [*range(64), *range(64, length, 97), length - 1, length]]
    for said in device.opening(cuts):
        check_sentence(said)


EDITS: dict[str, Change] = {
    "floats as whole numbers": header_edit(b'"F64"', b'"I64"'),
    "as an unknown type": header_edit(b'"F64"', b'"F65"'),
    "as a type that JavaScript has by that name": header_edit(b'"F64"', b'"constructor"'),
    "halves as brain floats": header_edit(b'"F16"', b'"BF16"'),
    "the same product": header_edit(b'"shape":[16,3]', b'"shape":[3,16]'),
    "one dimension": header_edit(b'"shape":[16,3]', b'"shape":[48]'),
    "a huge shape": header_edit(b'"shape":[16,3]', b'"shape":[4611686018427387904,4]'),
    "a negative shape": header_edit(b'"shape":[16,3]', b'"shape":[-16,-3]'),
    "a fraction": header_edit(b'"shape":[16,3]', b'"shape":[16.0,3]'),
    "no list": header_edit(b'"shape":[16,3]', b'"shape":"16,3"'),
    "a shape of lists": header_edit(b'"shape":[16,3]', b'"shape":[[16],3]'),
    "a tensor renamed": header_edit(b"learner.bias", b"learner.bios"),
    "a tensor as a prototype": header_edit(b'"learner.bias"', b'"__proto__"'),
    "tensors swapped": swapped(b"learner.bias", b"learner.counts"),
    "a class renamed": header_edit(b"c1", b"c7"),
    "another digest": header_edit(b'\\"sha256\\": \\"', b'\\"sha256\\": \\"f'),
    "no metadata": header_edit(b'"__metadata__"', b'"_"'),
    "metadata of another kind": header_edit(b'"__metadata__":{"ovor":', b'"__metadata__":{"x":'),
    "no digest": header_edit(b'\\"sha256\\"', b'\\"sha257\\"'),
    "a list": header_edit(b'"ovor":"{', b'"ovor":"[{'),
    "deep": header_edit(b'"ovor":"', b'"ovor":"' + 100_000 * b"["),
    "deep outside": header_edit(b'{"__metadata__"', 100_000 * b'{"a":' + b'{"__metadata__"'),
    "not UTF-8": header_edit(b"c1", b"\xff\xfe"),
    "a long header": lambda content: (2**63).to_bytes(8, "little") + content[8:],
    "an empty header": lambda content: (0).to_bytes(8, "little") + content[8:],
    "a header beyond the end": lambda content: (10**6).to_bytes(8, "little") + content[8:],
    "nothing": lambda content: b"",
    "an image": lambda content: b"\x89PNG\r\n\x1a\n" + bytes(1000),
    "numbers alone": lambda content: bytes(range(256)) * 40,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_header(device: Device, file: Path, edit: Change) -> None:
    refused(device, edit(file.read_bytes()))


def test_spaces_in_the_header_change_nothing(device: Device, file: Path, again: bytes) -> None:
    edit = header_edit(b',"learner.bias"', b' ,  "learner.bias"')
    assert device.opening([edit(file.read_bytes())]) == [again]


# --- files of somebody's own making, with a digest that fits


def forged(tensors: Tensors, meta: Any) -> bytes:
    header = json.dumps({"meta": meta, "sha256": digest(tensors, meta)})
    return save(tensors, {"ovor": header})


def changed(file: Path, change: Callable[[Tensors, Any], object]) -> bytes:
    tensors, meta = load_tensors(file)
    change(tensors, meta["about"])
    return forged(tensors, meta)


def put(name: str, tensor: torch.Tensor) -> Callable[[Tensors, Any], object]:
    return lambda tensors, about: tensors.update({name: tensor})


def packed(numbers: int, level: int = 9) -> torch.Tensor:
    content = zlib.compress(bytes(numbers), level)
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def doubles(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.double)


UPPER = WIDTH * (WIDTH + 1) // 2
FORGED: dict[str, tuple[Callable[[Tensors, Any], object], str]] = {
    "nothing": (lambda t, about: t.clear(), "do not fit"),
    "a tensor less": (lambda t, about: t.pop("learner.bias"), "do not fit"),
    "a distance less": (lambda t, about: t.pop("judge.novelty.centre"), "do not fit"),
    "a tensor more": (put("learner.x", torch.ones(2)), "do not fit"),
    "of nothing": (put("x", torch.ones(2)), "weights of nothing"),
    "a backbone": (put("backbone.x", torch.ones(2)), "weights of nothing"),
    "transposed": (put("learner.weights", doubles(CLASSES, WIDTH)), "do not fit"),
    "a row more": (put("learner.weights", doubles(WIDTH + 1, CLASSES)), "do not fit"),
    "a class more": (put("learner.counts", doubles(CLASSES + 1)), "do not fit"),
    "floats": (put("learner.bias", torch.ones(CLASSES)), "do not fit"),
    "a number": (put("learner.bias", doubles()), "do not fit"),
    "NaN": (put("learner.bias", doubles(CLASSES) * torch.nan), "not finite"),
    "infinity in halves": (
        put("judge.novelty.axes", torch.full((WIDTH, 16), torch.inf).half()),
        "not finite",
    ),
    "a histogram of others": (put("judge.calibration.right", doubles(7)), "do not fit"),
    "no zlib": (put("learner.second", torch.ones(99, dtype=torch.uint8)), "do not fit"),
    "nothing packed": (put("learner.second", packed(0)), "do not fit"),
    "too little": (put("learner.second", packed(8 * UPPER - 1)), "do not fit"),
    "too much": (put("learner.second", packed(8 * UPPER + 1)), "do not fit"),
    "a bomb": (put("learner.second", packed(10**8)), "do not fit"),
    "cut off": (put("learner.sums", packed(8 * WIDTH * CLASSES, 0)[:-9].clone()), "do not fit"),
    "digests of others": (
        put("judge.digests.rows", torch.full((15,), 7, dtype=torch.int32)),
        "do not fit",
    ),
    "digests without rows": (
        put("judge.digests.digests", torch.ones(4, 16, dtype=torch.uint8)),
        "do not fit",
    ),
    "a network that trains": (
        lambda t, about: about["run"].update(method="oneprompt"),
        "the method 'oneprompt'",
    ),
    "tuned": (lambda t, about: about["run"]["options"].update(tuning="ssf"), "options"),
    "outliers": (lambda t, about: about["run"]["options"].update(outliers=0.1), "options"),
    "no class": (lambda t, about: about.update(tasks=[]), "knows no class"),
    "a class twice": (
        lambda t, about: about["tasks"][1].update(classes=["c0"]),
        "two classes of the same name",
    ),
    "a class that turns": (
        lambda t, about: about["tasks"][1].update(classes=["a\u202eb"]),
        "direction of the text",
    ),
    "a class of a line": (lambda t, about: about["tasks"][1].update(classes=["a\nb"]), "U+000A"),
    "a long class": (lambda t, about: about["tasks"][1].update(classes=["a" * 999]), "999"),
    "half a character": (lambda t, about: about["tasks"][1].update(classes=["\ud800"]), "UTF-8"),
    "6,000 classes": (
        lambda t, about: about["tasks"][1].update(
            classes=[f"n{i}" for i in range(6000)], images=[1] * 6000
        ),
        "6,002 classes",
    ),
    "no images": (lambda t, about: about["tasks"][1].update(images=[0]), "what a model must"),
    "fewer numbers": (lambda t, about: about["tasks"][1].update(images=[]), "what a model must"),
    "a share of 2": (lambda t, about: about.update(false_alarms=2), "false_alarms"),
    "not a number": (lambda t, about: about.update(false_alarms=float("nan")), "not finite"),
}


@pytest.mark.parametrize(("change", "words"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_file(device: Device, file: Path, change: Any, words: str) -> None:
    refused(device, changed(file, change), words)


@pytest.mark.parametrize(("own", "other"), [("images", "texts"), ("texts", "images")])
def test_what_a_page_reads_is_what_its_encoder_says(
    device: Device, file: Path, own: str, other: str
) -> None:
    """No kind is written into the page: a model of another one than its own is refused."""

    def of(kind: str) -> bytes:
        return changed(file, lambda t, about: about["backbone"].update(reads=kind))

    memory = device.memory(of(own))
    with pytest.raises(SaidError, match=f"reads no {own}, and this page asks about nothing else"):
        memory.do("merge", of(other))
    features = np.random.default_rng(0).normal(size=(32, WIDTH)).astype(np.float32)
    assert memory.learn(features, {"new": [30, 31]})["reads"] == own


def test_a_wide_file_takes_no_memory(device: Device, file: Path) -> None:
    """The width of a model is what its square is kept of: it has an end."""

    def widen(tensors: Tensors, about: Any) -> None:
        tensors["learner.weights"] = doubles(100_000, CLASSES)

    refused(device, changed(file, widen), "do not fit")


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        (None, "damaged"),
        ([], "damaged"),
        ({}, "not a classifier"),
        ({"kind": {}}, "not a classifier"),
        ({"kind": "ovor classifier"}, "format"),
        ({"kind": "ovor classifier", "schema": 2}, "newer"),
        ({"kind": "ovor classifier", "schema": "1"}, "learn it anew"),
        ({"kind": "ovor classifier", "schema": 1}, "what a model must"),
        ({"kind": "ovor classifier", "schema": 1, "about": []}, "what a model must"),
    ],
)
def test_words_that_are_no_description(device: Device, meta: Any, words: str) -> None:
    refused(device, forged({"a": torch.ones(1)}, meta), words)


@settings(often, max_examples=150)
@given(st.data())
def test_any_words_open_or_give_a_sentence(device: Device, file: Path, data: st.DataObject) -> None:
    tensors, meta = load_tensors(file)
    key = data.draw(st.sampled_from([p for p in places(meta) if p]))
    where: Any = meta
    for part in key[:-1]:
        where = where[part]
    where[key[-1]] = data.draw(JSON)
    (found,) = device.opening([forged(tensors, meta)])
    if isinstance(found, SaidError):
        check_sentence(found)


def test_a_file_that_cannot_be_opened_changes_nothing(device: Device, file: Path) -> None:
    memory = device.memory(file.read_bytes())
    before = memory.do("model"), memory.file()
    for content in (b"", file.read_bytes()[:-1], changed(file, FORGED["a bomb"][0])):
        with pytest.raises(SaidError):
            memory.do("merge", content)
    assert (memory.do("model"), memory.file()) == before
