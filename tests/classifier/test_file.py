"""Whatever happens to a model file, it is loaded as it was saved or not at all."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from ovor import Classifier, OvorError
from ovor.classifier.file import DESCRIPTION, read_model
from ovor.tensor_file import digest, load_tensors, save_tensors

from .damage import Damage, append, flip, move, overwrite, prepend, truncate

# The fixtures are read only, so that they may be shared by all examples.
often = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: str) -> dict[str, Path]:
    """A model of two tasks, and a lesson that was stopped."""
    root = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (8, 14, 14, 3), dtype=np.uint8)
    model = Classifier(tiny_backbone, "simplecil", device="cpu")
    model.learn(images[:4], ["ant", "ant", "bee", "bee"]).learn(images[4:6], ["cat", "dog"])
    model.save(root / "m.ovor")
    # A checkpoint stays where a lesson was; that it is done does not show in it.
    Classifier(tiny_backbone, "linear", epochs=2, device="cpu").learn(
        images[:4], ["ant", "ant", "bee", "bee"], checkpoint=root / "m.learning"
    )
    (root / "damaged").mkdir()
    return {"m.ovor": root / "m.ovor", "m.learning": root / "m.learning"}


def said(path: Path) -> tuple[dict[str, torch.Tensor], object]:
    """All that a file says, the way its reader reads it."""
    if path.suffix == ".learning":
        return load_tensors(path)
    model = Classifier.load(path, device="cpu")
    return model.learner().learned_state(), DESCRIPTION.dump_python(model.about())


def attempt(act: Callable[[], Any]) -> Any:
    """What comes of it, which may be an error for people; any other is raised."""
    try:
        return act()
    except OvorError as error:
        return error


def check(path: Path, content: bytes) -> None:
    """An error for people, or the same as before."""
    other = path.parent / "damaged" / path.name
    other.write_bytes(content)
    found = attempt(lambda: said(other))
    if isinstance(found, OvorError):
        assert str(other) in str(found)
        assert str(found).endswith(".")
        return
    tensors, words = found
    expected, expected_words = said(path)
    assert words == expected_words
    assert tensors.keys() == expected.keys()
    assert all(
        tensor.dtype == expected[name].dtype and torch.equal(tensor, expected[name])
        for name, tensor in tensors.items()
    )


@pytest.mark.parametrize("damage", [flip, truncate, append, prepend, overwrite, move])
@often
@given(name=st.sampled_from(["m.ovor", "m.learning"]), data=st.data())
def test_damage(damage: Damage, files: dict[str, Path], name: str, data: st.DataObject) -> None:
    check(files[name], damage(files[name].read_bytes(), data))


def test_every_bit_of_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "small"
    save_tensors(path, {"a": torch.ones(1), "b": torch.zeros(2, 1)}, {"x": [1.5, "y"]})
    content = path.read_bytes()
    for position in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(OvorError, match=str(path)):
            load_tensors(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(OvorError, match=str(path)):
            load_tensors(path)


# --- damage that a reader could take for sense


def header_edit(old: bytes, new: bytes) -> Change:
    def change(content: bytes) -> bytes:
        assert old in content, content[:2000]
        length = int.from_bytes(content[:8], "little")
        header = content[8 : 8 + length].replace(old, new)
        return len(header).to_bytes(8, "little") + header + content[8 + length :]

    return change


def swapped(one: bytes, other: bytes) -> Change:
    def change(content: bytes) -> bytes:
        content = header_edit(one, b"\0")(content)
        content = header_edit(other, one)(content)
        return header_edit(b"\0", other)(content)

    return change


EDITS: dict[str, Change] = {
    "floats as whole numbers": header_edit(b'"F32"', b'"I32"'),
    "as brain floats": header_edit(
        b'"dtype":"F32","shape":[2,64]', b'"dtype":"BF16","shape":[2,128]'
    ),
    "as bytes": header_edit(b'"dtype":"F32","shape":[2,64]', b'"dtype":"U8","shape":[512]'),
    "as an unknown type": header_edit(b'"F32"', b'"F33"'),
    "the same product": header_edit(b'"shape":[2,64]', b'"shape":[64,2]'),
    "one dimension": header_edit(b'"shape":[2,64]', b'"shape":[128]'),
    "a huge shape": header_edit(b'"shape":[2,64]', b'"shape":[4611686018427387904,4]'),
    "a negative shape": header_edit(b'"shape":[2,64]', b'"shape":[-2,-64]'),
    "a fraction": header_edit(b'"shape":[2,64]', b'"shape":[2.0,64]'),
    "tasks swapped": swapped(b"learner.head.tasks.0", b"learner.head.tasks.1"),
    "a tensor renamed": header_edit(b"learner.head.tasks.0", b"learner.head.tasks.7"),
    "offsets swapped": swapped(b"[0,512]", b"[512,1024]"),
    "a class renamed": header_edit(b"ant", b"elk"),
    "classes swapped": swapped(b"ant", b"bee"),
    "another threshold": header_edit(b'threshold\\": -', b'threshold\\": '),
    "another backbone": header_edit(b'sha256\\": \\"', b'sha256\\": \\"f'),
    "no metadata": header_edit(b'"__metadata__"', b'"_"'),
    "no digest": header_edit(b'\\"sha256\\"', b'\\"sha257\\"'),
    "a list": header_edit(b'"ovor":"{', b'"ovor":"[{'),
    "deep": header_edit(b'"ovor":"', b'"ovor":"' + 100_000 * b"["),
    "not UTF-8": header_edit(b"ant", b"\xff\xfe\xfd"),
    "a long header": lambda content: (2**63).to_bytes(8, "little") + content[8:],
    "an empty header": lambda content: (0).to_bytes(8, "little") + content[8:],
    "a header beyond the end": lambda content: (10**6).to_bytes(8, "little") + content[8:],
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_header(files: dict[str, Path], edit: Change) -> None:
    path = files["m.ovor"]
    other = path.parent / "damaged" / "edited.ovor"
    other.write_bytes(edit(path.read_bytes()))
    with pytest.raises(OvorError, match=r"edited\.ovor"):
        read_model(other)


def test_spaces_in_the_header_change_nothing(files: dict[str, Path]) -> None:
    path = files["m.ovor"]
    content = header_edit(b',"learner.head.tasks.1"', b' ,  "learner.head.tasks.1"')(
        path.read_bytes()
    )
    check(path, content)


# --- files of our own making, with a digest that fits


def forged(path: Path, tensors: dict[str, torch.Tensor], meta: Any) -> Path:
    header = json.dumps({"meta": meta, "sha256": digest(tensors, meta)})
    path.write_bytes(save(tensors, {"ovor": header}))
    return path


Tensors = dict[str, torch.Tensor]
FORGED: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "nothing": (lambda t: t.clear(), "do not fit"),
    "a tensor less": (lambda t: t.popitem(), "do not fit"),
    "a tensor more": (lambda t: t.update({"learner.x": torch.ones(2)}), "do not fit"),
    "of nothing": (lambda t: t.update(x=torch.ones(2)), "weights of nothing"),
    "a backbone": (lambda t: t.update({"backbone.x": torch.ones(2)}), "weights of nothing"),
    "transposed": (lambda t: t.update({k: v.T.contiguous() for k, v in t.items()}), "do not fit"),
    "too wide": (lambda t: t.update({k: torch.ones(2, 65) for k in t}), "do not fit"),
    "a row more": (lambda t: t.update({k: torch.ones(3, 64) for k in t}), "do not fit"),
    "doubles": (lambda t: t.update({k: v.double() for k, v in t.items()}), "do not fit"),
    "halves": (lambda t: t.update({k: v.half() for k, v in t.items()}), "do not fit"),
    "empty": (lambda t: t.update({k: torch.ones(0) for k in t}), "do not fit"),
    "a number": (lambda t: t.update({k: torch.tensor(1.0) for k in t}), "do not fit"),
}


@pytest.mark.parametrize(("change", "words"), FORGED.values(), ids=FORGED.keys())
def test_weights_that_do_not_fit(
    files: dict[str, Path], change: Callable[[Tensors], object], words: str, tmp_path: Path
) -> None:
    tensors, meta = load_tensors(files["m.ovor"])
    change(tensors)
    path = forged(tmp_path / "forged.ovor", tensors, meta)
    with pytest.raises(OvorError, match=words) as error:
        Classifier.load(path, device="cpu")
    assert "forged.ovor" in str(error.value)


@pytest.mark.parametrize("meta", [None, 3, "x", [], [{}], {}, {"kind": {}}, {"kind": None}])
def test_words_that_are_no_description(meta: Any, tmp_path: Path) -> None:
    path = forged(tmp_path / "forged.ovor", {"a": torch.ones(1)}, meta)
    with pytest.raises(OvorError, match=r"forged\.ovor"):
        Classifier.load(path, device="cpu")


# Any JSON value, in the place of any of the model's words.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [where, *(place for key, inner in items for place in places(inner, (*where, key)))]


@settings(often, max_examples=200)
@given(st.data())
def test_any_words_load_or_give_a_sentence(files: dict[str, Path], data: st.DataObject) -> None:
    tensors, meta = load_tensors(files["m.ovor"])
    key = data.draw(st.sampled_from([p for p in places(meta) if p]))
    where: Any = meta
    for part in key[:-1]:
        where = where[part]
    where[key[-1]] = data.draw(JSON)
    path = forged(files["m.ovor"].parent / "damaged" / "forged.ovor", tensors, meta)
    found = attempt(lambda: Classifier.load(path, device="cpu"))
    if isinstance(found, OvorError):
        assert path.name in str(found)
        assert "\n" not in str(found)
        return
    assert len(found.classes_) == 4
    chances = found.predict_proba(np.zeros((20, 30, 3), np.uint8))
    np.testing.assert_allclose(chances.sum(), 1, rtol=1e-5)
    assert attempt(lambda: found.save(path.parent / "again.ovor")) is None


# --- a backbone inside


def test_a_bundled_backbone_is_checked_too(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "whole.ovor"
    Classifier.load(files["m.ovor"], device="cpu").save(path, bundle=True)
    expected, _ = said(path)
    tensors, meta = load_tensors(path)
    inside = [name for name in tensors if name.startswith("backbone.")]
    for change, words in (
        ({inside[0]: tensors[inside[0]].int()}, "not of 32-bit numbers"),
        ({inside[0]: torch.ones(3)}, "whole.ovor has tensors"),
        ({"backbone.x": torch.ones(3)}, "tensor.s. that a plain ViT does not"),
    ):
        forged(path, {**tensors, **change}, meta)
        with pytest.raises(OvorError, match=words):
            Classifier.load(path, device="cpu")
    forged(path, {k: v for k, v in tensors.items() if k != "backbone.norm.bias"}, meta)
    with pytest.raises(OvorError, match="lacks 1 tensor"):
        Classifier.load(path, device="cpu")
    forged(path, {k: v for k, v in tensors.items() if k not in inside}, meta)
    with pytest.raises(OvorError, match="no cls_token"):
        Classifier.load(path, device="cpu")
    forged(path, tensors, meta)
    assert all(torch.equal(x, expected[name]) for name, x in said(path)[0].items())


# --- a lesson that was stopped


def test_a_damaged_lesson_is_not_continued(files: dict[str, Path], tmp_path: Path) -> None:
    tiny = read_model(files["m.ovor"]).about.backbone.name
    images = np.random.default_rng(0).integers(0, 256, (8, 14, 14, 3), dtype=np.uint8)
    path = tmp_path / "m.learning"

    def go_on(content: bytes, labels: list[str]) -> Classifier:
        path.write_bytes(content)
        model = Classifier(tiny, "linear", epochs=2, device="cpu")
        return model.learn(images[:4], labels, checkpoint=path)

    whole, labels = files["m.learning"].read_bytes(), ["ant", "ant", "bee", "bee"]
    again = go_on(whole, labels)
    for position in (9, 500, len(whole) - 4):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        with pytest.raises(OvorError, match=r"m\.learning"):
            go_on(bytes(damaged), labels)
    with pytest.raises(OvorError, match="what is learned is not the same"):
        go_on(whole, ["ant", "bee", "bee", "ant"])
    path.unlink()
    fresh = Classifier(tiny, "linear", epochs=2, device="cpu").learn(images[:4], labels)
    ours, theirs = again.learner().learned_state(), fresh.learner().learned_state()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_failed_write_leaves_nothing_beside_the_model(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shutil.copy(files["m.ovor"], tmp_path / "m.ovor")
    model = Classifier.load(path, device="cpu")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.ovor"]
    assert path.read_bytes() == files["m.ovor"].read_bytes()
