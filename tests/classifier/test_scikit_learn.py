"""scikit-learn's own checks and tools, as far as they can be used with images."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from ovor import Classifier
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
