"""Who may ask, what every response has in its headers, and what the server tells about itself."""

from pathlib import Path

import pytest

from ovor.classifier.file import read_model

from .live import FIRST, Live, drawn, files, serving

POLICY = "default-src 'none'; script-src 'self'"
EVIL = "evil.example"


def test_the_model_describes_itself(shared: Live) -> None:
    said = shared.about()
    [task] = said["lessons"]
    assert said["name"] == "m.ovor"
    assert said["method"] == "analytic"
    assert said["exact"] is True
    assert said["drawing"] is True
    assert said["image_size"] == 28
    assert said["exams"] == []
    assert said["learning"] is None
    assert said["limits"]["images_per_lesson"] == 300
    learned = read_model(shared.model).about.tasks[0]
    assert task["held_out"] == 0
    assert task["held_out_accuracy"] == learned.accuracy is not None
    assert [(known["name"], known["images"]) for known in task["classes"]] == [
        (name, 20) for name in FIRST
    ]


def test_metrics_count_by_route(shared: Live) -> None:
    shared.predict(*drawn("banana", 2))
    shared.client.get("/lessons/nowhere")
    shared.client.get("/wp-login.php")
    text = shared.client.get("/metrics").text
    assert "wp-login" not in text
    for line in (
        'ovor_requests_total{method="GET",route="/lessons/{lesson}",status="404"}',
        'ovor_requests_total{method="GET",route="other",status="404"}',
        'ovor_lessons_total{state="done"} 0.0',
        "ovor_prediction_seconds_count",
        "ovor_images_predicted_total",
        "ovor_queue_images",
        "ovor_model_version 1.0",
        "ovor_classes 2.0",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 200),
        ("GET", "/healthz", {}, 200),
        ("GET", "/model", {}, 200),
        ("GET", "/openapi.json", {}, 200),
        ("GET", "/nowhere", {}, 404),
        ("PUT", "/model", {}, 405),
        ("GET", "/static/../app.py", {}, 404),
        ("GET", "/static/%2e%2e%2fapp.py", {}, 404),
        ("POST", "/predict", {}, 415),
        ("POST", "/predict", {"Origin": f"http://{EVIL}"}, 403),
        ("GET", "/model", {"Host": EVIL}, 403),
    ],
)
def test_every_response_has_the_headers(
    shared: Live, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = shared.client.request(method, path, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-security-policy"].startswith(POLICY)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
    assert answer.headers.get("allow") == ("GET" if status == 405 else None)
    if status >= 400:
        assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Origin", "{url}", 200),
        ("Origin", "null", 403),
        ("Origin", f"https://{EVIL}", 403),
        ("Origin", "http://127.0.0.1:1", 403),
        ("Origin", "http://[", 403),
        ("Origin", "", 403),
        ("Host", "localhost:{port}", 200),
        ("Host", "[::1]:{port}", 200),
        ("Host", "localhost", 200),
        ("Host", f"127.0.0.1.{EVIL}", 403),
        ("Host", f"{EVIL}:80", 403),
        ("Host", f"localhost@{EVIL}", 403),
        ("Host", f"localhost:80@{EVIL}", 403),
        ("Host", f"[::1].{EVIL}", 403),
        ("Host", f"[::1]:80@{EVIL}", 403),
        ("Host", "localhost:", 403),
        ("Host", "localhost:x", 403),
        ("Host", "", 403),
    ],
)
def test_only_its_own_pages_may_post_to_its_own_names(
    shared: Live, header: str, value: str, status: int
) -> None:
    headers = {header: value.format(url=shared.url, port=shared.port)}
    answer = shared.client.post("/predict", files=files(drawn("banana", 1)), headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize("token", ["secret", "schlüssel €"])
def test_a_token(place: Path, token: str) -> None:
    with serving(place, "--host", "0.0.0.0", OVOR_TOKEN=token) as live:
        for path in ("/", "/healthz"):
            assert live.client.get(path).status_code == 200
        for given in (None, b"Bearer", b"Bearer x", b"Basic " + token.encode(), b"Bearer \xff\xfe"):
            headers = {} if given is None else {"Authorization": given}
            for path in ("/model", "/metrics", "/openapi.json", "/lessons", "/nowhere"):
                answer = live.client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
        live.client.headers["Authorization"] = f"Bearer {token}"
        assert live.client.get("/model").status_code == 200
        assert live.client.get("/model", headers={"Host": "any.example"}).status_code == 200
        described = live.client.get("/openapi.json").json()
        assert described["paths"]["/model"]["get"]["security"] == [{"token": []}]
        assert "security" not in described["paths"]["/healthz"]["get"]
        assert token not in live.said()


def test_names_of_a_proxy(place: Path) -> None:
    with serving(place, "--allow-host", "ovor.example") as live:
        headers = {"Host": "ovor.example", "Origin": "https://ovor.example"}
        answer = live.client.post("/predict", files=files(drawn("banana", 1)), headers=headers)
        assert answer.status_code == 200
        assert live.client.get("/model", headers={"Host": EVIL}).status_code == 403
