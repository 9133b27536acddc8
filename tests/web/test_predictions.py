"""POST /predict: the predictions are those of the classifier, whoever else asks meanwhile."""

import io
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from ovor import Classifier

from .live import FIRST, Live, begun, drawn, files, png, serving


def opened(contents: list[bytes]) -> list[Image.Image]:
    return [Image.open(io.BytesIO(content)) for content in contents]


def at_once(clients: int, ask: Callable[[], None]) -> None:
    for asked in begun(*[ask] * clients):
        asked.result()


def test_predictions_are_those_of_the_classifier_in_order(shared: Live) -> None:
    pairs = zip(*(drawn(name, 20, "test") for name in FIRST), strict=True)
    asked = [image for pair in pairs for image in pair] + drawn("sun", 5)
    answer = shared.predict(*asked)
    assert answer.status_code == 200
    assert answer.json()["version"] == 1
    rows = answer.json()["predictions"]
    expected = Classifier.load(shared.model, device="cpu").classify(opened(asked))
    assert [row["image"] for row in rows] == [f"{i}.png" for i in range(len(asked))]
    assert [row["best"][0]["class"] for row in rows] == expected.labels.tolist()
    np.testing.assert_allclose([row["confidence"] for row in rows], expected.confidences, atol=2e-5)
    assert [row["unknown"] for row in rows] == expected.unknown.tolist()
    for row in rows:
        assert row["label"] == ("unknown" if row["unknown"] else row["best"][0]["class"])
        assert row["likeliest"] == row["best"][0]["class"]
        assert (row["margin"] < 0) == row["unknown"]
        assert len(row["best"]) == 2


def test_a_bad_image_among_good_ones_has_its_own_error(shared: Live) -> None:
    good = drawn("banana", 2)
    rows = shared.predict(good[0], b"<html>", good[1]).json()["predictions"]
    assert [row.get("label") for row in rows] == ["banana", None, "banana"]
    assert rows[1]["error"].startswith("1.png is a web page: send JPEG, PNG")
    assert set(rows[1]) == {"image", "error"}


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "gif", "bmp", "tiff"])
def test_every_kind_that_ovor_reads(shared: Live, kind: str) -> None:
    [image], file = opened(drawn("candle", 1)), io.BytesIO()
    frames = [Image.new("RGB", (28, 28))]  # of a moving image the first frame counts
    image.save(file, kind, **({"save_all": True, "append_images": frames} if kind == "gif" else {}))
    answer = shared.predict(file.getvalue())
    assert answer.json()["predictions"][0]["best"][0]["class"] == "candle"


def test_a_request_larger_than_a_batch_keeps_its_order(shared: Live) -> None:
    asked = drawn("banana", 30) + drawn("candle", 30)
    answers: list[list[str]] = []

    def ask() -> None:
        found = httpx.post(f"{shared.url}/predict", files=files(asked), timeout=60).json()
        answers.append([row["best"][0]["class"] for row in found["predictions"]])

    at_once(4, ask)
    expected = Classifier.load(shared.model, device="cpu").predict(opened(asked)).tolist()
    assert answers == [expected] * 4


def test_a_full_queue_says_when_to_come_again(place: Path) -> None:
    large = [png(Image.new("RGB", (3000, 3000)))] * 4  # takes its time to decode
    answers: list[httpx.Response] = []
    with serving(place, "--queue", "4") as live:
        assert live.about()["limits"]["images_per_prediction"] == 4

        def ask() -> None:
            answers.append(httpx.post(f"{live.url}/predict", files=files(large), timeout=60))

        at_once(8, ask)
        assert {answer.status_code for answer in answers} == {200, 429}
        retry = [a.headers["retry-after"] for a in answers if a.status_code == 429]
        assert all(int(seconds) >= 1 for seconds in retry)
        assert live.predict(*drawn("banana", 4)).status_code == 200
        assert live.predict(*drawn("banana", 5)).status_code == 413
        assert live.client.get("/healthz").json() == {"status": "ok"}
