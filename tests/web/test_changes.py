"""POST /correct, /unlearn, /undo, /rename, /forget, /merge: changes that are done at once."""

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from drawings import draw
from ovor import Classifier
from ovor.classifier.file import read_model
from ovor.classifier.lock import locked
from ovor.tensor_file import load_tensors, save_tensors

from .live import FIRST, SECOND, Live, begun, drawn, files, serving, until

pytestmark = pytest.mark.xdist_group("lessons")


def correct(live: Live, image: bytes, label: str, **fields: str) -> httpx.Response:
    sent = {"image": ("x.png", image, "image/png")}
    return live.client.post("/correct", files=sent, data={"label": label, **fields})


def counts(live: Live) -> dict[str, int]:
    lessons = live.about()["lessons"]
    return {known["name"]: known["images"] for own in lessons for known in own["classes"]}


def same_sums(one: Path, other: Path) -> None:
    ours, theirs = read_model(one), read_model(other)
    assert ours.about.tasks == theirs.about.tasks
    for name in ("counts", "sums", "second"):
        np.testing.assert_array_equal(ours.state[name], theirs.state[name])


def test_a_correction_is_learned_at_once_as_on_the_command_line(
    live: Live, made: Path, tmp_path: Path
) -> None:
    [owl, other] = drawn("owl", 2)
    assert live.predict(owl).json()["predictions"][0]["likeliest"] != "owl"
    live.predict(owl)
    answer = correct(live, owl, "owl")
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["row"]["image"], said["row"]["label"]) == ("x.png", "owl")
    assert (said["version"], said["can_undo"]) == (2, True)
    assert live.predict(owl).json()["predictions"][0]["label"] == "owl"
    assert correct(live, other, "owl").json()["version"] == 3
    folder = draw(tmp_path / "owls", ["owl"], 2) / "owl"
    same = Classifier.load(made, device="cpu")
    for name in ("000.png", "001.png"):
        same.correct([folder / name], "owl")
    same.save(tmp_path / "same.ovor")
    same_sums(live.model, tmp_path / "same.ovor")
    assert (live.folder / "m.ovor.before").exists()
    assert live.client.get("/lessons").json() == {"lessons": []}
    assert "corrected: an image is 'owl'" in live.said()
    moved = correct(live, other, "sun", was="owl")
    assert moved.status_code == 200, moved.text
    assert counts(live) == {"banana": 20, "candle": 20, "owl": 1, "sun": 1}


def test_undo_rename_forget_unlearn(live: Live) -> None:
    [owl] = drawn("owl", 1)
    correct(live, owl, "owl")
    done = live.client.post("/undo")
    assert done.status_code == 200, done.text
    assert counts(live) == {"banana": 20, "candle": 20}
    assert live.client.post("/undo").json()["version"] == 4  # undoing is undone
    renamed = live.client.post("/rename", json={"class": "owl", "to": "  Eule "})
    assert renamed.status_code == 200, renamed.text
    assert list(counts(live)) == ["banana", "candle", "Eule"]
    assert live.predict(owl).json()["predictions"][0]["label"] == "Eule"
    taken = live.client.post("/unlearn", files=files([owl]), data={"labels": ["Eule"]})
    assert taken.status_code == 200, taken.text
    assert counts(live) == {"banana": 20, "candle": 20}
    assert taken.json()["can_undo"] is False
    refused = live.client.post("/undo")
    assert refused.status_code == 409  # nothing is wrong with the request
    assert "cannot be undone" in refused.json()["error"]
    forgotten = live.client.post("/forget", json={"class": "candle"})
    assert forgotten.status_code == 200
    assert counts(live) == {"banana": 20}
    only = live.client.post("/forget", json={"class": "banana"})
    assert (only.status_code, "only class" in only.json()["error"]) == (409, True)
    assert Classifier.load(live.model, device="cpu").classes_.tolist() == ["banana"]


def test_a_dropped_model_is_merged(live: Live, made: Path, tmp_path: Path) -> None:
    other = Classifier("embedded", device="cpu").learn(draw(tmp_path / "o", [*SECOND, "candle"], 6))
    other.save(tmp_path / "other.ovor")
    sent = {"model": ("other.ovor", (tmp_path / "other.ovor").read_bytes())}
    done = live.client.post("/merge", files=sent)
    assert done.status_code == 200, done.text
    assert counts(live) == {"banana": 20, "candle": 26, "owl": 6, "sun": 6}
    same = Classifier.load(made, device="cpu").merge(other)
    same.save(tmp_path / "same.ovor")
    same_sums(live.model, tmp_path / "same.ovor")
    assert live.scratch() == []
    got = live.client.get("/model/file")
    assert got.content == live.model.read_bytes()
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''m.ovor"
    live.client.post("/undo")
    assert list(counts(live)) == FIRST


def test_what_cannot_be_merged(shared: Live, made: Path, trained: Path, tmp_path: Path) -> None:
    def sent(content: bytes, **fields: str) -> tuple[int, str]:
        given = {"model": ("its.ovor", content)}
        answer = shared.client.post("/merge", files=given, data=fields)
        assert str(tmp_path) not in answer.text
        assert "/tmp" not in answer.text
        return answer.status_code, answer.json()["error"]

    before = shared.model.read_bytes()
    assert sent(b"") == (422, sent(b"")[1])
    assert "its.ovor is not a file that ovor wrote" in sent(b"no model")[1]
    cut = made.read_bytes()[:-100]
    assert sent(cut)[0] == 422
    status, sentence = sent(trained.read_bytes())
    assert (status, "different backbones or methods" in sentence) == (422, True)
    for words, says in (
        ({"options": {"projection": 10**6}}, "different settings"),
        ({"transform": {"size": 28, "crop_pct": 0.5}}, "different settings"),
    ):
        assert says in sent(reworded(made, tmp_path, run=words))[1]
    names = [f"class {number}" for number in range(6000)]
    task = {"classes": names, "images": [1] * 6000, "held_out": 0, "threshold": 0.0}
    assert "at most 5,000 are merged here" in sent(reworded(made, tmp_path, tasks=[task]))[1]
    elsewhere = {"name": "onnx:/etc/passwd", "source": "x", "sha256": "0" * 64}
    assert "different backbones" in sent(reworded(made, tmp_path, backbone=elsewhere))[1]
    other = Classifier("embedded", device="cpu").learn(draw(tmp_path / "o", ["owl"], 3))
    other.rename("owl", "Banana").save(tmp_path / "alike.ovor")
    alike = (tmp_path / "alike.ovor").read_bytes()
    answer = shared.client.post("/merge", files={"model": ("a.ovor", alike)})
    assert answer.status_code == 409
    assert answer.json()["alike"] == [{"given": "Banana", "known": "banana"}]
    assert shared.model.read_bytes() == before
    assert shared.scratch() == []


def reworded(path: Path, folder: Path, run: Any = None, **about: Any) -> bytes:
    """Return a model file that says something else of itself, with the digest of that."""
    tensors, meta = load_tensors(path)
    meta["about"] |= about
    meta["about"]["run"] |= run or {}
    save_tensors(folder / "reworded.ovor", tensors, meta)
    return (folder / "reworded.ovor").read_bytes()


@pytest.mark.parametrize(
    ("path", "sent", "status", "says"),
    [
        ("/rename", {"class": "cow", "to": "x"}, 404, "There is no class 'cow'"),
        ("/rename", {"class": "candle", "to": "banana"}, 409, "There is a class 'banana' already"),
        ("/rename", {"class": "candle", "to": "BANANA"}, 409, "differ only by case or look"),
        ("/rename", {"class": "candle", "to": "b\u0430n\u0430n\u0430"}, 409, "case or look"),
        ("/rename", {"class": "candle", "to": "a\u200bb"}, 422, "U+200B"),
        ("/rename", {"class": "candle", "to": "\x1b[2J"}, 422, "U+001B"),
        ("/rename", {"class": "candle", "to": "\u202egnp"}, 422, "U+202E"),
        ("/rename", {"class": "candle", "to": "unknown"}, 422, "what is of no class"),
        ("/rename", {"class": "candle", "to": "o" * 201}, 422, "longer than 200 characters"),
        ("/rename", {"class": "candle"}, 422, "to is missing"),
        ("/rename", {"class": 1, "to": "x"}, 422, "class must be a text"),
        ("/rename", ["candle"], 422, "must be an object"),
        ("/forget", {"class": "cow"}, 404, "There is no class 'cow'"),
        ("/forget", {"class": "candle", "all": True}, 422, "no other fields than class"),
    ],
)
def test_what_cannot_be_changed(shared: Live, path: str, sent: Any, status: int, says: str) -> None:
    before = shared.model.read_bytes()
    answer = shared.client.post(path, json=sent)
    assert (answer.status_code, says in answer.json()["error"]) == (status, True), answer.text
    assert shared.model.read_bytes() == before


def test_names_are_asked_about_on_every_way_in(shared: Live) -> None:
    [owl] = drawn("owl", 1)
    for answer in (
        correct(shared, owl, "Candle"),
        shared.client.post("/lessons", files=files([owl]), data={"labels": ["\uff43andle"]}),
    ):
        assert answer.status_code == 409
        [pair] = answer.json()["alike"]
        assert pair["known"] == "candle"
        assert "yes=true" in answer.json()["error"]
    for label in ("a\u200bb", "\u202egnp", "a\x1bb", " "):
        assert correct(shared, owl, label).status_code == 422
    assert correct(shared, owl, "owl", was="cow").status_code == 404
    assert shared.client.get("/lessons").json() == {"lessons": []}
    assert shared.about()["version"] == 1


def test_a_name_that_looks_like_another_is_taken_when_confirmed(live: Live) -> None:
    [owl] = drawn("owl", 1)
    assert correct(live, owl, "Candle", yes="true").status_code == 200
    assert list(counts(live)) == [*FIRST, "Candle"]
    answer = live.teach(["fish"], 3)
    assert answer.status_code == 202
    live.until(answer.json()["id"], "done")
    images = files(drawn("owl", 2))
    again = live.client.post("/lessons", files=images, data={"labels": ["FISH"] * 2, "yes": "true"})
    live.until(again.json()["id"], "done")
    assert list(counts(live)) == [*FIRST, "Candle", "fish", "FISH"]


def test_bad_bodies(shared: Live) -> None:
    post = shared.client.post
    json = {"Content-Type": "application/json"}
    assert post("/rename", content=b"{", headers=json).status_code == 400
    assert post("/rename", content=b"[" * 10**5, headers=json).status_code in (400, 422)
    assert post("/rename", content=b" " * 10**6, headers=json).status_code == 413
    assert post("/rename", content=b"class=candle").status_code == 415
    assert correct(shared, b"no image", "x").status_code == 415
    [owl] = drawn("owl", 1)
    twice = [("image", ("x.png", owl, "image/png"))] * 2
    assert post("/correct", files=twice, data={"label": "x"}).status_code == 413
    assert "label is missing" in post("/correct", files=twice[:1]).json()["error"]
    answer = post("/unlearn", files=files([owl]), data={"labels": []})
    assert "1 images and 0 labels" in answer.json()["error"]


def test_methods_that_train_say_what_they_cannot(slow: Live) -> None:
    [owl] = drawn("owl", 1)
    said = correct(slow, owl, "owl")
    assert said.status_code == 409
    assert "only models of the method analytic" in said.json()["error"]
    answer = slow.client.post("/unlearn", files=files([owl]), data={"labels": ["candle"]})
    assert (answer.status_code, "analytic" in answer.json()["error"]) == (409, True)
    assert slow.client.post("/rename", json={"class": "candle", "to": "wax"}).status_code == 200
    assert slow.client.post("/forget", json={"class": "banana"}).status_code == 200
    assert list(counts(slow)) == ["wax"]
    assert slow.predict(owl).json()["predictions"][0]["likeliest"] == "wax"


def test_a_lesson_or_another_process_keeps_changes_off(slow: Live) -> None:
    number = slow.begin()
    answer = slow.client.post("/rename", json={"class": "candle", "to": "wax"})
    assert (answer.status_code, "A lesson is going on" in answer.json()["error"]) == (409, True)
    assert slow.predict(*drawn("banana", 1)).status_code == 200
    slow.client.delete(f"/lessons/{number}")
    with locked(slow.model):
        answer = slow.client.post("/rename", json={"class": "candle", "to": "wax"})
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("Another process is changing m.ovor:")
    (slow.folder / "m.ovor.learning").write_bytes(b"")
    answer = slow.client.post("/rename", json={"class": "candle", "to": "wax"})
    assert (answer.status_code, "is unfinished" in answer.json()["error"]) == (409, True)
    assert slow.about()["version"] == 1


def test_predictions_go_on_while_the_model_changes(live: Live) -> None:
    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=live.url, timeout=60) as client:
            while not over.is_set():
                asked = client.post("/predict", files=files(drawn("banana", 1)))
                statuses.append(asked.status_code)

    asking = begun(ask, ask)
    changes = begun(*[partial(correct, live, image, "owl") for image in drawn("owl", 3)])
    for change in changes:
        assert change.result().status_code == 200
    over.set()
    for asked in asking:
        asked.result()
    assert set(statuses) == {200}
    assert counts(live)["owl"] == 3  # one after the other, and none is lost


def test_a_file_in_the_models_place_is_not_overwritten(place: Path, tmp_path: Path) -> None:
    """The server goes on with what it has, and says so, whatever is put there."""
    with serving(place) as live:
        live.model.write_bytes(b"no model")
        until(lambda: "is not taken over" in live.said())
        answer = correct(live, drawn("owl", 1)[0], "owl")
        assert answer.status_code == 409
        assert str(place) not in answer.text
        assert live.model.read_bytes() == b"no model"
        live.model.unlink()
        time.sleep(0.1)
        answer = correct(live, drawn("owl", 1)[0], "owl")
        assert "There is no model m.ovor" in answer.json()["error"]
        failed = live.until(live.teach(["fish"], 2).json()["id"], "failed")
        assert "There is no model m.ovor" in failed["error"]
        assert live.predict(*drawn("banana", 1)).json()["version"] == 1
        assert not live.model.exists()


def test_a_correction_takes_less_than_two_seconds_of_a_processor(live: Live) -> None:
    """Not by the clock, as others use this machine too; most of it is solving for the head."""

    def spent() -> float:
        text = Path(f"/proc/{live.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(text[11]) + int(text[12])) / os.sysconf("SC_CLK_TCK")

    before = spent()
    assert correct(live, drawn("owl", 1)[0], "owl").status_code == 200
    assert spent() - before < 2
