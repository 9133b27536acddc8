"""The inbox: what the model was not sure about waits to be named, within limits."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ovor.classifier.prediction import Prediction
from ovor.web.form_reader import UploadedImage
from ovor.web.inbox import Inbox
from ovor.web.likeness import groups_of, linked, numbered
from ovor.web.predictor import Answer
from ovor.web.settings import Limits

from .live import FIRST, Live, drawn, files, png, serving, until
from .test_changes import correct, counts

pytestmark = pytest.mark.xdist_group("lessons")


def inbox(live: Live) -> dict[str, Any]:
    found: dict[str, Any] = live.client.get("/inbox").json()
    return found


def waiting(live: Live) -> list[str]:
    return [image["id"] for image in inbox(live)["images"]]


def key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def test_what_is_unknown_or_not_sure_waits_in_groups(live: Live) -> None:
    strange = drawn("owl", 6) + drawn("sun", 6)
    rows = live.predict(*strange, *drawn("banana", 8)).json()["predictions"]
    doubtful = [row["image"] for row in rows if row["unknown"] or row["confidence"] < 0.75]
    assert 8 <= len(doubtful) < len(rows)
    found = inbox(live)
    assert (found["kept"], found["most"]) == ("memory", 500)
    assert [image["image"] for image in found["images"]] == doubtful[::-1]  # the newest first
    assert live.about()["inbox"] == len(doubtful)
    for image in found["images"]:
        assert image["likeliest"] in FIRST
        [group] = [group for group in found["groups"] if image["id"] in group["images"]]
        assert group["group"] == image["group"]
    assert sum(len(group["images"]) for group in found["groups"]) == len(doubtful)
    live.predict(*strange)  # the same again is there once
    assert len(waiting(live)) == len(doubtful)
    answer = live.client.post("/predict", files=files(drawn("fish", 8)), data={"keep": "false"})
    assert answer.status_code == 200
    assert len(waiting(live)) == len(doubtful)
    assert live.scratch() == []  # nothing of them is on the disk


def test_a_picture_is_small_and_encoded_anew(live: Live) -> None:
    comment = io.BytesIO()
    Image.effect_noise((900, 300), 80).save(comment, "jpeg", comment=b"<script>alert(1)</script>")
    live.predict(comment.getvalue())
    [one] = waiting(live)
    answer = live.client.get(f"/inbox/{one}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.headers["cache-control"] == "no-store"
    assert b"script" not in answer.content
    assert max(Image.open(io.BytesIO(answer.content)).size) <= 160
    assert live.client.get(f"/inbox/{'0' * 32}").status_code == 404


def test_images_of_the_inbox_are_taught_and_leave(live: Live) -> None:
    owls = drawn("owl", 12)
    live.predict(*owls)
    ids = waiting(live)
    assert len(ids) >= 8
    chosen = ids[:5]
    sent = {"ids": [*chosen, chosen[0]], "label": "owl"}  # named twice, taught once
    begun = live.client.post("/inbox/teach", json=sent)
    assert begun.status_code == 202, begun.text
    assert begun.json()["classes"] == [{"name": "owl", "images": 5}]
    done = live.until(begun.json()["id"], "done")
    assert done["report"]["classes"][0]["class"] == "owl"
    assert counts(live)["owl"] == 5
    assert not set(chosen) & set(waiting(live))
    until(lambda: all(image["likeliest"] == "owl" for image in inbox(live)["images"]))
    rest = waiting(live)  # judged again; what the model is sure of has left as well
    assert len(rest) < len(ids) - 5
    left = live.client.request("DELETE", "/inbox", json={"ids": rest})
    assert left.json()["images"] == []
    assert live.scratch() == []


def test_what_cannot_be_taught_from_the_inbox(shared: Live) -> None:
    [owl] = drawn("owl", 1)
    shared.predict(owl)
    assert key(owl) in waiting(shared)
    post = shared.client.post
    for sent, status in (
        ({"ids": [key(owl)], "label": "Candle"}, 409),
        ({"ids": [key(owl)], "label": "a\u200bb"}, 422),
        ({"ids": ["0" * 32], "label": "owl"}, 404),
        ({"ids": ["../../x"], "label": "owl"}, 422),
        ({"ids": [], "label": "owl"}, 422),
        ({"ids": [key(owl)]}, 422),
    ):
        assert post("/inbox/teach", json=sent).status_code == status
    assert key(owl) in waiting(shared)
    assert shared.client.get("/lessons").json() == {"lessons": []}


def test_a_corrected_image_leaves(live: Live) -> None:
    [owl] = drawn("owl", 1)
    live.predict(owl)
    assert waiting(live) == [key(owl)]
    correct(live, owl, "owl")
    assert waiting(live) == []


def test_the_oldest_go_first_and_it_can_be_off(place: Path) -> None:
    strange = drawn("owl", 12)
    with serving(place, "--max-inbox", "4") as live:
        live.predict(*strange)
        found = inbox(live)
        assert (len(found["images"]), found["most"]) == (4, 4)
        rows = live.client.post("/predict", files=files(strange), data={"keep": "false"}).json()
        doubtful = [
            key(image)
            for image, row in zip(strange, rows["predictions"], strict=True)
            if row["unknown"] or row["confidence"] < 0.75
        ]
        assert waiting(live) == doubtful[:-5:-1]
    with serving(place, "--max-inbox", "0", "--inbox", "kept") as live:
        live.predict(*strange)
        assert inbox(live) == {"kept": "nothing", "most": 0, "images": [], "groups": []}
        assert live.about()["inbox"] == 0
    assert not (place / "kept").exists()


def test_a_folder_keeps_it_over_a_restart(place: Path) -> None:
    strange = drawn("owl", 8)
    names = [
        ("images", (f"../../{i}/x.png", image, "image/png")) for i, image in enumerate(strange)
    ]
    with serving(place, "--inbox", "kept") as live:
        live.client.post("/predict", files=names)
        before = inbox(live)
        assert before["kept"] == "folder"
        assert len(before["images"]) >= 5
        assert live.end() == 0
    kept = {path.name for path in (place / "kept").iterdir() if not path.name.startswith(".")}
    ids = {image["id"] for image in before["images"]}
    assert kept == {*ids, "inbox.json"}
    assert {key((place / "kept" / name).read_bytes()) for name in ids} == ids
    (place / "kept" / ("f" * 32)).write_bytes(b"no image")
    (place / "kept" / "readme.txt").write_text("not ours")
    (place / "kept" / ("e" * 32)).symlink_to("/etc/passwd")
    with serving(place, "--inbox", "kept") as live:
        until(lambda: len(inbox(live)["images"]) == len(ids))
        after = inbox(live)
        assert [(i["id"], i["image"]) for i in after["images"]] == [
            (i["id"], i["image"]) for i in before["images"]
        ]
        until(lambda: not (place / "kept" / ("f" * 32)).exists())  # no image, after all
        assert live.client.get(f"/inbox/{'e' * 32}").status_code == 404
        live.client.request("DELETE", "/inbox", json={"ids": sorted(ids)[:2]})
        assert set(json.loads((place / "kept" / "inbox.json").read_text())) == {*sorted(ids)[2:]}
        assert not any((place / "kept" / name).exists() for name in sorted(ids)[:2])
        with serving(place, "--port", "0") as other:
            assert inbox(other)["kept"] == "memory"
    assert (place / "kept" / "readme.txt").exists()


def test_an_undecided_model_asks_again_after_another_takes_its_place(slow: Live) -> None:
    """Whose features change with what is learned: images are looked at anew."""
    strange = drawn("owl", 6)
    slow.predict(*strange)
    before = {image["id"]: image["confidence"] for image in inbox(slow)["images"]}
    assert before
    slow.client.post("/rename", json={"class": "candle", "to": "wax"})
    until(lambda: all(i["likeliest"] in ("banana", "wax") for i in inbox(slow)["images"]))


# --- never more than the limits say


def answer(confidence: float, margin: float = 1.0) -> Answer:
    classes = np.array(["a", "b"], dtype=object)
    shares = np.array([confidence, 1 - confidence])
    return Answer(Prediction(classes, shares, margin), torch.zeros(3))


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.floats(0.5, 1), st.floats(-1, 1), st.booleans()),
        max_size=30,
    )
)
def test_the_newest_that_are_not_sure_are_kept_within_limits(
    asked: list[tuple[int, float, float, bool]],
) -> None:
    limits = Limits(inbox=4, inbox_bytes=40)
    predictor: Any = None
    found = Inbox(None, limits, predictor, predictor)
    expected: list[bytes] = []  # the oldest first
    for number, confidence, margin, gone in asked:
        content = bytes([number]) * (5 + number)
        image = UploadedImage("x", content, len(content))
        found.consider([image], [answer(confidence, margin)], predictor)
        if margin < 0 or confidence < 0.75:
            expected = [old for old in expected if old != content] + [content]
        while len(expected) > 4 or sum(map(len, expected)) > 40:
            expected.pop(0)
        if gone:
            found.drop([key(content)])
            expected = [old for old in expected if old != content]
        assert list(found.by_id) == [key(content) for content in expected]
        assert found.bytes == sum(map(len, expected))


# --- what is alike


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.integers(0, 9))
def test_far_clouds_are_groups(clouds: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = 100.0 * np.array(clouds)[:, None] + draw.uniform(-1, 1, (len(clouds), 3))
    squares = ((points[:, None] - points[None]) ** 2).sum(2)
    found = numbered(linked(squares, 12.0))
    for one, a in enumerate(clouds):
        for other, b in enumerate(clouds):
            assert (found[one] == found[other]) == (a == b)
    sizes = [found.count(number) for number in sorted(set(found))]
    assert sorted(set(found)) == list(range(1, len(sizes) + 1))
    assert sizes == sorted(sizes, reverse=True)


class Plain:
    """A model that does not know what is usual."""

    def usual_distance(self) -> float | None:
        return None


def test_five_hundred_are_grouped() -> None:
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(500, 1536, generator=draw)
    features += 3 * torch.randn(20, 1536, generator=draw).repeat(25, 1)
    found = groups_of(features, Plain())  # type: ignore[arg-type]
    assert len(set(found)) == 20
    assert groups_of(features[:1], Plain()) == [1]  # type: ignore[arg-type]
    assert groups_of(features[:0], Plain()) == []  # type: ignore[arg-type]


def test_the_same_picture_in_other_bytes_is_another_image_and_alike(live: Live) -> None:
    [owl] = drawn("owl", 1)
    image = Image.open(io.BytesIO(owl)).convert("RGB")
    live.predict(owl, png(image), png(image.resize((56, 56))))
    found = inbox(live)
    assert len({image["group"] for image in found["images"]}) == 1
