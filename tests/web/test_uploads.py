"""Uploads that never end, places that are gone, numbers that are none: nobody else is kept off."""

import io
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ovor.errors import OvorError
from ovor.tensor_file import load_tensors, save_tensors
from ovor.web.words import for_clients

from .live import FIRST, Live, begun, drawn, files, serving, until
from .test_attacks import part, request
from .test_changes import correct

pytestmark = pytest.mark.xdist_group("lessons")


@contextmanager
def unfinished(live: Live, path: str = "/lessons", sent: bytes = b"") -> Iterator[socket.socket]:
    """Send the beginning of a request, and no more."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as connection:
        connection.sendall(request(10**6, part(drawn("owl", 1)[0]) + sent, path))
        yield connection


def test_an_unfinished_upload_keeps_nobody_off(live: Live) -> None:
    with unfinished(live), unfinished(live), unfinished(live, "/merge"):
        until(lambda: len(live.scratch()) >= 3)
        assert live.about()["learning"] is None
        assert correct(live, drawn("fish", 1)[0], "fish").status_code == 200
        assert live.learn(["owl"])["lesson"] == 3
    until(lambda: live.scratch() == [])


def test_the_second_of_two_whole_lessons_is_told_at_once(slow: Live) -> None:
    number = slow.begin()
    second = slow.teach(["fish"])
    assert second.status_code == 409
    assert "A lesson is going on: wait until it has ended, or cancel it." in second.text
    assert slow.client.delete(f"/lessons/{number}").status_code == 200
    assert slow.scratch() == []


def test_images_that_take_long_to_decode_keep_nobody_off(live: Live) -> None:
    file = io.BytesIO()
    Image.effect_noise((4000, 4000), 20).save(file, "jpeg", quality=30)
    large = file.getvalue()

    def send() -> httpx.Response:
        sent, labels = files([large] * 20), {"labels": ["noise"] * 20}
        return httpx.post(f"{live.url}/lessons", files=sent, data=labels, timeout=90)

    [slow] = begun(send)
    until(lambda: live.scratch_bytes() >= 20 * len(large))
    assert live.about()["learning"] is None
    assert live.learn(["owl"])["lesson"] == 2
    assert slow.result().status_code in (202, 409)
    for lesson in live.client.get("/lessons").json()["lessons"]:
        live.until(lesson["id"], "done")
    until(lambda: live.scratch() == [])


def test_uploads_that_are_not_whole_have_a_bounded_disk(place: Path) -> None:
    with serving(place, "--max-request-bytes", "1000000") as live:
        piece = part(bytes(900_000))
        with unfinished(live, sent=piece), unfinished(live, sent=piece):
            until(lambda: live.scratch_bytes() > 1_790_000)
            answer = live.client.post(
                "/lessons", files=files([bytes(500_000)]), data={"labels": ["x"]}
            )
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert live.scratch_bytes() < 2_100_000
        until(lambda: live.scratch() == [])
        assert live.learn(["owl"])["lesson"] == 2


def test_the_temporary_folder_is_removed_under_the_server(live: Live) -> None:
    shutil.rmtree(live.folder / "tmp")
    assert live.learn(["owl"])["lesson"] == 2
    assert "the temporary folder was removed" in live.said()
    assert live.scratch() == []
    assert live.end() == 0
    assert list((live.folder / "tmp").iterdir()) == []


def test_a_place_that_cannot_be_made_again(live: Live) -> None:
    shutil.rmtree(live.folder / "tmp")
    (live.folder / "tmp").write_text("in the way")
    answer = live.teach(["owl"])
    assert answer.status_code == 503
    assert "has no place for what is sent to it" in answer.json()["error"]
    assert str(live.folder) not in answer.text
    assert live.predict(*drawn("banana", 1)).status_code == 200
    (live.folder / "tmp").unlink()
    assert live.learn(["owl"])["lesson"] == 2  # it recovers


def test_images_that_vanish_in_a_lesson(slow: Live) -> None:
    number = slow.begin()
    for folder in (slow.folder / "tmp").glob("ovor-serve-*"):
        shutil.rmtree(folder)
    until(lambda: slow.lesson(number)["state"] in ("failed", "done", "cancelled") or cancel(slow))
    assert str(slow.folder) not in slow.client.get("/lessons").text
    assert slow.learn(["owl"])["lesson"] == 2


def cancel(live: Live) -> bool:
    [lesson] = live.client.get("/lessons").json()["lessons"]
    live.client.delete(f"/lessons/{lesson['id']}")
    return True


def with_nan(path: Path, out: Path) -> Path:
    """Write a model file anew with a weight that is no number."""
    tensors, meta = load_tensors(path)
    bias = tensors["learner.bias"].clone()
    bias[0] = torch.nan
    meta.pop("digest", None)
    save_tensors(out, {**tensors, "learner.bias": bias}, meta)
    return out


def test_numbers_that_are_none_are_refused(live: Live, made: Path, tmp_path: Path) -> None:
    bad = with_nan(made, tmp_path / "nan.ovor")
    answer = live.client.post("/merge", files={"model": ("nan.ovor", bad.read_bytes())})
    assert answer.status_code == 422
    assert "nan.ovor holds numbers that are not finite" in answer.json()["error"]
    os.replace(bad, live.model)
    until(lambda: "is not taken over" in live.said())
    assert "not finite" in live.said()
    answer = live.predict(*drawn("banana", 1))
    assert (answer.status_code, answer.json()["version"]) == (200, 1)
    assert correct(live, drawn("owl", 1)[0], "owl").status_code == 409
    assert list(live.about()["lessons"][0]["classes"][0]) == [
        *("name", "images", "expected", "confused_with")
    ]


def test_a_suspect_is_called_as_the_client_calls_it(live: Live) -> None:
    """Where a file of this machine would be named, the client's own name is."""
    sent = files([*drawn("candle", 30)[20:], *drawn("banana", 23)[20:]])
    answer = live.client.post("/lessons", files=sent, data={"labels": ["candle"] * 13})
    found = live.until(answer.json()["id"], "done")
    suspects = [suspect["image"] for suspect in found["report"]["suspects"]]
    assert suspects
    assert set(suspects) <= {"10.png", "11.png", "12.png"}
    assert str(live.folder) not in live.client.get("/lessons").text


@given(st.lists(st.text("abc._-", min_size=1), min_size=1, max_size=5), st.text("abc", min_size=1))
def test_no_folder_of_this_machine_is_told(folders: list[str], name: str) -> None:
    path = "/" + "/".join([*folders, name])
    model = Path("/srv/models/m.ovor")
    for error in (
        OvorError(f"The image {path} cannot be read, as there is no such file: check the path."),
        OvorError(f"({path}): {path}: '{path}', \"{path}\" and {model} are gone: try again."),
        FileNotFoundError(2, "No such file or directory", path),
        ValueError(f"no {path}"),
    ):
        said = for_clients(error, model)
        assert "/" + "/".join(folders) not in said
        assert "/srv" not in said
    assert "a/b" in for_clients(OvorError("There is no class 'a/b': see https://x.y/z/."), model)
    assert "https://x.y/z/" in for_clients(OvorError("See https://x.y/z/ for it."), model)


def test_memory_lines_of_a_model_of_the_command_line(shared: Live) -> None:
    """Each class has what its own lesson said of it, with how many images that was."""
    lines = shared.about()["memory"]
    assert [(line["name"], line["lesson"], line["images"]) for line in lines] == [
        (name, 1, 20) for name in FIRST
    ]
    for line in lines:
        [point] = line["points"]
        assert (point["lessons"], point["images"], point["by"]) == (1, 20, "lesson")
        assert 0 <= point["right"] <= 20
