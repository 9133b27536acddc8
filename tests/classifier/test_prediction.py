"""One way from an image to a prediction, whoever asks."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command import ovor
from ovor import Classifier, OvorError
from ovor.classifier.estimator import Estimator
from ovor.classifier.prediction import (
    BATCH,
    Prediction,
    as_columns,
    predict_images,
    predict_readable,
    predict_views,
)

NAMES = np.array(["ant", "bee", "cow"], object)


def test_a_row_names_the_likeliest_classes_in_order() -> None:
    found = Prediction(NAMES, np.array([0.25, 0.4999999, 0.25]), margin=0.12345678)
    assert (found.likeliest, found.label, found.unknown) == ("bee", "bee", False)
    assert found.confidence == 0.4999999
    assert found.best(2) == [("bee", 0.5), ("ant", 0.25)]  # of equals the first
    assert found.as_json(1) == {
        "label": "bee",
        "unknown": False,
        "margin": 0.123457,
        "best": [{"class": "bee", "confidence": 0.5}],
    }


def test_what_no_task_claims_is_unknown_but_has_a_likeliest_class() -> None:
    found = Prediction(NAMES, np.array([0.1, 0.2, 0.7]), margin=-0.1)
    assert (found.likeliest, found.label, found.unknown) == ("cow", "unknown", True)
    labels, confidences, unknown = as_columns([found])
    assert (labels.tolist(), confidences.tolist(), unknown.tolist()) == (["cow"], [0.7], [True])


def test_no_image_has_no_prediction(model: Classifier) -> None:
    assert predict_views(model, []) == []
    assert [len(column) for column in model.predict([])] == [0, 0, 0]
    assert model.predict_proba([]).shape == (0, 6)


def test_python_and_the_terminal_say_the_same(
    model: Classifier, model_file: Path, labelled: Path
) -> None:
    """More images than a batch has, in one order, by every way there is."""
    paths = sorted(labelled.glob("*/*.png")) * 3
    assert len(paths) > BATCH
    found = list(predict_images(model, paths))
    labels, confidences, unknown = model.predict(paths)
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
    assert len(model.predict(labelled).labels) == 18
