"""scikit-learn's own checks and tools, as far as they can be used with images."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import SkipTestWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from command import ovor
from drawings import draw
from ovor import Classifier, OvorError
from ovor.cli.flags import with_flags
from ovor.data.embedded import quickdraw_dev

WITHOUT_DATA = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


def drawings(classes: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    data = quickdraw_dev()
    chosen = [i for c in range(classes) for i in np.flatnonzero(data.train.labels == c)[:each]]
    images = np.stack([np.asarray(data.train.image(int(i))) for i in chosen])
    return images, np.array([data.class_names[data.train.labels[i]] for i in chosen])


def test_check_estimator_passes_where_it_can_be_used() -> None:
    with pytest.warns(SkipTestWarning, match="three_d_array=True"):  # it has rows of numbers only
        found = estimator_checks.check_estimator(Classifier("embedded"))
    assert [row["status"] for row in found] == ["passed"] * len(found)
    assert found


@pytest.mark.parametrize("name", WITHOUT_DATA)
def test_checks_that_need_no_data(name: str) -> None:
    getattr(estimator_checks, name)("Classifier", Classifier("embedded"))


def test_images_can_be_cross_validated() -> None:
    images, labels = drawings(3, 12)
    model = Classifier("embedded")
    assert is_classifier(model)
    shares = cross_val_score(model, images, labels, cv=3)
    assert shares.mean() > 0.8
    search = GridSearchCV(model, {"false_alarms": [0.01, 0.2]}, cv=2).fit(images, labels)
    assert search.best_estimator_.classes_.tolist() == sorted(set(labels))


def test_a_copy_has_the_settings_and_nothing_that_was_learned() -> None:
    images, labels = drawings(2, 4)
    model = Classifier("embedded", false_alarms=0.1).fit(images, labels)
    check_is_fitted(model)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert len(copy.classes_) == 0


# --- scikit-learn's tools


def test_predictions_are_scored_by_scikit_learn() -> None:
    """Where labels are asked for, not a score: three arrays would have no accuracy."""
    images, labels = drawings(3, 12)
    model = Classifier("embedded", device="cpu")
    own = cross_val_score(model, images, labels, cv=3)
    for scoring in ("accuracy", "balanced_accuracy", "f1_macro"):
        theirs = cross_val_score(model, images, labels, cv=3, scoring=scoring)
        assert theirs.mean() > 0.8, scoring
        if scoring == "accuracy":
            assert theirs.tolist() == pytest.approx(own.tolist())
    assert cross_val_score(model, images, labels, cv=3, scoring="neg_log_loss").mean() > -0.7
    found = cross_val_predict(model, images, labels, cv=3)
    assert found.shape == (36,)
    assert set(found) <= set(labels)
    assert accuracy_score(labels, found) > 0.8


def test_columns_of_probabilities_are_in_scikit_learns_order() -> None:
    """It asks with numbers for labels, of which 10 stands before 2 as a text."""
    images, labels = drawings(12, 4)
    model = Classifier("embedded", device="cpu")
    shares = cross_val_predict(model, images, labels, cv=2, method="predict_proba")
    assert shares.shape == (48, 12)
    found = cross_val_predict(model, images, labels, cv=2)
    assert np.unique(labels)[shares.argmax(1)].tolist() == found.tolist()


def test_a_search_by_scikit_learns_score() -> None:
    images, labels = drawings(3, 8)
    settings = {"model__false_alarms": [0.01, 0.2], "model__seed": [0]}
    line = Pipeline([("invert", FunctionTransformer(inverted)), ("model", Classifier("embedded"))])
    search = GridSearchCV(line, settings, cv=2, scoring="accuracy", error_score="raise")
    search.fit(images, labels)
    assert is_classifier(search)
    best = line.set_params(**search.best_params_)
    again = cross_val_score(best, images, labels, cv=2, scoring="accuracy")
    assert search.best_score_ == pytest.approx(again.mean())
    assert search.best_score_ > 1 / 3  # by chance
    assert set(search.predict(images[:5])) <= set(labels)


def inverted(images: np.ndarray) -> np.ndarray:
    return 255 - images


def test_a_pipeline_learns_and_answers() -> None:
    images, labels = drawings(2, 6)
    line = make_pipeline(FunctionTransformer(inverted), Classifier("embedded", device="cpu"))
    assert is_classifier(line)
    line.fit(images, labels)
    check_is_fitted(line)
    assert line.predict(images).shape == (12,)
    assert line.predict_proba(images).shape == (12, 2)
    assert line.score(images, labels) == accuracy_score(labels, line.predict(images))
    assert line.classes_.tolist() == sorted(set(labels))
    copy = clone(line)
    assert len(copy[-1].classes_) == 0


def test_paths_are_cross_validated_too(tmp_path: Path) -> None:
    paths = np.array(sorted(map(str, draw(tmp_path, ["owl", "sun"], 6).rglob("*.png"))))
    labels = np.array([Path(path).parent.name for path in paths])
    model = Classifier("embedded", device="cpu")
    assert cross_val_score(model, paths, labels, cv=2, scoring="accuracy").mean() > 0.8


def test_the_score_may_weigh_images() -> None:
    images, labels = drawings(2, 6)
    model = Classifier("embedded", device="cpu").fit(images, labels)
    wrong = [*labels[:6], *labels[:6]]
    assert model.score(images, wrong) == 0.5
    assert model.score(images, wrong, sample_weight=[3.0] * 6 + [1.0] * 6) == 0.75


# --- what else a program hears


def test_notes_are_warnings_at_the_line_that_asked(tmp_path: Path) -> None:
    draw(tmp_path / "in", ["owl"], 4)
    (tmp_path / "in/owl/notes.txt").touch()
    model = Classifier("embedded", device="cpu")
    with pytest.warns(UserWarning, match=r"left out: 'owl/notes\.txt'") as told:
        model.learn(tmp_path / "in")
    assert {warning.filename for warning in told} == {__file__}
    assert any("One class alone" in str(warning.message) for warning in told)
    with pytest.warns(UserWarning, match="One class alone") as told:
        model.fit([tmp_path / "in/owl/000.png"], ["owl"])
    assert {warning.filename for warning in told} == {__file__}


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    draw(tmp_path / "in", ["owl", "sun"], 4)
    (tmp_path / "in/notes.txt").touch()
    with pytest.warns(UserWarning, match="left out"):
        model = Classifier("embedded", device="cpu").learn(tmp_path / "in")
    model.evaluate(tmp_path / "in")
    model.unlearn([tmp_path / "in/owl/000.png"], "owl")
    assert capfd.readouterr() == ("", "")


def test_numbers_become_names_and_that_is_said() -> None:
    images, _ = drawings(2, 4)
    with pytest.warns(UserWarning, match=r"label 0 becomes the text '0'.*y\.astype\(str\)"):
        model = Classifier("embedded", device="cpu").fit(images, np.repeat([0, 1], 4))
    assert set(model.predict(images)) <= {"0", "1"}


def test_python_evaluates_as_the_command_does(tmp_path: Path) -> None:
    draw(tmp_path / "train", ["owl", "sun"], 6)
    draw(tmp_path / "test", ["owl", "sun"], 4, first=6)
    draw(tmp_path / "strange", ["fish"], 4)
    model = Classifier("embedded", device="cpu").learn(tmp_path / "train")
    model.save(tmp_path / "m.ovor")
    argv = ["m.ovor", "test", "--unknown", "strange", "--rename", "sun=sun", "--json"]
    said = json.loads(ovor("evaluate", *argv, cwd=tmp_path).stdout)
    found = model.evaluate(tmp_path / "test", unknown=tmp_path / "strange", rename={"sun": "sun"})
    assert shape(found) == shape(said)
    assert found["accuracy"] == said["accuracy"]
    assert found["unknown"]["images"] == 4
    by_class = {name: tmp_path / "test" / name for name in ("owl", "sun")}
    assert model.evaluate(by_class)["accuracy"] == found["accuracy"]
    assert model.evaluate(tmp_path / "test/owl", "owl")["images"] == 4


def shape(value: Any) -> Any:
    """Return a value with what kinds it is made of."""
    if isinstance(value, dict):
        return {key: shape(own) for key, own in value.items()}
    return [shape(own) for own in value] if isinstance(value, list) else type(value)


def in_python(tmp_path: Path) -> dict[str, Callable[[], object]]:
    """Return mistakes that the command line has flags for."""
    images = draw(tmp_path / "in", ["owl", "sun"], 3)
    (tmp_path / "bad/owl").mkdir(parents=True)
    (tmp_path / "bad/owl/a.png").touch()
    model = Classifier("embedded", device="cpu").learn(images)
    paths = sorted(images.glob("owl/*"))
    once = Classifier("embedded", device="cpu").learn(images, once=True)
    trained = Classifier("embedded", "simplecil", device="cpu").learn(images)
    return {
        'labels="CLASS"': lambda: model.learn(images / "owl"),
        'one image: say what it shows (labels="CLASS")': lambda: model.learn(paths[0]),
        'on_error="skip"': lambda: model.learn(tmp_path / "bad"),
        "rename={'owl': 'NEW'}": lambda: trained.learn(images),
        "skip_known=True": lambda: trained.learn(images),
        "rename=...": lambda: model.evaluate(images / "owl", "elk"),
        "unknown=...": lambda: model.evaluate(images / "owl", "elk"),
        "from_=...": lambda: once.correct(paths[0], "sun"),
        "once=True": lambda: once.unlearn(images / "owl", "sun"),
    }


def test_errors_name_parameters_and_no_flags(tmp_path: Path) -> None:
    for parameter, mistake in in_python(tmp_path).items():
        with pytest.raises(OvorError) as caught:
            mistake()
        assert parameter in str(caught.value)
        assert "--" not in str(caught.value)
        assert parameter not in with_flags(str(caught.value))
        assert "--" in with_flags(str(caught.value))


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ('Leave it out (on_error="skip").', "Leave it out (--on-error skip)."),
        ("(rename={'cat': 'NEW'})", "(--rename cat=NEW)"),
        ("(rename={\"it's\": 'NEW'})", "(--rename 'it'\"'\"'s=NEW')"),
        ("(skip_known=True) or (backbone=...)", "(--skip-known) or (--backbone)"),
        ('(labels="CLASS")', "(--label CLASS)"),
        ("a (x=True).png", "a (x=True).png"),
    ],
)
def test_on_the_command_line_parameters_are_flags(python: str, shell: str) -> None:
    assert with_flags(python) == shell
