"""A model goes from Python to the browser and back, taught at both ends, and stays one model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ovor import Classifier
from ovor.classifier.exact import DOUBTS, Exact
from ovor.tensor_file import load_tensors

from .page import Device, OnDevice, given
from .table import classifier, clouds, digest, images
from .test_equal import OUTPUTS, Case, check_answers

CASE = Case.of([9, 7, 8, 6], 96, seed=11)
NAMES = list(CASE.groups)
MARGINS = 1e-2


def rows(*names: str) -> dict[str, list[int]]:
    return {name: CASE.groups[name] for name in names}


def learn(model: Classifier, groups: dict[str, list[int]], **options: Any) -> Classifier:
    labels = [name for name, own in groups.items() for _ in own]
    return model.learn(images([row for own in groups.values() for row in own]), labels, **options)


def taught(*names: str, **options: Any) -> Classifier:
    return learn(classifier(CASE.features), rows(*names), **options)


def to_device(device: Device, model: Classifier, folder: Path) -> OnDevice:
    path = folder / "python.ovor"
    model.save(path)
    return device.memory(path.read_bytes())


def to_python(memory: OnDevice, folder: Path) -> Classifier:
    path = folder / "browser.ovor"
    path.write_bytes(memory.file())
    return Classifier.load(path, device="cpu", like=classifier(CASE.features))


def check_same(one: Classifier, other: Classifier) -> None:
    """The same sums to the last bit, the same words, and the same answers."""
    ours, theirs = one.learner().learned_state(), other.learner().learned_state()
    for name in ("counts", "sums", "second", "gone"):
        assert torch.equal(ours[name], theirs[name]), name
    asked = images(CASE.tests)
    ours, theirs = one.decision_function(asked), other.decision_function(asked)
    np.testing.assert_allclose(ours, theirs, atol=OUTPUTS)
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.tasks_ == other.tasks_
    assert one.expected_ == other.expected_
    assert one.about().once == other.about().once
    np.testing.assert_allclose(one.predict_proba(asked), other.predict_proba(asked), atol=2e-5)


Change = tuple[Callable[[Classifier], object], Callable[[OnDevice], object]]
CHANGES: dict[str, Change] = {
    "teach": (
        lambda model: learn(model, rows("class 02", "class 03")),
        lambda memory: memory.learn(CASE.features, rows("class 02", "class 03")),
    ),
    "teach more": (
        lambda model: learn(model, {"class 00": CASE.groups["class 03"]}),
        lambda memory: memory.learn(CASE.features, {"class 00": CASE.groups["class 03"]}),
    ),
    "correct": (
        lambda model: model.correct(images([CASE.groups["class 00"][2]]), "x", from_="class 00"),
        lambda memory: correct(memory, CASE.groups["class 00"][2], "x", "class 00"),
    ),
    "correct what is new": (
        lambda model: model.correct(images(CASE.tests[:1]), "class 01"),
        lambda memory: correct(memory, CASE.tests[0], "class 01", None),
    ),
    "rename": (
        lambda model: model.rename("class 01", "__proto__"),
        lambda memory: memory.do("rename", "class 01", "__proto__"),
    ),
    "forget": (
        lambda model: model.forget("class 00"),
        lambda memory: memory.do("forget", "class 00"),
    ),
    "unlearn": (
        lambda model: model.unlearn(images(CASE.groups["class 00"][:3]), ["class 00"] * 3),
        lambda memory: memory.do(
            "unlearn", given(CASE.features, {"class 00": CASE.groups["class 00"][:3]})
        ),
    ),
    "unlearn a class": (
        lambda model: model.unlearn(images(CASE.groups["class 00"]), ["class 00"] * 9),
        lambda memory: memory.do("unlearn", given(CASE.features, rows("class 00"))),
    ),
}


def correct(memory: OnDevice, row: int, name: str, was: str | None) -> None:
    memory.do("correct", CASE.features[row], digest(row), name, {"was": was})


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(("in_python", "in_browser"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_in_the_browser_is_the_change_in_python(
    device: Device, tmp_path: Path, in_python: Any, in_browser: Any, once: bool
) -> None:
    model = taught("class 00", "class 01", once=once)
    memory = to_device(device, model, tmp_path)
    in_python(model)
    in_browser(memory)
    check_answers(memory, model, CASE, MARGINS)
    again = to_python(memory, tmp_path)
    check_same(again, model)
    learn(model, {"more": CASE.tests[1:4]})
    learn(again, {"more": CASE.tests[1:4]})
    check_same(again, model)


@pytest.mark.parametrize("bundle", [False, True])
def test_there_and_back_changes_nothing(device: Device, tmp_path: Path, bundle: bool) -> None:
    """Also where the backbone is in the file."""
    model = taught(*NAMES, once=True)
    model.save(tmp_path / "python.ovor", bundle=bundle)
    memory = device.memory((tmp_path / "python.ovor").read_bytes())
    (tmp_path / "again.ovor").write_bytes(memory.file())
    expected, words = load_tensors(tmp_path / "python.ovor")
    found, said = load_tensors(tmp_path / "again.ovor")
    packed = ("learner.sums", "learner.second")  # by another program, to other bytes of the same
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert name in packed or torch.equal(found[name], tensor), name
    assert said == words
    check_same(to_python(memory, tmp_path), model)


def test_undo(device: Device, tmp_path: Path) -> None:
    model = taught("class 00", "class 01")
    memory = to_device(device, model, tmp_path)
    assert not memory.do("model")["can_undo"]
    for change in ("teach", "correct", "rename"):
        CHANGES[change][1](memory)
        assert memory.do("model")["can_undo"]
        memory.do("undo")
        assert not memory.do("model")["can_undo"]
        check_same(to_python(memory, tmp_path), model)
    for change in ("unlearn", "forget"):  # what is taken out must not stay anywhere
        CHANGES[change][1](memory)
        assert not memory.do("model")["can_undo"]


def test_undo_of_the_first_lesson(device: Device) -> None:
    memory = device.memory(like=classifier(CASE.features))
    memory.learn(CASE.features, rows("class 00", "class 01"))
    memory.do("undo")
    assert memory.do("model")["empty"]
    memory.learn(CASE.features, rows("class 02", "class 03"))
    assert [one["name"] for one in memory.do("model")["lessons"][0]["classes"]] == NAMES[2:]


@pytest.mark.filterwarnings("ignore:.*nothing to be told apart")
@pytest.mark.parametrize("once", [False, True])
def test_merge(device: Device, tmp_path: Path, once: bool) -> None:
    model, other = taught("class 00", "class 01", once=once), taught("class 02", once=once)
    learn(other, {"class 01": CASE.groups["class 03"]})
    memory = to_device(device, model, tmp_path)
    other.save(tmp_path / "other.ovor")
    memory.do("merge", (tmp_path / "other.ovor").read_bytes())
    model.merge(other)
    check_answers(memory, model, CASE, MARGINS)
    check_same(to_python(memory, tmp_path), model)
    assert memory.do("model")["can_undo"]


def older(*names: str) -> Classifier:
    """Return a model from before doubt counted beside distances."""
    model = taught(*names)
    state = model.memory().state()
    kept = {n: x for n, x in state.items() if n.removeprefix("novelty.") not in DOUBTS}
    model._exact = Exact.of_state(kept, CASE.features.shape[1], len(names))
    return model


@pytest.mark.parametrize("change", ["teach", "forget", "merge"])
def test_an_older_model_goes_on_to_tell_the_unknown_as_it_did(
    device: Device, tmp_path: Path, change: str
) -> None:
    model, younger = older("class 00", "class 01"), taught("class 02", "class 03")
    memory = to_device(device, model, tmp_path)
    check_answers(memory, model, CASE, 1e-5)
    if change == "merge":
        younger.save(tmp_path / "other.ovor")
        memory.do("merge", (tmp_path / "other.ovor").read_bytes())
        model.merge(younger)
    else:
        CHANGES[change][0](model)
        CHANGES[change][1](memory)
    check_answers(memory, model, CASE, MARGINS)
    again = to_python(memory, tmp_path)
    check_same(again, model)
    assert not again.memory().doubts


def test_taught_from_nothing_and_read_by_python(device: Device, tmp_path: Path) -> None:
    model = taught(*NAMES)
    memory = device.memory(like=classifier(CASE.features))
    memory.learn(CASE.features, CASE.groups)
    check_same(to_python(memory, tmp_path), model)
    again = device.memory(memory.file())
    asked = CASE.features[CASE.tests]
    assert again.do("classify", asked) == memory.do("classify", asked)


def test_an_image_that_was_learned_is_left_out(device: Device, tmp_path: Path) -> None:
    model = taught("class 00", "class 01", once=True)
    memory = to_device(device, model, tmp_path)
    both = {"class 00": CASE.groups["class 00"][:2] + CASE.groups["class 02"]}
    report = memory.learn(CASE.features, both)
    learn(model, both)
    assert len(report["left_out"]) == len(model.report_["left_out"]) == 2
    check_same(to_python(memory, tmp_path), model)


def test_what_a_model_says_of_itself(device: Device, tmp_path: Path) -> None:
    from ovor.web.described import lessons_of, memory_of

    model = taught("class 00", "class 01")
    learn(model, rows("class 02"))
    memory = to_device(device, model, tmp_path)

    class Served:
        pass

    served: Any = Served()
    served.model = model
    said = memory.do("model")
    assert said["lessons"] == lessons_of(served)
    assert said["memory"] == memory_of(served, [])
    assert said["backbone"] == "table"
    assert said["megabytes"] == round((tmp_path / "python.ovor").stat().st_size / 1e6, 3)
    assert memory.do("usualDistance") == pytest.approx(model.usual_distance())


def test_a_file_for_predicting_only(device: Device, tmp_path: Path) -> None:
    model = taught("class 00", "class 01")
    model.save(tmp_path / "small.ovor", sums=False)
    memory = device.memory((tmp_path / "small.ovor").read_bytes())
    check_answers(memory, model, CASE, 1e-5)
    assert not memory.do("model")["can_teach"]
    with pytest.raises(Exception, match="for predicting only"):
        memory.learn(CASE.features, rows("class 02"))
    (tmp_path / "again.ovor").write_bytes(memory.file())
    again = Classifier.load(tmp_path / "again.ovor", device="cpu", like=classifier(CASE.features))
    assert not again.about().sums


def test_a_wide_model_in_many_directions(device: Device) -> None:
    """With as many images as features, all directions are solved for."""
    features, labels = clouds([150] * 4, 256, seed=2)
    groups = {f"c{c}": [i for i, row in enumerate(labels) if row == c] for c in range(4)}
    model = learn(classifier(features), groups)
    memory = device.memory(like=model)
    memory.learn(features, groups)
    asked = list(range(0, 600, 7))
    expected = model.decision_function(images(asked))
    np.testing.assert_allclose(memory.outputs(features[asked]), expected, atol=OUTPUTS)
