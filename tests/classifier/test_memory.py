"""Exact memory: whatever was taught, taken back, corrected and merged, what is left counts."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from ovor import Classifier, OvorError
from ovor.classifier import collect
from ovor.events import Event, MeansUpdated
from tiny import noisy, save_backbone

NAMES = ["ant", "bee", "cat", "dog"]
Arrays = NDArray[np.uint8]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_backbone(tmp_path_factory.mktemp("net") / "net.safetensors"))


@pytest.fixture(scope="module")
def data() -> tuple[Arrays, list[str]]:
    return noisy(NAMES, 10)


@pytest.fixture(scope="module")
def tested() -> Arrays:
    return noisy(NAMES, 3, seed=9)[0]


def new(backbone: str) -> Classifier:
    return Classifier(backbone, device="cpu")


def taught(backbone: str, data: tuple[Arrays, list[str]], numbers: list[int]) -> Classifier:
    images, labels = data
    return new(backbone).learn(images[numbers], [labels[i] for i in numbers])


def outputs(model: Classifier, tested: Arrays) -> NDArray[np.float64]:
    """Return the head's outputs with the classes in the order of their names."""
    return model.decision_function(tested)[:, np.argsort(model.classes_)]


def assert_same(one: Classifier, other: Classifier, tested: Arrays) -> None:
    assert sorted(one.classes_) == sorted(other.classes_)
    np.testing.assert_allclose(outputs(one, tested), outputs(other, tested), rtol=0, atol=1e-9)
    counts = [
        {n: k for t in m.tasks_ for n, k in zip(t.classes, t.images, strict=True)}
        for m in (one, other)
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("seed", range(4))
def test_any_order_and_cut_is_learning_at_once(
    seed: int, backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    rng = np.random.default_rng(seed)
    order, cuts = rng.permutation(len(labels)), np.sort(rng.integers(1, len(labels), 4))
    model = new(backbone)
    for start, end in pairwise([0, *cuts, len(labels)]):
        part = order[start:end]
        if len(part):
            model.learn(images[part], [labels[i] for i in part])
    assert_same(model, taught(backbone, data, list(range(len(labels)))), tested)


def test_one_image_at_a_time_is_learning_at_once(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    model = new(backbone)
    some = list(range(0, 40, 3))
    for i in some:
        model.learn(images[i : i + 1], [labels[i]])
    assert_same(model, taught(backbone, data, some), tested)


def operations(
    count: int, backbone: str, data: tuple[Arrays, list[str]], folder: Path, seed: int
) -> tuple[Classifier, dict[int, str]]:
    """Teach, take back, correct, merge, undo, save and load at random; return what is inside."""
    images, labels = data
    rng = np.random.default_rng(seed)
    inside = {i: labels[i] for i in range(0, 40, 2)}
    model = taught(backbone, data, list(inside))
    for _ in range(count):
        free = [i for i in range(len(labels)) if i not in inside]
        what = rng.choice(["learn", "unlearn", "correct", "merge", "undo", "save"])
        if what in ("learn", "merge") and free:
            chosen = rng.choice(free, rng.integers(1, min(4, len(free)) + 1), replace=False)
            given = {int(i): str(rng.choice(NAMES)) for i in chosen}
            if what == "learn":
                model.learn(images[list(given)], list(given.values()))
            else:
                model.merge(new(backbone).learn(images[list(given)], list(given.values())))
            inside |= given
        elif what == "unlearn" and len(inside) > 10:
            chosen = [int(i) for i in rng.choice(list(inside), 2, replace=False)]
            if len({inside[i] for i in inside if i not in chosen}) > 1:
                model.unlearn(images[chosen], [inside.pop(i) for i in chosen])
        elif what == "correct":
            i = int(rng.choice(list(inside)))
            to = str(rng.choice([name for name in NAMES if name != inside[i]]))
            model.correct([images[i]], to, from_=inside[i])
            inside[i] = to
        elif what == "undo" and free:
            model.learn(images[free[:1]], [NAMES[0]])
            model.undo()
        elif what == "save":
            model.save(folder / "m.ovor")
            model = Classifier.load(folder / "m.ovor", device="cpu")
    return model, inside


def expected(backbone: str, data: tuple[Arrays, list[str]], inside: dict[int, str]) -> Classifier:
    return new(backbone).learn(data[0][list(inside)], list(inside.values()))


@pytest.mark.parametrize("seed", range(3))
def test_operations_leave_the_model_of_what_is_left(
    seed: int, backbone: str, data: tuple[Arrays, list[str]], tested: Arrays, tmp_path: Path
) -> None:
    model, inside = operations(25, backbone, data, tmp_path, seed)
    assert_same(model, expected(backbone, data, inside), tested)


@pytest.mark.slow
def test_a_thousand_operations_leave_the_model_of_what_is_left(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays, tmp_path: Path
) -> None:
    model, inside = operations(1000, backbone, data, tmp_path, 7)
    assert_same(model, expected(backbone, data, inside), tested)


def test_two_sites_merge_into_one(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    north, south = list(range(0, 25)), list(range(15, 40))
    south = [i for i in south if i not in north]
    one = taught(backbone, data, north).merge(taught(backbone, data, south))
    assert_same(one, taught(backbone, data, list(range(40))), tested)
    assert len(images) == len(labels) == 40


def test_models_of_other_encoders_do_not_merge(
    backbone: str, data: tuple[Arrays, list[str]], tmp_path: Path
) -> None:
    other = str(save_backbone(tmp_path / "other.safetensors", seed=5))
    one, two = taught(backbone, data, [0, 1, 30]), taught(other, data, [0, 1, 30])
    with pytest.raises(OvorError, match="different backbones"):
        one.merge(two)


def test_forgetting_with_all_images_leaves_nothing(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    model = taught(backbone, data, list(range(40)))
    bees = [i for i in range(40) if labels[i] == "bee"]
    model.forget("bee", images[bees])
    rest = taught(backbone, data, [i for i in range(40) if labels[i] != "bee"])
    assert_same(model, rest, tested)
    assert torch.equal(model.learner().moments.second, rest.learner().moments.second)  # type: ignore[union-attr]


def test_forgetting_without_images_keeps_how_they_scattered(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    model = taught(backbone, data, list(range(40)))
    model.forget("bee")
    assert "bee" not in model.classes_
    rest = taught(backbone, data, [i for i in range(40) if data[1][i] != "bee"])
    difference = np.abs(outputs(model, tested) - outputs(rest, tested)).max()
    assert 0 < difference < 1  # another scatter, the same means


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (lambda m, x: m.unlearn(x[:1], ["wolf"]), "no class 'wolf'"),
        (lambda m, x: m.unlearn(x[:7], ["ant"] * 7), "was learned from 6 images, so 7"),
        (lambda m, x: m.unlearn(x[:12], ["ant"] * 6 + ["bee"] * 6), "No class would be left"),
        (lambda m, x: m.unlearn(x[20:26], ["ant"] * 6), "not the images that were learned"),
        (lambda m, x: m.correct([x[0]], "ant", from_="ant"), "already"),
        (lambda m, x: m.correct([], "ant"), "no image"),
        (lambda m, x: m.correct([x[0]], "bee", from_="wolf"), "no class 'wolf'"),
        (lambda m, x: m.rename("ant", "bee"), "already"),
        (lambda m, x: m.rename("wolf", "fox"), "no class 'wolf'"),
        (lambda m, x: m.forget("ant", x[:5]), "was learned from 6 images, and here are 5"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(
    what: object, sentence: str, backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    model = taught(backbone, data, [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15])
    before = outputs(model, tested), model.tasks_
    with pytest.raises(OvorError, match=sentence):
        what(model, data[0])  # type: ignore[operator]
    assert np.array_equal(outputs(model, tested), before[0])
    assert model.tasks_ == before[1]


def test_a_renamed_class_answers_by_its_new_name(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    model = taught(backbone, data, list(range(40)))
    before = model.predict(tested)
    model.rename("ant", "emmet")
    assert model.predict(tested).tolist() == ["emmet" if n == "ant" else n for n in before]
    model.undo()
    assert model.predict(tested).tolist() == before.tolist()


def test_once_leaves_out_what_was_learned(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    model = new(backbone).learn(images[:20], labels[:20], once=True)
    model.learn(images[10:], labels[10:])  # remembered: once, always once
    assert len((model.report_ or {})["left_out"]) == 10
    assert_same(model, taught(backbone, data, list(range(40))), tested)
    with pytest.raises(OvorError, match="learned already"):
        model.learn(images[:5], labels[:5])
    with pytest.raises(OvorError, match="not learned as 'bee'"):
        model.unlearn(images[:1], ["bee"])
    model.unlearn(images[:1], labels[:1])
    model.learn(images[:1], labels[:1])
    assert_same(model, taught(backbone, data, list(range(40))), tested)


def test_undo_goes_back_through_the_file(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays, tmp_path: Path
) -> None:
    images, labels = data
    path = tmp_path / "m.ovor"
    taught(backbone, data, list(range(20))).save(path)
    model = Classifier.load(path, device="cpu")
    model.learn(images[20:], labels[20:]).save(path)
    again = Classifier.load(path, device="cpu").undo()
    assert_same(again, taught(backbone, data, list(range(20))), tested)
    again.save(path)
    Classifier.load(path, device="cpu").unlearn(images[:1], labels[:1]).save(path)
    assert not path.with_name("m.ovor.before").exists()  # what was taken back stays nowhere
    with pytest.raises(OvorError, match="cannot be undone"):
        Classifier.load(path, device="cpu").undo()


def test_undo_never_skips_a_change(
    backbone: str, data: tuple[Arrays, list[str]], tmp_path: Path
) -> None:
    """Where the last change is not kept, the file's past must not be taken for it."""
    images, labels = data
    path = tmp_path / "m.ovor"
    taught(backbone, data, list(range(20))).save(path)
    Classifier.load(path, device="cpu").learn(images[20:30], labels[20:30]).save(path)
    model = Classifier.load(path, device="cpu").unlearn(images[:1], labels[:1])
    with pytest.raises(OvorError, match="Nothing is kept"):
        model.undo()
    model = Classifier.load(path, device="cpu")
    model.learn(images[30:35], labels[30:35]).learn(images[35:], labels[35:]).undo()
    with pytest.raises(OvorError, match="Nothing is kept"):
        model.undo()


def test_every_change_is_seen_by_the_next_prediction(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    """Probabilities and margins too, after a prediction that may have kept something."""
    images, labels = data
    other = taught(backbone, data, list(range(25, 40)))
    for change in (
        lambda m: m.merge(other),
        lambda m: m.unlearn(images[:2], labels[:2]),
        lambda m: m.correct([images[0]], "bee", from_="ant"),
        lambda m: m.forget("bee"),
        lambda m: m.learn(images[25:], labels[25:]),
        lambda m: m.learn(images[25:], labels[25:]).undo(),
        lambda m: m.set_params(false_alarms=0.5),
    ):
        used, unused = (taught(backbone, data, list(range(25))) for _ in range(2))
        used.scores(views_for_testing(used, tested))
        change(used)
        change(unused)
        for mine, theirs in zip(
            used.scores(views_for_testing(used, tested)),
            unused.scores(views_for_testing(unused, tested)),
            strict=True,
        ):
            assert np.array_equal(mine, theirs)


def views_for_testing(model: Classifier, tested: Arrays) -> Arrays:
    return np.stack([model.view(Image.fromarray(image)) for image in tested])


def test_weights_are_as_many_images(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays
) -> None:
    images, labels = data
    order = [33, 2, 14, 25, 0, 12]
    names = [labels[i] for i in order]
    weights = [1.0, 2.0, 3.0, 1.0, 1.0, 2.0]
    model = new(backbone).partial_fit(images[order], names, sample_weight=weights)
    repeated = [i for i, w in zip(order, weights, strict=True) for _ in range(int(w))]
    plain = new(backbone).learn(images[repeated], [labels[i] for i in repeated])
    np.testing.assert_allclose(outputs(model, tested), outputs(plain, tested), rtol=0, atol=1e-9)
    for wrong in ([1.0], [-1.0] * 6, [float("nan")] * 6, [0.0] * 6):
        with pytest.raises(OvorError, match=r"weight"):
            new(backbone).fit(images[order], names, sample_weight=wrong)


def test_saved_and_loaded_it_says_the_same(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays, tmp_path: Path
) -> None:
    model = taught(backbone, data, list(range(40)))
    model.save(tmp_path / "m.ovor")
    loaded = Classifier.load(tmp_path / "m.ovor", device="cpu")
    for one, other in zip(model.classify(tested), loaded.classify(tested), strict=True):
        assert one.tolist() == other.tolist()
    assert np.array_equal(model.predict_proba(tested), loaded.predict_proba(tested))
    loaded.learn(data[0][:3], data[1][:3])
    assert_same(loaded, taught(backbone, data, [0, 1, 2, *range(40)]), tested)


def test_a_file_for_predicting_only_predicts_and_refuses_the_rest(
    backbone: str, data: tuple[Arrays, list[str]], tested: Arrays, tmp_path: Path
) -> None:
    model = taught(backbone, data, list(range(40)))
    model.save(tmp_path / "whole.ovor")
    model.save(tmp_path / "small.ovor", sums=False)
    assert (tmp_path / "small.ovor").stat().st_size < (tmp_path / "whole.ovor").stat().st_size
    small = Classifier.load(tmp_path / "small.ovor", device="cpu")
    assert np.array_equal(model.predict_proba(tested), small.predict_proba(tested))
    for change in (
        lambda: small.learn(*data),
        lambda: small.unlearn(data[0][:1], data[1][:1]),
        lambda: model.merge(small),
    ):
        with pytest.raises(OvorError, match="predicting only"):
            change()


def test_a_stopped_lesson_goes_on(
    backbone: str,
    data: tuple[Arrays, list[str]],
    tested: Arrays,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, labels = data
    monkeypatch.setattr(collect, "SAVED_EVERY", 0.0)
    model = Classifier(backbone, batch_size=7, device="cpu")
    seen = []

    def stop(event: Event) -> None:
        if isinstance(event, MeansUpdated):
            seen.append(event.images)
            if sum(seen) >= 21:
                raise KeyboardInterrupt

    place = tmp_path / "lesson"
    with pytest.raises(KeyboardInterrupt):
        model.learn(images, labels, checkpoint=place, listen=stop)
    assert model.classes_.tolist() == []
    assert place.exists()
    again: list[int] = []

    def count(event: Event) -> None:
        if isinstance(event, MeansUpdated):
            again.append(event.images)

    model.learn(images, labels, checkpoint=place, listen=count)
    assert again[0] >= 7  # what was done before is told, and not done again
    assert len(again) - 1 < 6
    assert_same(model, taught(backbone, data, list(range(40))), tested)
    with pytest.raises(OvorError, match="cannot be continued"):
        model.learn(images[:5], labels[:5], checkpoint=place)


def test_the_report_tells_what_to_expect(backbone: str, data: tuple[Arrays, list[str]]) -> None:
    images, labels = data
    wrong = [*labels]
    wrong[0] = "dog"  # an ant
    model = new(backbone).learn(images, wrong)
    report = model.report_
    assert report is not None
    assert report["judged"] == 40
    assert [found["class"] for found in report["classes"]] == NAMES
    assert sum(found["images"] for found in report["classes"]) == 40
    assert model.about().expected.keys() == set(NAMES)
    right = [found["expected"] for found in report["classes"]]
    counts = [found["images"] for found in report["classes"]]
    assert report["expected"] == pytest.approx(np.average(right, weights=counts), abs=0.1)


def test_other_methods_say_that_they_cannot(backbone: str, data: tuple[Arrays, list[str]]) -> None:
    model = Classifier(backbone, "simplecil", device="cpu").learn(*data)
    for change in (
        lambda: model.unlearn(data[0][:1], data[1][:1]),
        lambda: model.correct([data[0][0]], "bee"),
        lambda: model.merge(model),
        lambda: model.forget("bee", data[0][:1]),
    ):
        with pytest.raises(OvorError, match="only models of the method analytic"):
            change()
