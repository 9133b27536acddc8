"""One way from an image to a prediction, whoever asks."""

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import ovor
from ovor import Classifier, OvorError
from ovor.classifier.estimator import Estimator
from ovor.classifier.prediction import (
    Prediction,
    as_columns,
    predict_images,
    predict_readable,
    predict_views,
    row,
)
from ovor.data.modality import IMAGES

NAMES = np.array(["ant", "bee", "cow"], object)


def test_a_row_names_the_likeliest_classes_in_order() -> None:
    found = Prediction(NAMES, np.array([0.25, 0.4999999, 0.25]), margin=0.12345678)
    assert (found.likeliest, found.label, found.unknown) == ("bee", "bee", False)
    assert found.confidence == 0.4999999
    assert found.best(2) == [("bee", 0.5), ("ant", 0.25)]  # of equals the first
    assert found.as_json(1) == {
        "label": "bee",
        "unknown": False,
        "likeliest": "bee",
        "confidence": 0.5,
        "margin": 0.123457,
        "best": [{"class": "bee", "confidence": 0.5}],
    }


def test_what_no_task_claims_is_unknown_but_has_a_likeliest_class() -> None:
    found = Prediction(NAMES, np.array([0.1, 0.2, 0.7]), margin=-0.1)
    assert (found.likeliest, found.label, found.unknown) == ("cow", "unknown", True)
    labels, confidences, unknown = as_columns([found])
    assert (labels.tolist(), confidences.tolist(), unknown.tolist()) == (["cow"], [0.7], [True])


def test_a_row_is_of_an_image_or_says_why_it_cannot_be_read() -> None:
    found = Prediction(NAMES, np.array([0.1, 0.2, 0.7]), margin=-0.1)
    assert list(row("a.png", found, 3)) == [
        *("image", "label", "unknown", "likeliest", "confidence", "margin", "best")
    ]
    assert row("a.png", found, 1)["likeliest"] == "cow"
    assert row("b.png", OvorError("It is empty."), 1) == {"image": "b.png", "error": "It is empty."}


def test_predict_gives_labels_of_known_classes(model: Classifier, labelled: Path) -> None:
    found = model.predict(labelled)
    assert isinstance(found, np.ndarray)
    assert found.shape == (18,)
    assert set(found) <= set(model.classes_)
    assert found.tolist() == model.classify(labelled).labels.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [str(label) for label in found] == found.tolist()
        first, second = found[:2]
        assert pickle.loads(pickle.dumps(found)).tolist() == found.tolist()
    assert [first, second] == found.tolist()[:2]


def test_who_still_takes_three_arrays_is_told_what_to_write(
    model: Classifier, labelled: Path
) -> None:
    expected = model.classify(labelled)
    found = model.predict(labelled)
    with pytest.deprecated_call(match=r"model\.classify\(images\)") as told:
        labels, confidences, unknown = found
    assert told[0].filename == __file__
    for name, column in zip(expected._fields, (labels, confidences, unknown), strict=True):
        np.testing.assert_array_equal(column, getattr(expected, name))
        with pytest.deprecated_call(match=rf"for \.{name} write `labels, confidences") as told:
            np.testing.assert_array_equal(getattr(found, name), column)
        assert told[0].filename == __file__
    with pytest.raises(AttributeError, match="classify"):
        _ = found[:2].unknown  # a part does not know


def test_three_labels_are_never_taken_for_three_arrays(model: Classifier, labelled: Path) -> None:
    found = model.predict(sorted(labelled.glob("sun/*.png")))
    with pytest.raises(OvorError, match=r"for three labels unpack `\.tolist\(\)`"):
        _labels, _confidences, _unknown = found
    first, second, third = found.tolist()
    assert [first, second, third] == list(found)


def test_no_image_has_no_prediction(model: Classifier) -> None:
    assert predict_views(model, []) == []
    assert [len(column) for column in model.classify([])] == [0, 0, 0]
    assert model.predict_proba([]).shape == (0, 6)


def test_python_and_the_terminal_say_the_same(
    model: Classifier, model_file: Path, labelled: Path
) -> None:
    """More images than a batch has, in one order, by every way there is."""
    paths = sorted(labelled.glob("*/*.png")) * 3
    assert len(paths) > IMAGES.at_once
    found = list(predict_images(model, paths))
    labels, confidences, unknown = model.classify(paths)
    assert labels.tolist() == [p.likeliest for p in found]
    assert confidences.tolist() == [p.confidence for p in found]
    assert unknown.tolist() == [p.unknown for p in found]
    np.testing.assert_array_equal(model.predict_proba(paths), [p.probabilities for p in found])
    rows = json.loads(ovor("predict", model_file, *paths, "--top", "2", "--json").stdout)
    assert rows == [
        {"image": str(path), **p.as_json(2)} for path, p in zip(paths, found, strict=True)
    ]


def test_an_unreadable_image_is_an_error_or_a_row(model: Classifier, labelled: Path) -> None:
    path = next(labelled.glob("*/*.png"))
    images = [path, "gone.png", Image.open(path)]
    first, second, third = predict_readable(model, images)
    assert isinstance(first, Prediction)
    assert isinstance(second, OvorError)
    assert isinstance(third, Prediction)
    assert first.likeliest == third.likeliest
    with pytest.raises(OvorError, match=r"gone\.png cannot be read"):
        list(predict_images(model, images))


def test_settings_are_not_checked_again_for_every_image(
    model: Classifier, labelled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked_again(self: Estimator) -> None:
        pytest.fail("the settings were checked while predicting")

    monkeypatch.setattr(Estimator, "run", checked_again)
    assert len(model.predict(labelled)) == 18
