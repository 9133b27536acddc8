"""Two tokens: one may ask, the other may teach as well."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ovor.web.errors import Refused
from ovor.web.roles import Roles, may_teach
from ovor.web.settings import Settings

from .live import drawn, files, serving

TEACHING = [
    ("GET", "/lessons"),
    ("POST", "/lessons"),
    ("GET", "/lessons/x"),
    ("DELETE", "/lessons/x"),
    ("GET", "/tasks"),
    ("POST", "/tasks"),
    ("POST", "/correct"),
    ("POST", "/unlearn"),
    ("POST", "/undo"),
    ("POST", "/rename"),
    ("POST", "/forget"),
    ("POST", "/merge"),
    ("GET", "/model/file"),
    ("GET", "/inbox"),
    ("GET", f"/inbox/{'0' * 32}"),
    ("POST", "/inbox/teach"),
    ("DELETE", "/inbox"),
    ("GET", "/metrics"),
]


def test_who_may_ask_cannot_teach(place: Path) -> None:
    tokens = {"OVOR_TOKEN": "teacher", "OVOR_ASK_TOKEN": "asker"}
    with serving(place, "--host", "0.0.0.0", **tokens) as live:
        before, client = live.model.read_bytes(), live.client
        assert client.get("/model").status_code == 401
        client.headers["Authorization"] = "Bearer asker"
        about = live.about()
        assert (about["can_teach"], about["inbox"]) == (False, None)
        assert live.predict(*drawn("owl", 4)).status_code == 200
        assert client.get("/healthz").status_code == 200
        for method, path in TEACHING:
            answer = client.request(method, path)
            assert answer.status_code == 403, (method, path)
            assert "you may ask, and not teach" in answer.json()["error"]
        client.headers["Authorization"] = "Bearer teacher"
        assert live.about()["can_teach"] is True
        assert len(client.get("/inbox").json()["images"]) == live.about()["inbox"] > 0
        described = client.get("/openapi.json").json()
        for method, path in TEACHING:
            assert client.request(method, path).status_code not in (401, 403), (method, path)
        assert described["paths"]["/inbox"]["get"]["security"] == [{"token": []}]
        assert live.model.read_bytes() == before
        assert "teacher" not in live.said()
        assert "asker" not in live.said()


def test_a_token_that_may_ask_is_enough_to_serve(place: Path) -> None:
    with serving(place, "--host", "0.0.0.0", OVOR_ASK_TOKEN="asker") as live:
        live.client.headers["Authorization"] = "Bearer asker"
        assert live.predict(*drawn("owl", 1)).status_code == 200
        assert live.teach(["fish"], 1).status_code == 403
        live.client.headers["Authorization"] = "Bearer x"
        assert live.client.get("/model").status_code == 401


def test_without_tokens_everybody_on_this_machine_may_teach(place: Path) -> None:
    with serving(place) as live:
        assert live.about()["can_teach"] is True
        old = live.client.post(
            "/tasks", files=files(drawn("fish", 2)), data={"labels": ["fish"] * 2}
        )
        assert (old.status_code, old.json()["url"]) == (202, f"/lessons/{old.json()['id']}")
        live.until(old.json()["id"], "done")
        assert live.client.get("/tasks").json() == live.client.get("/lessons").json()
        found = live.client.get(f"/tasks/{old.json()['id']}").json()
        assert found == live.lesson(old.json()["id"])
        assert live.client.get("/tasksx").status_code == 404


@given(st.binary(max_size=40), st.text("abc", min_size=1), st.text("abc", min_size=1))
def test_only_the_whole_token_opens(header: bytes, teach: str, ask: str) -> None:
    roles = Roles(Settings(Path("m.ovor"), token=teach, ask_token=f"{ask}d"))
    right = {b"Bearer " + teach.encode(): True, b"bearer  " + ask.encode() + b"d": False}
    for given_, teaches in {header: None, **right}.items():
        scope = {"method": "GET", "path": "/model", "headers": [(b"authorization", given_)]}
        if teaches is None and given_.strip() not in right:
            with pytest.raises(Refused):
                roles.check(scope)
            assert not may_teach(scope)
        elif teaches is not None:
            roles.check(scope)
            assert may_teach(scope) == teaches
