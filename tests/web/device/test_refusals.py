"""What cannot be done is said in a sentence, and nothing has changed then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .page import Device, OnDevice, SaidError, as_sent, given
from .table import classifier, clouds, digest, images

FEATURES, ROWS = clouds([6, 6, 6, 6], 24)
GROUPS = {"ant": [0, 1, 2, 3], "bee": [6, 7, 8]}
NEW = [12, 13, 14]
Act = Callable[[OnDevice], Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("refusals") / "m.ovor"
    labels = [name for name, rows in GROUPS.items() for _ in rows]
    model = classifier(FEATURES)
    model.learn(images([row for rows in GROUPS.values() for row in rows]), labels, once=True)
    model.save(path)
    return path.read_bytes()


def correct(row: int, name: str, was: str | None = None) -> Act:
    return lambda memory: memory.do("correct", FEATURES[row], digest(row), name, {"was": was})


def learn(**groups: list[int]) -> Act:
    return lambda memory: memory.learn(FEATURES, groups)


def with_features(features: Any) -> Act:
    one = {"name": "new", "features": [features], "digests": [digest(20)]}
    return lambda memory: memory.do("learn", [one])


REFUSALS: dict[str, tuple[Act, str, int]] = {
    "nothing": (lambda memory: memory.do("learn", []), "no image", 422),
    "learned already": (learn(ant=[0, 1]), "learned already", 422),
    "learned as another": (learn(cat=[0, 1], dog=NEW), "as another class", 422),
    "a reserved name": (learn(unknown=NEW), "what is of no class", 422),
    "other features": (with_features(np.ones(7)), "says nothing of use", 422),
    "features that are none": (with_features(np.full(24, np.nan)), "says nothing of use", 422),
    "no digests": (
        lambda memory: memory.do("learn", [{"name": "x", "features": [FEATURES[20]]}]),
        "digests",
        422,
    ),
    "a strange class": (correct(0, "bee", "cat"), "no class 'cat'", 404),
    "the same class": (correct(0, "ant", "ant"), "already", 422),
    "was not learned": (correct(20, "bee", "ant"), "not learned as 'ant'", 422),
    "was learned": (correct(0, "bee"), "learned before, as 'ant'", 422),
    "a name that is there": (lambda memory: memory.do("rename", "ant", "bee"), "already", 409),
    "no such class": (lambda memory: memory.do("rename", "cat", "dog"), "no class 'cat'", 404),
    "forget a strange one": (lambda memory: memory.do("forget", "cat"), "no class 'cat'", 404),
    "undo nothing": (lambda memory: memory.do("undo"), "Nothing is kept", 409),
    "unlearn others": (
        lambda memory: memory.do("unlearn", given(FEATURES, {"ant": NEW})),
        "not learned as 'ant'",
        422,
    ),
    "unlearn too many": (
        lambda memory: memory.do("unlearn", given(FEATURES, {"bee": [6, 7, 8, 9]})),
        "learned from 3 images",
        422,
    ),
    "unlearn all": (
        lambda memory: memory.do("unlearn", given(FEATURES, GROUPS)),
        "No class would be left",
        422,
    ),
}


@pytest.mark.parametrize(("act", "words", "status"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal(device: Device, file: bytes, act: Act, words: str, status: int) -> None:
    memory = device.memory(file)
    before = memory.do("model"), memory.file()
    with pytest.raises(SaidError, match=words) as error:
        act(memory)
    assert error.value.kind == "Refused", error.value.stack
    assert error.value.status == status
    assert str(error.value).endswith(".")
    assert (memory.do("model"), memory.file()) == before


def test_the_only_class(device: Device) -> None:
    memory = device.memory(like=classifier(FEATURES))
    memory.learn(FEATURES, {"ant": [0, 1, 2]})
    with pytest.raises(SaidError, match="is the only class") as error:
        memory.do("forget", "ant")
    assert error.value.status == 409


def test_images_that_were_never_learned_do_not_add_up(device: Device) -> None:
    """Where no digests are kept, what is left tells."""
    memory = device.memory(like=classifier(FEATURES))
    memory.learn(FEATURES, GROUPS)
    before = memory.file()
    for rows in ([12, 13, 14], [18, 19, 20]):
        with pytest.raises(SaidError, match=r"not the images that were learned|do not add up"):
            memory.do("unlearn", given(40 * FEATURES, {"bee": rows}))
        assert memory.file() == before


def test_nothing_is_taught_yet(device: Device) -> None:
    memory = device.memory(like=classifier(FEATURES))
    assert memory.do("model")["empty"]
    for method, args in {
        "classify": [FEATURES[0]],
        "file": [],
        "rename": ["a", "b"],
        "forget": ["a"],
        "merge": [b""],
    }.items():
        with pytest.raises(SaidError, match="Nothing is taught yet") as error:
            memory.do(method, *args)
        assert error.value.status == 409
    memory.do("correct", FEATURES[0], digest(0), "ant")  # is a first lesson then
    assert not memory.do("model")["empty"]


@pytest.mark.filterwarnings("ignore:.*one image only")
def test_models_that_cannot_be_merged(device: Device, file: bytes, tmp_path: Path) -> None:
    memory = device.memory(file)
    other = classifier(clouds([4, 4], 30)[0])
    other.learn(images([0, 1, 4, 5]), ["a", "a", "b", "b"]).save(tmp_path / "wide.ovor")
    with pytest.raises(SaidError, match=r"another backbone \(another version of table\)"):
        memory.do("merge", (tmp_path / "wide.ovor").read_bytes())
    other = classifier(FEATURES)
    other.learn(images([0, 6, 12]), ["Ant", "bee", "cat"])
    other.save(tmp_path / "alike.ovor")
    with pytest.raises(SaidError, match="two classes") as error:
        memory.do("merge", (tmp_path / "alike.ovor").read_bytes())
    assert error.value.alike == [{"given": "Ant", "known": "ant"}]
    memory.do("merge", (tmp_path / "alike.ovor").read_bytes(), {"yes": True})
    assert len(memory.do("model")["lessons"]) == 2
    other.save(tmp_path / "small.ovor", sums=False)
    with pytest.raises(SaidError, match="for predicting only"):
        memory.do("merge", (tmp_path / "small.ovor").read_bytes(), {"yes": True})


def test_another_width_is_refused_before_it_is_unpacked(device: Device, file: bytes) -> None:
    """The network may be called the same, and be read at other depths."""
    memory = device.memory(file)
    wide = np.random.default_rng(0).normal(size=(8, 25)).astype(np.float32)
    other = device.memory(like=classifier(FEATURES))
    other.learn(wide, {"cat": [0, 1, 2], "dog": [3, 4, 5]})
    with pytest.raises(SaidError, match="different widths"):
        memory.do("merge", other.file())


STOPPED = """async ([file, classes]) => {
  const { received } = await import("/helper.js");
  const { Memory } = await import("/static/device/memory.js");
  const memory = await Memory.open(received(file));
  const before = memory.model();
  const settle = () => Promise.reject(new Error("stopped"));
  const stopped = await memory.learn(received(classes), { settle })
    .then(() => "learned", (error) => error.message);
  return [stopped, before, memory.model()];
}"""


def test_a_lesson_that_is_stopped_before_it_is_taken_over_changes_nothing(
    device: Device, file: bytes
) -> None:
    sent = [as_sent(file), as_sent(given(FEATURES, {"cat": NEW}))]
    said, before, after = device.page.evaluate(STOPPED, sent)
    assert said == "stopped"
    assert before == after


CROWDED = """async () => {
  const { Service } = await import("/static/device/service.js");
  const features = new Map([["old", [1]]]);
  for (let i = 1; i < 500; i += 1) features.set(`other ${i}`, [i]);
  let computed;
  const encoder = { features: (views) => new Promise((done) => {
    computed = () => done(Float32Array.from(views, ([x]) => x));
  }) };
  const service = { features, encoder: Promise.resolve(encoder) };
  const views = [{ id: "old" }, { id: "new", view: [2] }];
  const found = Service.prototype.featuresOf.call(service, views);
  await Promise.resolve();
  features.delete("old"); // by another call, as there are too many
  for (let i = 0; i < 9; i += 1) await Promise.resolve();
  computed();
  return [(await found).map((one) => [...one]), features.size];
}"""


def test_features_that_are_dropped_meanwhile_are_not_lost(device: Device) -> None:
    assert device.page.evaluate(CROWDED) == [[[1], [2]], 500]
