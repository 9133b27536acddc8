"""POST /lessons: lessons, and a model that changes while clients ask."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from drawings import draw
from ovor import Classifier
from ovor.classifier.file import read_model

from .live import FIRST, SECOND, Live, begun, drawn, events, files, serving, until
from .test_predictions import opened

pytestmark = pytest.mark.xdist_group("lessons")  # some share a server, and what it has learned
EPOCHS = "12"
CLOSE = 1e-3  # of confidences, which batches of other sizes round otherwise


@dataclass
class Taught:
    """A server that was taught a task, and what its clients saw meanwhile."""

    live: Live
    begun: dict[str, Any]
    heard: list[dict[str, Any]]
    asked: list[bytes]
    answers: list[tuple[int, httpx.Response]]
    """by the number of the image that was asked about"""


@pytest.fixture(scope="module")
def taught(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taught]:
    folder = tmp_path_factory.mktemp("taught")
    draw(folder / "exam", [*FIRST, *SECOND], 6, first=60)
    shutil.copy(trained, folder)
    asked = [image for name in [*FIRST, *SECOND] for image in drawn(name, 5, "test")]
    answers: list[tuple[int, httpx.Response]] = []
    heard: list[dict[str, Any]] = []
    over = threading.Event()
    with serving(folder, "--exam", "exam") as live:
        until(lambda: live.about()["exams"])

        def ask(image: int) -> None:
            with httpx.Client(base_url=live.url, timeout=60) as client:
                while not over.is_set():
                    answer = client.post("/predict", files=files([asked[image]]))
                    answers.append((image, answer))
                    image = (image + 1) % len(asked)

        asking = begun(*[partial(ask, number) for number in range(4)])
        taught = live.teach(SECOND, epochs=EPOCHS, keep_set_aside="true")
        assert taught.status_code == 202
        assert live.about()["learning"] == taught.json()["id"]
        second = live.teach(["fish"])
        assert second.status_code == 409
        assert int(second.headers["retry-after"]) >= 1
        heard += events(live, taught.json()["id"])
        until(lambda: answers[-1][1].json()["version"] == 2)
        over.set()
        for one in asking:
            one.result()
        yield Taught(live, taught.json(), heard, asked, answers)
        assert live.end() == 0
    assert list((folder / "tmp").iterdir()) == []


def test_a_lesson_makes_a_new_model(taught: Taught, trained: Path) -> None:
    live, last = taught.live, taught.heard[-1]
    assert taught.begun["classes"] == [{"name": name, "images": 12} for name in SECOND]
    assert taught.begun["url"] == f"/lessons/{taught.begun['id']}"
    assert (last["state"], last["lesson"], last["progress"]) == ("done", 2, 1)
    about = live.about()
    assert about["version"] == 2
    assert about["learning"] is None
    assert [found["name"] for found in about["lessons"][1]["classes"]] == SECOND
    assert last["accuracy"] == about["lessons"][1]["held_out_accuracy"]
    rows = live.predict(*drawn("owl", 10, "test"), *drawn("sun", 10, "test")).json()["predictions"]
    best = [row["best"][0]["class"] for row in rows]
    assert sum(a == b for a, b in zip(best, ["owl"] * 10 + ["sun"] * 10, strict=True)) >= 14
    assert live.model.read_bytes() != trained.read_bytes()
    assert not (live.folder / "m.ovor.learning").exists()
    assert live.scratch() == []
    assert live.client.get("/lessons").json()["lessons"] == [live.lesson(taught.begun["id"])]
    assert "lesson" in live.said()


def test_events_tell_how_far_it_is(taught: Taught) -> None:
    progress = [event["progress"] for event in taught.heard]
    assert progress == sorted(progress)
    assert {"learning", "done"} <= {event["state"] for event in taught.heard}
    assert any(event["doing"].startswith("learning, epoch") for event in taught.heard)
    assert any(event["seconds_left"] for event in taught.heard)
    assert events(taught.live, taught.begun["id"]) == taught.heard[-1:]  # late comers hear the end


def test_no_request_is_lost_and_none_predicted_by_half_a_model(
    taught: Taught, trained: Path
) -> None:
    files = {1: trained, 2: taught.live.model}
    expected = {
        version: Classifier.load(path, device="cpu").classify(opened(taught.asked))
        for version, path in files.items()
    }
    assert {answer.status_code for _, answer in taught.answers} == {200}
    assert {answer.json()["version"] for _, answer in taught.answers} == {1, 2}
    for image, answer in taught.answers:
        found, own = answer.json(), expected[answer.json()["version"]]
        best = found["predictions"][0]["best"][0]
        assert best["class"] == own.labels[image]
        assert best["confidence"] == pytest.approx(own.confidences[image], abs=CLOSE)


def test_the_lesson_is_the_one_of_the_classifier(
    taught: Taught, trained: Path, tmp_path: Path
) -> None:
    other = Classifier.load(trained, device="cpu").set_params(epochs=int(EPOCHS))
    other.learn(draw(tmp_path / "second", SECOND, 12)).save(tmp_path / "other.ovor")
    ours, theirs = read_model(taught.live.model), read_model(tmp_path / "other.ovor")
    assert ours.about.tasks[1].classes == theirs.about.tasks[1].classes
    assert ours.state.keys() == theirs.state.keys()
    for name, tensor in ours.state.items():
        np.testing.assert_allclose(tensor, theirs.state[name], atol=1e-5)


def test_evaluations_show_what_is_forgotten(taught: Taught) -> None:
    live, folder = taught.live, taught.live.folder / "exam"

    def last() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = live.about()["exams"][-1]["groups"]
        return found

    until(lambda: len(last()) == 2 and last()[1]["images"] > 12)  # with those that it may keep
    exams = live.about()["exams"]
    assert [exam["lessons"] for exam in exams] == [1, 2]
    assert [[group["lesson"] for group in exam["groups"]] for exam in exams] == [[1], [1, 2]]
    paths = [path for name in FIRST for path in sorted((folder / name).iterdir())]
    score = Classifier.load(live.model, device="cpu").score(paths, [p.parent.name for p in paths])
    assert exams[1]["groups"][0]["accuracy"] == pytest.approx(100 * score)


def test_another_model_has_no_evaluations_of_this_one(taught: Taught, tmp_path: Path) -> None:
    other = Classifier("embedded", "simplecil", device="cpu")
    other.learn(draw(tmp_path / "other", ["sun", "fish"], 8)).save(tmp_path / "other.ovor")
    os.replace(tmp_path / "other.ovor", taught.live.model)
    until(lambda: taught.live.about()["version"] == 3 and taught.live.about()["exams"])
    [exam] = taught.live.about()["exams"]
    assert exam["lessons"] == 1


def test_lessons_that_end_early_leave_the_old_model(slow_place: Path) -> None:
    """The model would load images by another process: a lesson here needs none, and leaves none."""
    model = slow_place / "m.ovor"
    Classifier.load(model).set_params(workers=1).save(model)
    before, run = model.read_bytes(), read_model(model).about.run
    with serving(slow_place) as live:
        for begin in (lambda: live.teach(SECOND).json()["id"], live.begin):
            number = begin()
            answer = live.client.delete(f"/lessons/{number}")
            assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
            assert live.client.delete(f"/lessons/{number}").status_code == 409
            assert live.scratch() == []
        assert live.client.delete("/lessons/nowhere").status_code == 404
        number = live.begin()
        os.kill(live.child(), signal.SIGKILL)
        assert "ended by signal 9" in live.until(number, "failed")["error"]
        assert live.model.read_bytes() == before
        assert live.scratch() == []
        assert live.predict(*drawn("banana", 1)).json()["version"] == 1
        learned_without_bad_images(live)
        assert read_model(live.model).about.run == run  # epochs are for one lesson
        assert not left_behind(live)


def learned_without_bad_images(live: Live) -> None:
    good = drawn("owl", 8)
    data = {"labels": ["owl"] * 10, "on_error": "skip", "epochs": "2"}
    answer = live.client.post("/lessons", files=files([*good, b"no", good[0][:100]]), data=data)
    assert answer.status_code == 202
    found = live.until(answer.json()["id"], "done")
    assert found["lesson"] == 2
    assert [fault["name"] for fault in found["images"]] == ["8.png", "9.png"]
    assert found["classes"] == [{"name": "owl", "images": 8}]
    assert any("One class alone" in note for note in found["notes"])


def left_behind(live: Live) -> list[str]:
    """Return the processes that still have the server's temporary folder for theirs."""
    sign = f"TMPDIR={live.folder / 'tmp'}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += [str(path)] if sign in path.read_bytes() else []
    return found


@pytest.mark.parametrize(
    ("labels", "fields", "says"),
    [
        (["owl"], {}, "There are 2 images and 1 labels"),
        (["owl", "owl", "owl"], {}, "There are 2 images and 3 labels"),
        (["owl", "Unknown "], {}, "which is the answer for what is of no class"),
        (["owl", " "], {}, "cannot be read on one line"),
        (["owl", "a\nb"], {}, "cannot be read on one line"),
        (["owl", "o" * 201], {}, "longer than 200 characters"),
        (["owl", "owl"], {"epochs": "0"}, "epochs must be one whole number"),
        (["owl", "owl"], {"epochs": "1001"}, "epochs must be one whole number"),
        (["owl", "owl"], {"epochs": "many"}, "epochs must be one whole number"),
        (["owl", "owl"], {"epochs": ["3", "4"]}, "epochs must be one whole number"),
        (["owl", "owl"], {"on_error": "ignore"}, "on_error must be one of stop, skip"),
        (["owl", "owl"], {"keep_set_aside": "1"}, "keep_set_aside must be one of"),
        (["owl", "owl"], {"colour": "red"}, "There is no field 'colour'"),
    ],
)
def test_what_cannot_be_learned(
    shared: Live, labels: list[str], fields: dict[str, Any], says: str
) -> None:
    images = files(drawn("owl", 2))
    answer = shared.client.post("/lessons", files=images, data={"labels": labels, **fields})
    assert answer.status_code == 422, answer.text
    assert says in answer.json()["error"]
    assert shared.scratch() == []
    assert shared.client.get("/lessons").json() == {"lessons": []}


def test_what_a_model_that_trains_cannot_learn(slow: Live) -> None:
    images = files(drawn("owl", 2))
    for labels, fields, says in (
        (["owl", "banana"], {}, "'banana' is learned already, and a class cannot be learned twice"),
        (["owl", "owl"], {"epochs": "1"}, "needs two epochs"),
    ):
        answer = slow.client.post("/lessons", files=images, data={"labels": labels, **fields})
        assert answer.status_code == 422, answer.text
        assert says in answer.json()["error"]
    assert slow.scratch() == []
    assert slow.client.get("/lessons").json() == {"lessons": []}
    assert slow.about()["exact"] is False


@pytest.mark.parametrize(
    ("last", "fields", "bad", "says"),
    [
        ("owl", {}, [8, 9], "on_error=skip"),
        ("sun", {"on_error": "skip"}, None, "No image of 'sun' can be read"),
    ],
)
def test_bad_images_of_a_lesson(
    shared: Live, last: str, fields: dict[str, str], bad: list[int] | None, says: str
) -> None:
    good = drawn("owl", 8)
    sent, labels = files([*good, b"no image", good[0][:100]]), ["owl"] * 8 + [last] * 2
    answer = shared.client.post("/lessons", files=sent, data={"labels": labels, **fields})
    assert answer.status_code == 422
    assert says in answer.json()["error"]
    assert [fault["index"] for fault in answer.json().get("images", [])] == (bad or [])


def test_an_unfinished_lesson_of_the_command_line(place: Path) -> None:
    (place / "m.ovor.learning").write_bytes(b"")
    with serving(place) as live:
        assert "is unfinished" in live.said()
        answer = live.teach(SECOND)
        assert answer.status_code == 409
        assert "finish it first (ovor learn --resume)" in answer.json()["error"]
    assert (place / "m.ovor.learning").exists()


def test_another_process_changes_the_model(place: Path) -> None:
    """Two servers of one model leave each other alone, and see what the other has taught."""
    with serving(place) as one, serving(place) as two:
        assert len(list((place / "tmp").iterdir())) == 2
        one.learn(SECOND)
        until(lambda: two.about()["version"] == 2)
        assert len(two.about()["lessons"]) == 2
        two.model.write_bytes(b"no model")
        until(lambda: "is not taken over" in two.said())
        assert two.predict(*drawn("owl", 1)).json()["version"] == 2
