"""`ovor serve` as its clients see it: answers, lessons, and a model that changes meanwhile."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.responses import JSONResponse

from drawings import draw
from ovor import Classifier
from ovor.classifier.file import read_model
from ovor.web import server

from .live import FIRST, SECOND, Live, drawn, events, files, png, serving

POLICY = "default-src 'none'; script-src 'self'"


def images(contents: list[bytes]) -> list[Image.Image]:
    return [Image.open(io.BytesIO(content)) for content in contents]


# --- asking


def test_answers_are_those_of_the_classifier_in_order(shared: Live) -> None:
    asked = [
        image for pair in zip(*(drawn(n, 20, "test") for n in FIRST), strict=True) for image in pair
    ]
    asked += drawn("sun", 5)
    answer = shared.predict(*asked)
    assert answer.status_code == 200
    assert answer.json()["version"] == 1
    rows = answer.json()["predictions"]
    expected = Classifier.load(shared.model, device="cpu").predict(images(asked))
    assert [row["name"] for row in rows] == [f"{i}.png" for i in range(len(asked))]
    assert [row["classes"][0]["name"] for row in rows] == expected.labels.tolist()
    np.testing.assert_allclose([row["confidence"] for row in rows], expected.confidences, atol=2e-5)
    assert [row["unknown"] for row in rows] == expected.unknown.tolist()
    for row in rows:
        assert row["answer"] == ("unknown" if row["unknown"] else row["classes"][0]["name"])
        assert len(row["classes"]) == 2


def test_a_bad_image_among_good_ones_has_its_own_error(shared: Live) -> None:
    good = drawn("banana", 2)
    rows = shared.predict(good[0], b"<html>", good[1]).json()["predictions"]
    assert [row.get("answer") for row in rows] == ["banana", None, "banana"]
    assert rows[1]["error"].startswith("1.png is not an image: send JPEG, PNG")
    assert set(rows[1]) == {"name", "error"}


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "gif", "bmp", "tiff"])
def test_every_kind_that_ovor_reads(shared: Live, kind: str) -> None:
    image, file = Image.open(io.BytesIO(drawn("candle", 1)[0])), io.BytesIO()
    more = (
        {"save_all": True, "append_images": [Image.new("RGB", (28, 28))]} if kind == "gif" else {}
    )
    image.save(file, kind, **more)  # of a moving image the first frame counts
    answer = shared.predict(file.getvalue())
    assert answer.json()["predictions"][0]["classes"][0]["name"] == "candle"


def test_the_model_describes_itself(shared: Live) -> None:
    said = shared.client.get("/model").json()
    assert said["name"] == "m.ovor"
    assert said["method"] == "oneprompt+vor"
    assert said["drawing"] is True
    assert said["image_size"] == 28
    assert said["exams"] == []
    assert said["learning"] is None
    assert said["limits"]["images_per_task"] == 300
    [task] = said["tasks"]
    learned = read_model(shared.model).about.tasks[0]
    assert task["held_out_accuracy"] == learned.accuracy is not None
    assert task["classes"] == [{"name": name, "images": 20} for name in FIRST]


def test_metrics_count_by_route(shared: Live) -> None:
    shared.predict(*drawn("banana", 2))
    shared.client.get("/tasks/nowhere")
    shared.client.get("/wp-login.php")
    text = shared.client.get("/metrics").text
    assert 'ovor_requests_total{method="GET",route="/tasks/{task}",status="404"}' in text
    assert 'ovor_requests_total{method="GET",route="other",status="404"}' in text
    assert "wp-login" not in text
    assert 'ovor_lessons_total{state="done"} 0.0' in text
    for name in (
        "ovor_prediction_seconds_count",
        "ovor_images_predicted_total",
        "ovor_queue_images",
    ):
        assert name in text
    assert "ovor_model_version 1.0" in text
    assert "ovor_classes 2.0" in text


def test_every_answer_has_the_headers(shared: Live) -> None:
    asked = [
        shared.client.get("/"),
        shared.client.get("/healthz"),
        shared.client.get("/model"),
        shared.client.get("/openapi.json"),
        shared.client.get("/nowhere"),
        shared.client.put("/model"),
        shared.client.get("/static/../app.py"),
        shared.client.get("/static/%2e%2e%2fapp.py"),
        shared.client.post("/predict"),
        shared.client.post("/predict", headers={"Origin": "http://evil.example"}),
        shared.client.get("/model", headers={"Host": "evil.example"}),
    ]
    statuses = [200, 200, 200, 200, 404, 405, 404, 404, 415, 403, 403]
    assert [answer.status_code for answer in asked] == statuses
    for answer in asked:
        assert answer.headers["content-security-policy"].startswith(POLICY)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        if answer.url.path not in ("/",):
            assert answer.headers["cache-control"] == "no-store"
        if answer.status_code >= 400:
            assert list(answer.json()) == ["error"]
    assert asked[5].headers["allow"] == "GET"


def test_only_its_own_pages_may_post(shared: Live) -> None:
    good = files(drawn("banana", 1))
    for origin, status in {
        shared.url: 200,
        "null": 403,
        "https://evil.example": 403,
        "http://127.0.0.1:1": 403,
        "http://[": 403,
        "": 403,
    }.items():
        answer = shared.client.post("/predict", files=good, headers={"Origin": origin})
        assert answer.status_code == status, origin
    for host, status in {
        f"localhost:{shared.port}": 200,
        f"[::1]:{shared.port}": 200,
        "localhost": 200,
        "127.0.0.1.evil.example": 403,
        "evil.example:80": 403,
        "": 403,
    }.items():
        answer = shared.client.get("/model", headers={"Host": host})
        assert answer.status_code == status, host


# --- teaching


def test_a_lesson_from_the_first_byte_to_the_new_model(live: Live) -> None:
    before = live.model.read_bytes()
    answer = live.teach(SECOND, keep_set_aside="true")
    assert answer.status_code == 202
    begun = answer.json()
    assert begun["classes"] == [{"name": name, "images": 12} for name in SECOND]
    assert begun["url"] == f"/tasks/{begun['id']}"
    assert live.client.get("/model").json()["learning"] == begun["id"]
    second = live.teach(["fish"])
    assert second.status_code == 409
    assert int(second.headers["retry-after"]) >= 1
    versions = set()
    while live.task(begun["id"])["state"] != "done":
        found = live.predict(*drawn("banana", 1)).json()
        versions.add(found["version"])
        assert found["predictions"][0]["classes"][0]["name"] == "banana"
    assert 1 in versions  # it answered while it learned
    heard = events(live, begun["id"])
    assert len(heard) == 1
    assert heard[0]["state"] == "done"
    assert heard[0]["task"] == 2
    assert heard[0]["progress"] == 1
    about = live.client.get("/model").json()
    assert about["version"] == 2
    assert about["learning"] is None
    assert [c["name"] for c in about["tasks"][1]["classes"]] == SECOND
    assert heard[0]["accuracy"] == about["tasks"][1]["held_out_accuracy"]
    rows = live.predict(*drawn("owl", 10, "test"), *drawn("sun", 10, "test")).json()["predictions"]
    best = [row["classes"][0]["name"] for row in rows]
    assert sum(a == b for a, b in zip(best, ["owl"] * 10 + ["sun"] * 10, strict=True)) >= 14
    assert live.model.read_bytes() != before
    assert not (live.folder / "m.ovor.learning").exists()
    assert live.scratch() == []
    assert live.client.get("/tasks").json()["tasks"] == [live.task(begun["id"])]
    until(lambda: live.client.get("/model").json()["exams"])  # of what was kept
    [exam] = live.client.get("/model").json()["exams"]
    assert exam["lessons"] == 2
    assert [task["task"] for task in exam["tasks"]] == [2]
    assert "lesson" in live.said()
    assert live.end() == 0
    assert list((live.folder / "tmp").iterdir()) == []


def until(what: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_lesson_is_the_one_of_the_command_line(live: Live, tmp_path: Path) -> None:
    """The same images learned by `ovor learn` make the same file, byte for byte."""
    draw(tmp_path / "second", SECOND, 12)
    other = Classifier.load(live.model, device="cpu")
    other.learn(tmp_path / "second").save(tmp_path / "other.ovor")
    live.learn(SECOND)
    ours, theirs = read_model(live.model), read_model(tmp_path / "other.ovor")
    assert ours.about.tasks[1].classes == theirs.about.tasks[1].classes
    assert ours.state.keys() == theirs.state.keys()
    for name, tensor in ours.state.items():
        np.testing.assert_allclose(tensor, theirs.state[name], atol=1e-5)


def test_events_tell_how_far_it_is(live: Live) -> None:
    number = live.teach(SECOND, epochs="12").json()["id"]
    heard = events(live, number)
    progress = [event["progress"] for event in heard]
    assert progress == sorted(progress)
    assert heard[-1]["state"] == "done"
    assert {"learning", "done"} <= {event["state"] for event in heard}
    assert any(event["doing"].startswith("learning, epoch") for event in heard)
    assert any(event["seconds_left"] for event in heard)
    again = events(live, number)  # late comers hear the end
    assert len(again) == 1


def test_cancelled_lessons_leave_the_old_model(live: Live) -> None:
    before = live.model.read_bytes()
    for state in ("waiting", "learning"):
        number = live.teach(SECOND, epochs="300").json()["id"]
        if state != "waiting":
            live.until(number, state)
        answer = live.client.delete(f"/tasks/{number}")
        assert answer.status_code == 200
        assert answer.json()["state"] == "cancelled"
        again = live.client.delete(f"/tasks/{number}")
        assert again.status_code == 409
        assert live.model.read_bytes() == before
        assert live.scratch() == []
    assert live.client.get("/model").json()["version"] == 1
    assert live.client.delete("/tasks/nowhere").status_code == 404
    assert live.learn(SECOND)["state"] == "done"


def test_a_killed_lesson_fails_and_the_old_model_stays(live: Live) -> None:
    before = live.model.read_bytes()
    number = live.teach(SECOND, epochs="300").json()["id"]
    live.until(number, "learning")
    os.kill(live.child(), signal.SIGKILL)
    found = live.until(number, "failed")
    assert "ended by signal 9" in found["error"]
    assert live.model.read_bytes() == before
    assert live.scratch() == []
    assert live.predict(*drawn("banana", 1)).json()["version"] == 1
    assert live.learn(SECOND)["task"] == 2


def test_what_cannot_be_learned(live: Live) -> None:
    image = drawn("owl", 1)[0]

    def teach(labels: list[str], count: int = 2, **fields: str | list[str]) -> httpx.Response:
        data = {"labels": labels, **fields}
        return live.client.post("/tasks", files=files([image] * count), data=data)

    for answer, says in [
        (teach(["owl"]), "There are 2 images and 1 labels"),
        (teach(["owl", "owl", "owl"]), "There are 2 images and 3 labels"),
        (teach(["owl", "banana"]), "'banana' is learned already"),
        (teach(["owl", "Unknown "]), "which is the answer for images of no class"),
        (teach(["owl", " "]), "cannot be read on one line"),
        (teach(["owl", "a\nb"]), "cannot be read on one line"),
        (teach(["owl", "owl"], epochs="0"), "epochs must be one whole number"),
        (teach(["owl", "owl"], epochs="1"), "needs two epochs"),
        (teach(["owl", "owl"], epochs="many"), "epochs must be one whole number"),
        (teach(["owl", "owl"], epochs=["3", "4"]), "epochs must be one whole number"),
        (teach(["owl", "owl"], on_error="ignore"), "on_error must be one of stop, skip"),
        (teach(["owl", "owl"], keep_set_aside="1"), "keep_set_aside must be one of"),
        (teach(["owl", "owl"], colour="red"), "There is no field 'colour'"),
    ]:
        assert answer.status_code == 422, answer.text
        assert says in answer.json()["error"]
    assert live.scratch() == []
    assert live.client.get("/tasks").json() == {"tasks": []}


def test_bad_images_of_a_lesson(live: Live) -> None:
    good = drawn("owl", 8)
    sent = files([*good, b"no image", good[0][:100]])
    labels = ["owl"] * 10
    answer = live.client.post("/tasks", files=sent, data={"labels": labels})
    assert answer.status_code == 422
    assert [fault["index"] for fault in answer.json()["images"]] == [8, 9]
    assert "on_error=skip" in answer.json()["error"]
    only = [*["owl"] * 8, "sun", "sun"]
    answer = live.client.post("/tasks", files=sent, data={"labels": only, "on_error": "skip"})
    assert answer.status_code == 422
    assert "No image of 'sun' can be read" in answer.json()["error"]
    answer = live.client.post("/tasks", files=sent, data={"labels": labels, "on_error": "skip"})
    assert answer.status_code == 202
    found = live.until(answer.json()["id"], "done")
    assert [fault["name"] for fault in found["images"]] == ["8.png", "9.png"]
    assert found["classes"] == [{"name": "owl", "images": 8}]
    assert any("One class alone" in note for note in found["notes"])


def test_a_model_that_loads_images_by_other_processes(place: Path) -> None:
    """A lesson here needs none, leaves none, and what it is asked for is for it alone."""
    Classifier.load(place / "m.ovor").set_params(workers=1).save(place / "m.ovor")
    before = read_model(place / "m.ovor").about.run
    with serving(place) as live:
        cancelled = live.teach(["sun", "owl"], epochs="1000").json()["id"]
        live.until(cancelled, "learning")
        assert live.client.delete(f"/tasks/{cancelled}").json()["state"] == "cancelled"
        live.learn(SECOND, epochs="2")
        assert read_model(live.model).about.run == before
        assert not left_behind(live)


def left_behind(live: Live) -> list[str]:
    """Processes that still have the server's temporary folder for theirs."""
    sign = f"TMPDIR={live.folder / 'tmp'}/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            found += [str(path)] if sign in path.read_bytes() else []
    return found


def test_another_model_has_no_exams_of_this_one(place: Path, tmp_path: Path) -> None:
    draw(tmp_path / "exam", [*FIRST, "sun"], 4, first=40)
    other = Classifier("embedded", "simplecil", device="cpu")
    other.learn(draw(tmp_path / "other", ["sun", "owl"], 8)).save(tmp_path / "other.ovor")
    with serving(place, "--exam", str(tmp_path / "exam")) as live:
        until_examined(live, 1)
        live.learn(SECOND)
        until_examined(live, 2)
        os.replace(tmp_path / "other.ovor", live.model)
        end = time.monotonic() + 60
        while live.client.get("/model").json()["version"] < 3:
            assert time.monotonic() < end
            time.sleep(0.1)
        until_examined(live, 1)
        (exam,) = live.client.get("/model").json()["exams"]
        assert [task["images"] for task in exam["tasks"]] == [4]  # of the sun


def until_examined(live: Live, lessons: int) -> None:
    end = time.monotonic() + 60
    while lessons not in [e["lessons"] for e in live.client.get("/model").json()["exams"]]:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_headers_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADERS", 0.5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({})(scope, receive, send)

    running = uvicorn.Server(
        uvicorn.Config(app, port=0, http=server.Prompt, lifespan="off", log_level="critical")
    )
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    where = running.servers[0].sockets[0].getsockname()
    with socket.create_connection(where, timeout=10) as slow, httpx.Client() as quick:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200")
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert slow.recv(1000) == b""  # closed, or this would time out
        assert quick.get(f"http://127.0.0.1:{where[1]}").status_code == 200
    running.should_exit = True
    thread.join(10)


def test_an_unfinished_lesson_of_the_command_line(place: Path) -> None:
    (place / "m.ovor.learning").write_bytes(b"")
    with serving(place) as live:
        assert "is unfinished" in live.said()
        answer = live.teach(SECOND)
        assert answer.status_code == 409
        assert "finish it first (ovor learn --resume)" in answer.json()["error"]
    assert (place / "m.ovor.learning").exists()


def test_another_process_changes_the_model(live: Live, tmp_path: Path) -> None:
    draw(tmp_path / "second", SECOND, 12)
    command = [sys.executable, "-m", "ovor", "learn", "m.ovor", "second"]
    subprocess.run(command, cwd=live.folder, check=True, capture_output=True)
    until(lambda: live.client.get("/model").json()["version"] == 2)
    assert len(live.client.get("/model").json()["tasks"]) == 2
    live.model.write_bytes(b"no model")
    until(lambda: "is not taken over" in live.said())
    assert live.predict(*drawn("owl", 1)).json()["version"] == 2


def test_exams_show_what_is_forgotten(place: Path) -> None:
    folder = place / "exam"
    draw(folder, [*FIRST, *SECOND], 6, first=60)
    with serving(place, "--exam", "exam") as live:
        until(lambda: live.client.get("/model").json()["exams"])
        live.learn(SECOND)
        until(lambda: len(live.client.get("/model").json()["exams"]) == 2)
        exams = live.client.get("/model").json()["exams"]
    assert [exam["lessons"] for exam in exams] == [1, 2]
    assert [[task["task"] for task in exam["tasks"]] for exam in exams] == [[1], [1, 2]]
    model = Classifier.load(live.model, device="cpu")
    score = model.score(
        [path for n in FIRST for path in sorted((folder / n).iterdir())],
        FIRST[:1] * 6 + FIRST[1:] * 6,
    )
    assert exams[1]["tasks"][0]["accuracy"] == pytest.approx(100 * score)


# --- ends


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_lesson_end(live: Live, sign: int) -> None:
    number = live.teach(SECOND, epochs="40").json()["id"]
    live.until(number, "learning")
    heard: list[list[dict[str, object]]] = []
    listener = threading.Thread(target=lambda: heard.append(events(live, number)))
    listener.start()
    time.sleep(0.3)
    live.process.send_signal(sign)
    until(lambda: live.client.get("/healthz").status_code == 503)
    assert live.client.get("/healthz").json() == {"status": "stopping"}
    assert live.predict(*drawn("banana", 1)).status_code == 503
    assert live.teach(["fish"]).status_code == 503
    assert live.process.wait(60) == 0
    listener.join(10)
    assert heard[0][-1]["state"] == "done"
    assert len(read_model(live.model).about.tasks) == 2
    assert "again to cancel it" in live.said()
    assert list((live.folder / "tmp").iterdir()) == []


def test_a_second_signal_cancels_it(live: Live) -> None:
    before = live.model.read_bytes()
    number = live.teach(SECOND, epochs="1000").json()["id"]
    live.until(number, "learning")
    child = live.child()
    live.process.send_signal(signal.SIGTERM)
    until(lambda: "again to cancel it" in live.said())
    assert live.end() == 0
    assert live.model.read_bytes() == before
    assert not Path(f"/proc/{child}").exists()
    assert list((live.folder / "tmp").iterdir()) == []


def test_a_killed_server_takes_its_lesson_along(place: Path) -> None:
    before = (place / "m.ovor").read_bytes()
    with serving(place) as live:
        number = live.teach(SECOND, epochs="1000").json()["id"]
        live.until(number, "learning")
        child = live.child()
        live.end(signal.SIGKILL)
        until(lambda: not Path(f"/proc/{child}").exists())
    assert (place / "m.ovor").read_bytes() == before
    assert len(list((place / "tmp").iterdir())) == 1
    with serving(place) as live:
        assert len(list((place / "tmp").iterdir())) == 1
        assert live.scratch() == []  # what the first had left is gone
        assert live.learn(SECOND)["task"] == 2
        assert live.end() == 0
    assert list((place / "tmp").iterdir()) == []


def test_two_servers_leave_each_other_alone(place: Path) -> None:
    with serving(place) as one, serving(place) as two:
        assert len(list((place / "tmp").iterdir())) == 2
        one.learn(SECOND)
        until(lambda: two.client.get("/model").json()["version"] == 2)


# --- starting


def refused(place: Path, *options: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ovor", "serve", *options],
        cwd=place,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


def test_what_cannot_be_served(place: Path) -> None:
    assert "set a token (OVOR_TOKEN" in refused(place, "m.ovor", "--host", "0.0.0.0")
    assert "set a token (OVOR_TOKEN" in refused(place, "m.ovor", "--host", "::")
    assert "The token is empty" in refused(place, "m.ovor", env={"OVOR_TOKEN": ""})
    assert "There is no model gone.ovor" in refused(place, "gone.ovor", "--port", "0")
    assert "exam does not exist" in refused(place, "m.ovor", "--port", "0", "--exam", "exam")
    assert "cannot be served at" in refused(
        place, "m.ovor", "--host", "nowhere.invalid", "--token", "x"
    )


def test_a_port_that_is_taken(live: Live) -> None:
    assert "choose another --host or --port" in refused(
        live.folder, "m.ovor", "--port", str(live.port)
    )


def test_help_and_missing_packages(place: Path) -> None:
    code = (
        "import sys; sys.argv = ['ovor', 'serve', *sys.argv[1:]]\n"
        "from ovor.cli import main\n"
        "try: main()\n"
        "finally: print('fastapi' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.endswith("False False\n")
    hidden = "import sys; sys.modules['uvicorn'] = None\n" + code
    done = subprocess.run([sys.executable, "-c", hidden, "m.ovor"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'ovor[serve]'" in done.stderr


@pytest.mark.parametrize("token", ["secret", "schlüssel €"])
def test_a_token(place: Path, token: str) -> None:
    with serving(place, "--host", "0.0.0.0", env={"OVOR_TOKEN": token}) as live:
        for path in ("/", "/healthz"):
            assert live.client.get(path).status_code == 200
        for given in (None, b"Bearer", b"Bearer x", b"Basic " + token.encode(), b"Bearer \xff\xfe"):
            headers = {} if given is None else {"Authorization": given}
            for path in ("/model", "/metrics", "/openapi.json", "/tasks", "/nowhere"):
                answer = live.client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        live.client.headers["Authorization"] = f"Bearer {token}"
        assert live.client.get("/model").status_code == 200
        assert live.client.get("/model", headers={"Host": "any.example"}).status_code == 200
        described = live.client.get("/openapi.json").json()
        assert described["paths"]["/model"]["get"]["security"] == [{"token": []}]
        assert token not in live.said()


def test_names_of_a_proxy(place: Path) -> None:
    with serving(place, "--allow-host", "ovor.example") as live:
        headers = {"Host": "ovor.example", "Origin": "https://ovor.example"}
        answer = live.client.post("/predict", files=files(drawn("banana", 1)), headers=headers)
        assert answer.status_code == 200
        assert live.client.get("/model", headers={"Host": "evil.example"}).status_code == 403


# --- much at once


def test_a_full_queue_says_when_to_come_again(place: Path) -> None:
    with serving(place, "--queue", "4") as live:
        assert live.client.get("/model").json()["limits"]["images_per_prediction"] == 4
        large = [png(Image.new("RGB", (3000, 3000)))] * 4  # takes its time to decode
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(httpx.post(f"{live.url}/predict", files=files(large), timeout=60))

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        statuses = sorted({answer.status_code for answer in answers})
        assert statuses == [200, 429]
        for answer in answers:
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) >= 1
        assert live.predict(*drawn("banana", 4)).status_code == 200
        assert live.predict(*drawn("banana", 5)).status_code == 413
        assert json.loads(live.client.get("/healthz").text) == {"status": "ok"}


def test_a_request_larger_than_a_batch_keeps_its_order(shared: Live) -> None:
    asked = drawn("banana", 30) + drawn("candle", 30)
    answers: list[list[str]] = []

    def ask() -> None:
        found = httpx.post(f"{shared.url}/predict", files=files(asked), timeout=60).json()
        answers.append([row["classes"][0]["name"] for row in found["predictions"]])

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    expected = Classifier.load(shared.model, device="cpu").predict(images(asked)).labels.tolist()
    assert answers == [expected] * 4
