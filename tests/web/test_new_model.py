"""`ovor serve new.ovor`: a server that begins with nothing, and is taught over HTTP."""

from pathlib import Path

import pytest

from ovor import Classifier

from .live import FIRST, drawn, files, serving, until
from .test_changes import correct, counts

pytestmark = pytest.mark.xdist_group("lessons")


def test_a_server_starts_without_a_model(tmp_path: Path) -> None:
    with serving(tmp_path, "--backbone", "embedded", model="new.ovor") as live:
        about = live.about()
        assert (about["empty"], about["lessons"], about["memory"]) == (True, [], [])
        assert (about["name"], about["drawing"], about["exact"]) == ("new.ovor", True, True)
        assert not (tmp_path / "new.ovor").exists()
        for answer in (
            live.predict(*drawn("banana", 1)),
            live.client.post("/undo"),
            live.client.post("/rename", json={"class": "a", "to": "b"}),
            live.client.post("/forget", json={"class": "a"}),
            live.client.get("/model/file"),
        ):
            assert answer.status_code == 409, answer.text
            assert "teach it something first" in answer.json()["error"]
        assert live.client.get("/inbox").json()["images"] == []
        done = live.learn(FIRST)
        assert (done["lesson"], done["report"]["judged"]) == (1, 24)
        about = live.about()
        assert (about["empty"], about["version"]) == (False, 2)
        row = live.predict(*drawn("banana", 1, "test")).json()["predictions"][0]
        assert row["likeliest"] == "banana"
        assert Classifier.load(tmp_path / "new.ovor").classes_.tolist() == FIRST
        assert "there is no new.ovor yet" in live.said()


def test_a_correction_can_be_the_first_lesson(tmp_path: Path) -> None:
    with serving(tmp_path, "--backbone", "embedded", model="new.ovor") as live:
        answer = correct(live, drawn("banana", 1)[0], "banana")
        assert answer.status_code == 200, answer.text
        assert answer.json()["row"]["likeliest"] == "banana"
        assert correct(live, drawn("candle", 1)[0], "candle").status_code == 200
        assert counts(live) == {"banana": 1, "candle": 1}
    assert Classifier.load(tmp_path / "new.ovor").classes_.tolist() == FIRST


def test_what_the_command_line_makes_meanwhile_is_taken_over(made: Path, tmp_path: Path) -> None:
    with serving(tmp_path, "--backbone", "embedded", model="new.ovor") as live:
        (tmp_path / "new.ovor").write_bytes(made.read_bytes())
        until(lambda: not live.about()["empty"])
        assert list(counts(live)) == FIRST
        answer = live.client.post("/predict", files=files(drawn("banana", 1)))
        assert answer.json()["version"] == 2
