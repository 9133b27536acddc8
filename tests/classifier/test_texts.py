"""The classifier in Python on texts: the same verbs, and sums that depend on no order."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ovor import Classifier, OvorError
from ovor.classifier.onnx import OnnxClassifier
from ovor.classifier.onnx_export import export_onnx
from ovor.classifier.prediction import predict_images
from small_texts import TICKETS, csv_of, text_folder

X = [text for own in TICKETS.values() for text in own]
Y = [name for name, own in TICKETS.items() for _ in own]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"text:{text_folder(tmp_path_factory.mktemp('text') / 'small')}"


def new(encoder: str) -> Classifier:
    return Classifier(encoder, device="cpu")


@pytest.fixture(scope="module")
def model(encoder: str) -> Classifier:
    return new(encoder).fit(X, Y)


def test_fit_and_predict_take_lists_of_texts(model: Classifier) -> None:
    assert model.classes_.tolist() == sorted(TICKETS)
    found = model.predict(X)
    assert np.mean(found == np.array(Y, object)) > 0.8
    assert model.score(X, Y) == np.mean(found == np.array(Y, object))
    assert model.predict_proba(X[0]).shape == (1, 3)
    assert model.decision_function(np.array(X[:2])).shape == (2, 3)
    labels, confidences, unknown = model.classify(X[:4])
    assert len(labels) == len(confidences) == len(unknown) == 4


def test_what_is_learned_does_not_depend_on_order_or_company(
    model: Classifier, encoder: str
) -> None:
    parts = new(encoder)
    for start in (12, 0, 6):
        parts.learn(X[start : start + 6], Y[start : start + 6])
    ours, theirs = (
        found.decision_function(X)[:, np.argsort(found.classes_.astype(str))]
        for found in (model, parts)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-9)  # the same sums, in another order of rows


def test_a_table_is_learned_as_the_same_lists_are(
    model: Classifier, encoder: str, tmp_path: Path
) -> None:
    table = new(encoder).learn(csv_of(tmp_path / "t.csv"))
    np.testing.assert_array_equal(table.decision_function(X), model.decision_function(X))
    renamed = tmp_path / "u.csv"
    renamed.write_text((tmp_path / "t.csv").read_text().replace("text,label", "was,wo", 1))
    other = new(encoder).learn(renamed, columns=("was", "wo"))
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))


def test_unlearning_leaves_what_the_rest_would_have_made(encoder: str) -> None:
    whole, rest = new(encoder).learn(X, Y), new(encoder).learn(X[1:], Y[1:])
    whole.unlearn([X[0]], [Y[0]])
    np.testing.assert_allclose(whole.decision_function(X), rest.decision_function(X), atol=1e-9)
    whole.correct(X[0], "other")
    assert "other" in whole.classes_
    whole.undo()
    assert "other" not in whole.classes_


def test_a_file_brings_it_back(model: Classifier, tmp_path: Path) -> None:
    model.save(tmp_path / "m.ovor", bundle=True)
    again = Classifier.load(tmp_path / "m.ovor", device="cpu")
    assert again.about().backbone.reads == "texts"
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    plain = tmp_path / "plain.ovor"
    model.save(plain)
    assert plain.stat().st_size < 60_000  # without tokenizer and weights


def test_a_long_text_is_said_to_be_cut(encoder: str) -> None:
    long = "where is the parcel of the courier " * 40
    found = new(encoder).learn([*X, long], [*Y, "delivery"])
    assert found.report_ is not None
    assert found.report_["shortened"] == 1
    assert found.report_["reads"] == "texts"


def test_what_looks_mislabelled_is_quoted(encoder: str) -> None:
    wrong = ["delivery" if text == X[0] else name for text, name in zip(X, Y, strict=True)]
    report = new(encoder).learn(X * 3, wrong * 3).report_
    assert report is not None
    named = {suspect["image"] for suspect in report["suspects"]}
    assert named <= set(X)


def test_the_export_computes_what_the_model_does(model: Classifier, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    assert export_onnx(model, tmp_path / "m.onnx") < 1e-4
    found = OnnxClassifier.load(tmp_path / "m.onnx")
    texts = [*X, "hi", "a parcel " * 70]
    theirs = np.array([one.probabilities for one in predict_images(found, texts)])
    assert np.abs(model.predict_proba(texts) - theirs).max() < 1e-4
    said = found.about["preprocessing"]
    assert said["reads"] == "texts"
    (given,) = found.session.get_inputs()
    assert (given.name, len(given.shape), given.type) == ("ids", 3, "tensor(int64)")


def test_sharing_says_that_it_reads_texts(model: Classifier, tmp_path: Path) -> None:
    model.push_to_hub(tmp_path / "shared")
    page = (tmp_path / "shared/README.md").read_text()
    assert "text-classification" in page
    assert "| lesson | classes | texts |" in page
    again = Classifier.from_pretrained(tmp_path / "shared", device="cpu")
    assert again.predict(X[:1]) == model.predict(X[:1])


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda m: m.learn([]), "no text to learn from"),
        (lambda m: m.learn(["a"], ["x", "y"]), "1 texts and 2 labels"),
        (lambda m: m.learn(["a", ""], ["x", "y"]), "A text is empty"),
        (lambda m: m.learn(["a"]), r"must be a pair \(text, label\)"),
        (lambda m: m.learn(["a", 3], ["x", "y"]), "A text cannot be an int"),
        (lambda m: m.learn("gone.csv"), "gone.csv does not exist"),
        (lambda m: m.learn(X, Y, weights=[1.0]), "18 texts and 1 weights"),
        (lambda m: m.predict(7), "Texts cannot be an int"),
        (lambda m: m.predict([" "]), "A text is empty"),
        (lambda m: m.correct([], "account"), "There is no text to correct"),
        (lambda m: m.correct([X[0], X[0]], "billing"), "The same text is given twice"),
        (lambda m: m.unlearn(["never seen"] * 9, ["account"] * 9), "from 6 texts, so 9 cannot"),
        (lambda m: m.set_params(image_size=32 * 2), "has learned from texts"),
    ],
)
def test_mistakes_are_sentences_about_texts(model: Classifier, act: Any, says: str) -> None:
    with pytest.raises(OvorError, match=says):
        act(model)
    assert model.classes_.tolist() == sorted(TICKETS)
