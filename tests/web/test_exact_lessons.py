"""POST /lessons to a model of exact sums: more images of known classes, alone or with new ones."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drawings import draw
from ovor import Classifier
from ovor.classifier.file import read_model
from ovor.learners.moments import MOMENTS

from .live import FIRST, SECOND, Live, drawn, events, files, serving, until

pytestmark = pytest.mark.xdist_group("lessons")
MORE = ["banana", "owl"]  # one that is known, one that is new


def counts(live: Live) -> list[dict[str, int]]:
    """Return how many images each class has, by task."""
    tasks = live.about()["lessons"]
    return [{found["name"]: found["images"] for found in task["classes"]} for task in tasks]


def test_more_images_of_known_classes_are_no_new_task(live: Live) -> None:
    before = live.model.read_bytes()
    begun = live.teach(FIRST)
    assert begun.status_code == 202, begun.text
    heard = events(live, begun.json()["id"])
    last = heard[-1]
    assert (last["state"], last["lesson"], last["progress"]) == ("done", None, 1)
    assert last["classes"] == [{"name": name, "images": 12} for name in FIRST]
    assert 50 <= last["accuracy"] <= 100
    assert "learning" in {event["state"] for event in heard}
    assert live.about()["version"] == 2
    assert counts(live) == [dict.fromkeys(FIRST, 32)]
    assert (live.folder / "m.ovor.before").read_bytes() == before
    assert not (live.folder / "m.ovor.learning").exists()
    assert live.scratch() == []


def test_known_and_new_classes_are_learned_as_by_the_classifier(
    live: Live, made: Path, tmp_path: Path
) -> None:
    done = live.learn(MORE)
    assert done["lesson"] == 2
    assert counts(live) == [{"banana": 32, "candle": 20}, {"owl": 12}]
    other = Classifier.load(made, device="cpu")
    other.learn(draw(tmp_path / "more", MORE, 12)).save(tmp_path / "other.ovor")
    assert other.report_ is not None
    assert done["accuracy"] == other.report_["expected"]
    ours, theirs = read_model(live.model), read_model(tmp_path / "other.ovor")
    assert ours.about.tasks == theirs.about.tasks
    assert ours.state.keys() == theirs.state.keys()
    for name, tensor in ours.state.items():
        # The sums are exact; the head has what a spectrum in single precision says in it, which
        # another number of threads adds up in another order.
        rounding = 0.0 if name in MOMENTS else 1e-5
        np.testing.assert_allclose(tensor, theirs.state[name], rtol=rounding, atol=rounding)


def test_a_report_has_a_verdict_and_names_images_as_the_client_does(live: Live) -> None:
    images = [*drawn("fish", 12), *drawn("owl", 12), *drawn("fish", 13)[12:]]
    labels = ["fish"] * 12 + ["owl"] * 13  # the last fish is taught as an owl
    begun = live.client.post("/lessons", files=files(images), data={"labels": labels})
    done = live.until(begun.json()["id"], "done")
    report = done["report"]
    assert report["verdict"] in ("good", "fair", "poor")
    assert {one["class"] for one in report["classes"]} == {"fish", "owl"}
    assert report["older"]["how"] == "estimated"
    assert {one["class"] for one in report["older"]["classes"]} == set(FIRST)
    assert {one["image"] for one in report["suspects"]} <= {f"{i}.png" for i in range(25)}
    assert str(live.folder) not in live.client.get(f"/lessons/{done['id']}").text


def test_a_killed_lesson_leaves_the_old_model_and_can_be_taught_again(live: Live) -> None:
    before = live.model.read_bytes()
    number = live.teach(MORE).json()["id"]
    os.kill(live.child(), signal.SIGKILL)
    found = live.until(number, "failed")
    assert "ended by signal 9" in found["error"]
    assert (found["lesson"], found["accuracy"]) == (None, None)
    assert live.model.read_bytes() == before
    assert live.scratch() == []
    number = live.teach(MORE).json()["id"]
    assert live.client.delete(f"/lessons/{number}").json()["state"] == "cancelled"
    assert live.model.read_bytes() == before
    learned_without_the_bad_image(live)


def learned_without_the_bad_image(live: Live) -> None:
    data: dict[str, Any] = {"labels": ["banana"] * 4, "on_error": "skip"}
    answer = live.client.post("/lessons", files=files([*drawn("banana", 3), b"no"]), data=data)
    assert answer.status_code == 202
    found = live.until(answer.json()["id"], "done")
    assert [fault["name"] for fault in found["images"]] == ["3.png"]
    assert counts(live) == [{"banana": 23, "candle": 20}]


def test_exams_are_asked_again_after_more_images(place: Path) -> None:
    draw(place / "exam", [*FIRST, *SECOND], 6, first=60)
    with serving(place, "--exam", "exam") as live:
        until(lambda: live.about()["exams"])
        live.learn(FIRST, keep_set_aside="true")
        live.learn(SECOND, keep_set_aside="true")
        until(lambda: len(live.about()["exams"]) == 2)
        exams = live.about()["exams"]
    assert [exam["lessons"] for exam in exams] == [1, 2]
    assert [[task["images"] for task in exam["groups"]] for exam in exams] == [[12], [12, 12]]


def test_a_model_for_predicting_only_says_so(place: Path) -> None:
    model = place / "m.ovor"
    Classifier.load(model, device="cpu").save(model, sums=False)
    before = model.read_bytes()
    with serving(place) as live:
        number = live.teach(FIRST).json()["id"]
        assert "is for predicting only" in live.until(number, "failed")["error"]
        assert live.predict(*drawn("banana", 1)).json()["version"] == 1
    assert model.read_bytes() == before
