"""The growing classifier in Python: learn, predict, save, load, forget."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from sklearn.base import clone

from drawings import DRAWINGS, draw
from ovor import Classifier, OvorError
from ovor.cli.flags import with_flags
from tiny import noisy, save_backbone, shrink

FIRST = ["banana", "candle", "fish"]
SECOND = ["owl", "sun"]
PACKED_SUMS = {"learner.second", "learner.sums"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("drawings")
    return {
        "first": draw(root / "first", FIRST, 30),
        "second": draw(root / "second", SECOND, 30),
        "test": draw(root / "test", [*FIRST, *SECOND], 15, first=30),
        "strange": draw(root / "strange", ["teapot", "tractor"], 15, first=30),
    }


@pytest.fixture(scope="module")
def first_file(folders: dict[str, Path]) -> Path:
    """Save a classifier of the first task."""
    path = folders["first"].with_name("first.ovor")
    Classifier("embedded").learn(folders["first"]).save(path)
    return path


@pytest.fixture(scope="module")
def model(folders: dict[str, Path]) -> Classifier:
    return Classifier("embedded").learn(folders["first"]).learn(folders["second"])


@pytest.fixture(scope="module")
def trained(folders: dict[str, Path]) -> Classifier:
    """Return one by the paper's method, which takes new classes only."""
    return Classifier("embedded", "ovor").learn(folders["first"]).learn(folders["second"])


def images_of(folder: Path) -> tuple[list[Path], list[str]]:
    paths = sorted(folder.glob("*/*.png"))
    return paths, [path.parent.name for path in paths]


def test_learns_two_tasks_and_names_new_images(model: Classifier, folders: dict[str, Path]) -> None:
    assert model.classes_.tolist() == [*FIRST, *SECOND]
    assert model.task_sizes_ == [3, 2]
    paths, labels = images_of(folders["test"])
    found = model.classify(paths)
    assert np.mean(found.labels == np.array(labels, object)) == model.score(paths, labels)
    assert model.score(paths, labels) > 0.6  # chance is 0.2
    assert found.unknown.mean() < 0.35
    assert (found.confidences > 0.2).all()


def test_unseen_classes_are_called_unknown_more_often(
    model: Classifier, folders: dict[str, Path]
) -> None:
    known = model.classify(folders["test"]).unknown.mean()
    assert model.classify(folders["strange"]).unknown.mean() > known + 0.2


def test_every_kind_of_input_gives_the_same(model: Classifier, folders: dict[str, Path]) -> None:
    paths, _ = images_of(folders["test"])
    paths = paths[:5]
    arrays = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    tensors = [torch.from_numpy(array.copy()).permute(2, 0, 1) for array in arrays]
    expected = model.predict_proba(paths)
    assert expected.shape == (5, 5)
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-6)
    for pictures in (
        [str(path) for path in paths],
        iter(paths),
        [Image.open(path) for path in paths],
        arrays,
        np.stack(arrays),
        tensors,
        torch.stack(tensors),
        [tensor / 255 for tensor in tensors],
        [array[..., 0] for array in arrays],  # the drawings are grey
    ):
        np.testing.assert_array_equal(model.predict_proba(pictures), expected)
    for alone in (paths[0], arrays[0]):  # products of other sizes may round otherwise
        np.testing.assert_allclose(model.predict_proba(alone), expected[:1], atol=1e-5)


def test_folder_pairs_and_arrays_teach_the_same(folders: dict[str, Path]) -> None:
    paths, labels = images_of(folders["second"])
    arrays = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    by_folder = Classifier("embedded", "simplecil").learn(folders["second"])
    by_lists = Classifier("embedded", "simplecil").learn(paths, labels)
    by_pairs = Classifier("embedded", "simplecil").learn(zip(paths, labels, strict=True))
    by_arrays = Classifier("embedded", "simplecil").partial_fit(arrays, labels)
    expected = by_folder.predict_proba(folders["test"])
    for model in (by_lists, by_pairs, by_arrays):
        assert model.classes_.tolist() == SECOND
        np.testing.assert_array_equal(model.predict_proba(folders["test"]), expected)


@pytest.mark.parametrize("method", ["trained", "model"])
def test_saved_and_loaded_it_answers_the_same(
    method: str, folders: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model: Classifier = request.getfixturevalue(method)
    own = {"epochs": 4, "method": "oneprompt+vor"}
    for name, bundle in (("small", False), ("whole", True)):
        path = tmp_path / f"{name}.ovor"
        model.save(path, bundle=bundle)
        again = Classifier.load(path)
        assert again.tasks_ == model.tasks_
        assert again.get_params() == {
            **model.get_params(),
            "batch_size": 64,
            "lr": 0.01,
            "image_size": 28,
            **(own if method == "trained" else {"epochs": 20, "method": "analytic"}),
        }
        np.testing.assert_array_equal(
            again.predict_proba(folders["test"]), model.predict_proba(folders["test"])
        )
    limit = 300_000 if method == "trained" else 3_500_000
    assert (tmp_path / "small.ovor").stat().st_size < limit
    assert (tmp_path / "whole.ovor").stat().st_size > 5_000_000


def test_learning_on_after_loading_equals_learning_on_at_once(
    model: Classifier, first_file: Path, folders: dict[str, Path]
) -> None:
    again = Classifier.load(first_file).learn(folders["second"])
    ours, theirs = again.learner().learned_state(), model.learner().learned_state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert again.tasks_ == model.tasks_


def test_what_fails_changes_nothing(trained: Classifier, folders: dict[str, Path]) -> None:
    before = trained.predict_proba(folders["test"])
    with pytest.raises(OvorError, match="'banana', 'candle', 'fish' are learned already"):
        trained.learn(folders["first"])
    assert trained.task_sizes_ == [3, 2]
    np.testing.assert_array_equal(trained.predict_proba(folders["test"]), before)


def test_the_file_of_exact_sums_holds_no_image_and_no_feature(
    model: Classifier, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Its tensors are sums, weights and histograms, whose shapes no number of images is in."""
    model.save(tmp_path / "m.ovor")
    assert model.learner().learned_state().keys() == {
        *("counts", "sums", "second", "gone", "weights", "bias")
    }
    with safe_open(tmp_path / "m.ovor", framework="pt") as file:
        shapes = {name: tuple(file.get_tensor(name).shape) for name in file.keys()}  # noqa: SIM118
    wide = {shape for name, shape in shapes.items() if name not in PACKED_SUMS}
    assert {size for shape in wide for size in shape} <= {5, 1536, 64, 2, 802, 98}
    content = (tmp_path / "m.ovor").read_bytes()
    for path in images_of(folders["first"])[0]:
        pixels = np.asarray(Image.open(path).convert("L")).tobytes()
        assert pixels[200:260] not in content or not any(pixels[200:260])


def test_the_file_holds_no_image_and_no_feature(
    trained: Classifier, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Its tensors are the prompt and the heads, whose shapes no number of images is in."""
    trained.save(tmp_path / "m.ovor")
    with safe_open(tmp_path / "m.ovor", framework="pt") as file:
        shapes = {name: tuple(file.get_tensor(name).shape) for name in file.keys()}  # noqa: SIM118
    heads = {name: shape for name, shape in shapes.items() if ".head." in name}
    assert heads == {
        "learner.head.tasks.0.weight": (3, 192),
        "learner.head.tasks.0.bias": (3,),
        "learner.head.tasks.1.weight": (2, 192),
        "learner.head.tasks.1.bias": (2,),
    }
    prompts = {name for name in shapes if name.startswith("learner.prompt.")}
    assert prompts | heads.keys() == shapes.keys()
    content = (tmp_path / "m.ovor").read_bytes()
    for path in images_of(folders["first"])[0]:
        pixels = np.asarray(Image.open(path).convert("L")).tobytes()
        assert pixels[200:260] not in content or not any(pixels[200:260])


def test_its_size_is_the_same_for_few_and_many_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = set()
    backbone = str(save_backbone(tmp_path / "tiny.safetensors"))
    shrink(monkeypatch)
    for each in (8, 60):
        found = Classifier(backbone, "ovor", epochs=2).learn(*noisy(SECOND, each))
        found.save(tmp_path / "m.ovor")
        with safe_open(tmp_path / "m.ovor", framework="pt") as file:
            sizes.add(sum(file.get_tensor(n).numel() for n in file.keys()))  # noqa: SIM118
    assert len(sizes) == 1


def test_vor_without_a_head_is_refused_before_its_epochs_are() -> None:
    with pytest.raises(OvorError, match="klda has no linear head for VOR"):
        Classifier("embedded", "klda+vor", epochs=1).run()


def test_forgetting_takes_a_class_out(
    trained: Classifier, folders: dict[str, Path], tmp_path: Path
) -> None:
    before = trained.predict_proba(folders["test"])
    trained.save(tmp_path / "m.ovor")
    copy = Classifier.load(tmp_path / "m.ovor")
    copy.forget("candle")
    copy.save(tmp_path / "m.ovor")
    again = Classifier.load(tmp_path / "m.ovor")
    assert again.classes_.tolist() == ["banana", "fish", *SECOND]
    rest = before[:, [0, 2, 3, 4]]
    np.testing.assert_allclose(
        again.predict_proba(folders["test"]), rest / rest.sum(1, keepdims=True), atol=1e-5
    )
    again.learn(draw(tmp_path / "again", ["candle"], 10))  # it may be learned anew
    assert again.classes_.tolist()[-1] == "candle"
    for name in ("banana", "fish", "candle", "owl"):
        again.forget(name)
    assert again.predict(folders["test"])[0] == "sun"
    with pytest.raises(OvorError, match="only class"):
        again.forget("sun")
    with pytest.raises(OvorError, match="no class 'cat'"):
        again.forget("cat")


def test_follows_scikit_learn() -> None:
    model = Classifier("embedded", epochs=3, false_alarms=0.1)
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again is not model
    again.set_params(epochs=5)
    assert again.epochs == 5
    assert model.epochs == 3
    with pytest.raises(OvorError, match="no parameter 'depth'"):
        model.set_params(depth=3)


@pytest.mark.parametrize("method", ["simplecil", "l2p", "dualprompt+vor", "coda-p", "linear+vor"])
def test_other_methods(method: str, folders: dict[str, Path], tmp_path: Path) -> None:
    model = Classifier("embedded", method, epochs=2)
    model.learn(folders["first"]).learn(folders["second"])
    model.save(tmp_path / "m.ovor")
    paths, labels = images_of(folders["test"])
    again = Classifier.load(tmp_path / "m.ovor")
    np.testing.assert_array_equal(again.predict_proba(paths), model.predict_proba(paths))
    assert model.score(paths, labels) > 0.4


def test_class_names_in_any_script(tmp_path: Path) -> None:
    arrays = [DRAWINGS.train.items[i] for i in range(0, 320, 80)]
    names = ["кошка", "犬", "زهرة", "naïve 🌸"]
    model = Classifier("embedded", "simplecil").learn(arrays, names)
    model.save(tmp_path / "m.ovor")
    assert Classifier.load(tmp_path / "m.ovor").predict(arrays).tolist() == names


def test_a_stack_of_grey_images_is_many(model: Classifier) -> None:
    greys = DRAWINGS.train.items[:7]
    expected = model.predict_proba([DRAWINGS.train.image(i) for i in range(7)])
    np.testing.assert_array_equal(model.predict_proba(greys), expected)
    np.testing.assert_array_equal(model.predict_proba(torch.from_numpy(greys)), expected)
    assert len(model.predict(greys[0])) == 1


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_label_is_no_class(missing: object) -> None:
    with pytest.raises(OvorError, match="label is missing"):
        Classifier("embedded", "simplecil").partial_fit(DRAWINGS.train.items[:2], ["a", missing])


def test_sharing_replaces_nothing_but_what_was_shared(model: Classifier, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("my notes")
    with pytest.raises(OvorError, match="not shared from here"):
        model.push_to_hub(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    for _ in range(2):
        model.push_to_hub(str(tmp_path / "new"))
    assert Classifier.from_pretrained(str(tmp_path / "new")).tasks_ == model.tasks_


def test_the_advice_is_for_the_folder_that_is_there(
    trained: Classifier, folders: dict[str, Path], tmp_path: Path
) -> None:
    draw(tmp_path, ["hot dog"], 3)
    with pytest.raises(OvorError, match=r"\(rename=\{'hot dog': 'NEW'\}\)") as told:
        trained.learn(tmp_path, rename={"hot dog": "banana"})
    assert "(--rename 'hot dog=NEW')" in with_flags(str(told.value))  # to be pasted into a shell
