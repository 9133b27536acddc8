"""A model of texts over HTTP: asked, taught, put right, and what strangers send."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import ovor.web
from ovor import Classifier
from ovor.classifier.prediction import predict_images
from small_texts import TICKETS, csv_of, text_folder

from .browser import Watch, drop
from .live import Live, drawn, serving, until

KNOWN = {name: TICKETS[name] for name in ("account", "billing")}
PARCEL = "where is my parcel"
SIGNS = "<script>alert(1)</script> \u202eparcel"
MILLION = "where is my parcel " * (10**6 // 19 + 1)


@pytest.fixture(scope="module")
def made_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("texts")
    text_folder(root / "small")
    with chdir(root):
        csv_of(Path("first.csv"), KNOWN)
        Classifier("text:small", device="cpu").learn("first.csv").save("m.ovor")
    return root


@pytest.fixture
def texts(made_texts: Path, tmp_path: Path) -> Iterator[Live]:
    """A server of a model of texts."""
    shutil.copytree(made_texts, tmp_path / "texts")
    with serving(tmp_path / "texts") as found:
        yield found
        assert "Traceback" not in found.said()
        assert "mistake in ovor" not in found.said()


@pytest.fixture(scope="module")
def same_texts(made_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One for tests that change nothing."""
    folder = tmp_path_factory.mktemp("same") / "texts"
    shutil.copytree(made_texts, folder)
    with serving(folder) as found:
        yield found
        assert "Traceback" not in found.said()
        assert "mistake in ovor" not in found.said()


def rows(live: Live, **body: Any) -> list[dict[str, Any]]:
    kind = {"Content-Type": "application/json"}  # in ASCII, as halves of characters are no UTF-8
    answer = live.client.post("/predict", content=json.dumps(body), headers=kind)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


def pairs(classes: dict[str, list[str]]) -> list[dict[str, str]]:
    return [{"text": text, "label": name} for name, own in classes.items() for text in own]


# --- asking


def test_it_says_what_it_reads(same_texts: Live) -> None:
    about = same_texts.about()
    assert about["reads"] == {"one": "text", "many": "texts", "written": True}
    assert not about["drawing"]
    assert [known["name"] for known in about["lessons"][0]["classes"]] == list(KNOWN)


def test_json_forms_and_files_have_the_answers_of_python(same_texts: Live) -> None:
    asked = [*TICKETS["account"], *TICKETS["delivery"]]
    with chdir(same_texts.folder):
        model = Classifier.load("m.ovor", device="cpu")
    expected = [found.as_json(5) for found in predict_images(model, asked)]
    by_json = rows(same_texts, texts=asked, keep=False)
    files = [("texts", (f"{i}.txt", text.encode(), "text/plain")) for i, text in enumerate(asked)]
    by_file = same_texts.client.post("/predict", files=files, data={"keep": "false"}).json()
    fields = [("texts", (None, text.encode())) for text in asked]
    by_form = same_texts.client.post("/predict", files=fields, data={"keep": "false"}).json()
    assert [row["text"] for row in by_json] == asked
    assert [row["text"] for row in by_form["predictions"]] == asked
    assert [row["text"] for row in by_file["predictions"]] == [f"{i}.txt" for i in range(12)]
    for found in (by_json, by_form["predictions"], by_file["predictions"]):
        for said, own in zip(found, expected, strict=True):
            assert said["label"] == own["label"]
            assert said["confidence"] == pytest.approx(own["confidence"], abs=1e-4)


def test_what_cannot_be_read_is_a_row_and_the_rest_is_answered(same_texts: Live) -> None:
    found = rows(same_texts, texts=["", " \n", "\0\0", "a\0 password", SIGNS, "\ud800 my parcel"])
    assert ["error" in row for row in found] == [True, True, True, False, False, False]
    assert found[0]["text"] == "text 1"
    assert found[0]["error"].startswith("text 1 is empty")
    assert "\u202e" not in found[4]["text"]  # written out: names turn no line around
    assert "<script>alert(1)</script>" in found[4]["text"]
    files = [("texts", ("a.txt", b"\xff\xfe\x00", "text/plain")), ("texts", ("b.txt", b"my card"))]
    answer = same_texts.client.post("/predict", files=files)
    assert [row.get("error", "")[:26] for row in answer.json()["predictions"]] == [
        "Line 1 of a.txt is not UTF",
        "",
    ]
    alone = same_texts.client.post("/predict", files=files[:1])
    assert alone.status_code == 422
    assert alone.json()["images"][0]["name"] == "a.txt"


def test_long_texts_are_read_in_part_and_say_so(same_texts: Live) -> None:
    assert len(MILLION) > 10**6
    [short, long] = rows(same_texts, texts=[PARCEL, MILLION])
    assert "shortened" not in short
    assert long["shortened"] is True
    assert len(long["text"]) <= 60


def test_a_request_of_long_texts_holds_nobody_up(same_texts: Live) -> None:
    """It is answered itself, and a short question beside it too."""
    kinds = ["日" * 10**6, "a" * 10**6, "e" + "\u0301" * (10**6 - 1), "! " * (10**6 // 2)]
    files = [("texts", (f"{i}.txt", (kinds[i % 4]).encode())) for i in range(16)]
    with same_texts.client.stream("POST", "/predict", files=files) as long:
        assert rows(same_texts, texts=[PARCEL])
        long.read()
        assert long.status_code == 200
        assert len(long.json()["predictions"]) == 16


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"texts": ["a"] * 10_000}, 413, "There are 10,000 texts: send at most 64 at a time."),
        ({"texts": []}, 422, "There is no text"),
        ({"texts": "a"}, 422, "There is no text"),
        ({"texts": [3]}, 422, "Each text must be a string"),
        ({"images": ["a"]}, 422, "with no other fields than texts, keep."),
        ({"texts": ["a"], "keep": "yes"}, 422, "keep must be true or false."),
        ([["a"]], 422, "must be an object"),
        ({"texts": ["", ""]}, 422, "No text can be used"),
    ],
)
def test_bodies_that_are_refused(same_texts: Live, body: Any, status: int, words: str) -> None:
    answer = same_texts.client.post("/predict", json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b'{"texts": ["\xff"]}', 400, "no JSON in UTF-8"),
        (b"[" * 10**6, 400, "no JSON"),
        (b'{"texts": ["' + b"a" * 2**23 + b'"]}', 413, "larger than 8,388,608 bytes"),
    ],
)
def test_broken_json(same_texts: Live, content: bytes, status: int, words: str) -> None:
    kind = {"Content-Type": "application/json"}
    answer = same_texts.client.post("/predict", content=content, headers=kind)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


def test_images_to_a_model_of_texts_and_the_reverse(same_texts: Live, shared: Live) -> None:
    [picture] = drawn("banana", 1)
    answer = same_texts.client.post("/predict", files={"images": ("a.png", picture)})
    assert answer.status_code == 422
    assert answer.json()["error"] == "This model reads texts, not images: send texts."
    answer = same_texts.client.post("/predict", files={"texts": ("a.png", picture)})
    assert answer.status_code == 422
    assert "a.png is an image, not a text" in answer.json()["error"]
    answer = shared.client.post("/predict", json={"texts": ["a"]})
    assert answer.status_code == 415
    answer = shared.client.post("/predict", files={"texts": (None, b"a")})
    assert answer.json()["error"] == "This model reads images, not texts: send images."
    assert shared.about()["reads"] == {"one": "image", "many": "images", "written": False}


# --- teaching


def learned(live: Live, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    return live.until(answer.json()["id"], "done")


def test_lessons_as_json_a_form_and_a_table(texts: Live) -> None:
    delivery = {"delivery": TICKETS["delivery"]}
    done = learned(texts, texts.client.post("/lessons", json={"lessons": pairs(delivery)}))
    assert done["classes"] == [{"name": "delivery", "images": 6}]
    assert done["lesson"] == 2
    assert "image" not in json.dumps([done["notes"], done["report"]["advice"]])
    assert rows(texts, texts=[PARCEL])[0]["likeliest"] == "delivery"
    table = csv_of(texts.folder / "more.csv", {"garden": ["a tree", "the lawn"]}).read_bytes()
    files = [("texts", (None, text.encode())) for text in ("rain and wind", "snow again")]
    answer = texts.client.post(
        "/lessons",
        files=[*files, ("table", ("more.csv", table))],
        data={"labels": ["weather", "weather"]},
    )
    learned(texts, answer)
    about = texts.about()
    counts = {c["name"]: c["images"] for one in about["lessons"] for c in one["classes"]}
    assert counts == {"account": 6, "billing": 6, "delivery": 6, "garden": 2, "weather": 2}
    assert texts.scratch() == []


def test_lines_of_a_table_without_text_can_be_skipped(texts: Live) -> None:
    table = {"table": ("er.csv", b"text,label\nrain and wind,weather\n,weather\n")}
    refused = texts.client.post("/lessons", files=table)
    assert refused.status_code == 422
    assert "The text in line 3 of er.csv is empty" in refused.json()["error"]
    assert "on_error=skip" in refused.json()["error"]
    done = learned(texts, texts.client.post("/lessons", files=table, data={"on_error": "skip"}))
    assert done["classes"] == [{"name": "weather", "images": 1}]
    shown = texts.client.post("/table", files=table)
    assert shown.json()["error"] == "Line 3 of er.csv has no text: add it, or remove the line."


def test_bodies_of_another_kind_are_told_all_that_can_be_sent(same_texts: Live) -> None:
    answer = same_texts.client.post(
        "/predict", content=b"a", headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 415
    assert "multipart/form-data, with the field texts, or application/json." in answer.text
    answer = same_texts.client.post("/correct", json={"text": "a"})
    assert answer.json()["error"] == "The field label is missing: send it."


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (b"text,label\nx\n", "Line 2 of t.csv has 1 values"),
        (b"text,label\nx,\n", "Line 2 of t.csv has no label"),
        (b"words,label\nx,y\n", "t.csv has no column of texts"),
        (b"text,label\n\xff,y\n", "Line 2 of t.csv is not UTF-8"),
        (b"", "t.csv has no rows"),
        (b"text,label\n" + b"a b,c\n" * 2001, "There are 2,001 texts: send at most 2,000"),
        (b"text,label\n\0,y\n", "is empty"),
    ],
)
def test_tables_that_are_refused(same_texts: Live, table: bytes, words: str) -> None:
    answer = same_texts.client.post("/lessons", files={"table": ("t.csv", table)})
    assert answer.status_code in (413, 422), answer.text
    assert words in answer.json()["error"]
    assert same_texts.about()["version"] == 1


def test_lessons_that_are_refused(same_texts: Live) -> None:
    def refused(**body: Any) -> str:
        answer = same_texts.client.post("/lessons", json=body)
        assert answer.status_code in (409, 413, 422), answer.text
        return str(answer.json()["error"])

    assert "an object of text and label, and nothing else" in refused(lessons=[{"text": "a"}])
    assert "Each label must be a string" in refused(lessons=[{"text": "a", "label": 3}])
    assert "Billing" in refused(lessons=[{"text": "a", "label": "Billing"}])
    assert "on_error=skip to go on without such texts" in refused(
        lessons=[{"text": "", "label": "x"}, {"text": "a", "label": "x"}]
    )
    assert "10,000 texts" in refused(lessons=[{"text": "a", "label": "x"}] * 10_000)


def test_a_table_is_shown_and_nothing_learned(same_texts: Live) -> None:
    content = b"Subject;Body;Queue\nHello;the parcel;delivery\nHi;my card;billing\n"
    found = same_texts.client.post(
        "/table", files={"table": ("a.csv", content)}, data={"labelled": "true"}
    )
    assert found.json() == {
        "rows": [
            {"text": "Hello\nthe parcel", "label": "delivery"},
            {"text": "Hi\nmy card", "label": "billing"},
        ]
    }
    for name, content in (("a.csv", b"text\nthe parcel\n"), ("a.jsonl", b'{"text": "the parcel"}')):
        found = same_texts.client.post("/table", files={"table": (name, content)})
        assert found.json() == {"rows": [{"text": "the parcel", "label": None}]}
    assert same_texts.client.post("/table", files={"x": b""}).status_code == 422
    assert same_texts.about()["version"] == 1


# --- changes and the inbox


def test_a_text_is_put_right_moved_taken_back_and_undone(texts: Live) -> None:
    def counts(about: dict[str, Any]) -> dict[str, int]:
        return {c["name"]: c["images"] for one in about["lessons"] for c in one["classes"]}

    said = texts.client.post("/correct", json={"text": PARCEL, "label": "delivery"}).json()
    assert said["row"]["text"] == PARCEL
    assert counts(said) == {"account": 6, "billing": 6, "delivery": 1}
    body = {"text": PARCEL, "label": "billing", "was": "delivery"}
    assert counts(texts.client.post("/correct", json=body).json()) == {"account": 6, "billing": 7}
    said = texts.client.post("/unlearn", json={"lessons": [{"text": PARCEL, "label": "billing"}]})
    assert counts(said.json()) == {"account": 6, "billing": 6}
    form = texts.client.post(
        "/correct", files={"text": (None, PARCEL.encode())}, data={"label": "account"}
    )
    assert counts(form.json()) == {"account": 7, "billing": 6}
    assert counts(texts.client.post("/undo").json()) == {"account": 6, "billing": 6}
    renamed = texts.client.post("/rename", json={"class": "account", "to": "login"}).json()
    assert "login" in counts(renamed)
    wrong = texts.client.post("/correct", json={"text": "\0", "label": "billing"})
    assert wrong.status_code == 422
    assert "is empty" in wrong.json()["error"]
    assert "corrected: a text is 'delivery'" in texts.said()


def test_texts_wait_in_the_inbox_and_are_taught_from_there(texts: Live) -> None:
    strange = ["snow on the hills \u202e<b>", "rain and wind again", "a storm tonight"]
    said = rows(texts, texts=strange)
    unsure = [row["text"] for row in said if row["unknown"] or row["confidence"] < 0.75]
    assert unsure, "the test needs a text that the model is not sure about"
    inbox = texts.client.get("/inbox").json()
    assert {one["text"] for one in inbox["images"]} == set(unsure)
    ids = [one["id"] for one in inbox["images"]]
    answer = texts.client.get(f"/inbox/{ids[0]}")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text in strange
    done = texts.client.post("/inbox/teach", json={"ids": ids, "label": "weather"})
    learned(texts, done)
    assert texts.client.get("/inbox").json()["images"] == []
    assert texts.client.get(f"/inbox/{ids[0]}").status_code == 404


def test_the_inbox_of_a_model_of_images_is_left_alone(made_texts: Path, tmp_path: Path) -> None:
    shutil.copytree(made_texts, tmp_path / "texts")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / ("0" * 32)).write_bytes(drawn("banana", 1)[0])
    refused = pytest.raises(AssertionError, match="of images, and this model reads texts")
    with refused, serving(tmp_path / "texts", "--inbox", str(kept)):
        pass
    assert (kept / ("0" * 32)).exists()


def test_texts_survive_in_a_folder(made_texts: Path, tmp_path: Path) -> None:
    shutil.copytree(made_texts, tmp_path / "texts")
    with serving(tmp_path / "texts", "--inbox", "kept") as live:
        rows(live, texts=["snow on the hills", "a storm tonight", "rain and wind again"])
        before = {one["id"] for one in live.client.get("/inbox").json()["images"]}
        assert before
        live.end()
    with serving(tmp_path / "texts", "--inbox", "kept") as live:
        until(lambda: len(live.client.get("/inbox").json()["images"]) == len(before))
        assert {one["id"] for one in live.client.get("/inbox").json()["images"]} == before


# --- a model that is not there yet, exams, and a file of the other kind


def test_it_starts_without_a_model(made_texts: Path, tmp_path: Path) -> None:
    shutil.copytree(made_texts, tmp_path / "texts")
    csv_of(tmp_path / "texts/exam.csv", KNOWN)
    options = ("--backbone", "text:small", "--exam", "exam.csv")
    with serving(tmp_path / "texts", *options, model="new.ovor") as live:
        about = live.about()
        assert about["empty"]
        assert about["reads"]["one"] == "text"
        assert live.client.post("/predict", json={"texts": ["a"]}).status_code == 409
        said = live.client.post("/correct", json={"text": "a b", "label": "x"}).json()
        assert said["row"]["likeliest"] == "x"
        learned(live, live.client.post("/lessons", json={"lessons": pairs(KNOWN)}))

        until(lambda: live.about()["exams"])
        assert {one["name"] for one in live.about()["exams"][-1]["classes"]} == set(KNOWN)


def test_a_file_of_another_kind_is_not_taken_over(texts: Live, made: Path) -> None:

    shutil.copy(made, texts.folder / "m.ovor")
    until(lambda: "is not taken over" in texts.said())
    assert "reads images, and this server is for texts" in texts.said()
    assert rows(texts, texts=["please reset my password"])[0]["likeliest"] in KNOWN


# --- the page with a server behind it


def test_the_page_asks_puts_right_and_reads_tables(texts: Live, browser: Browser) -> None:
    page = browser.new_page(base_url=texts.url)
    watch = Watch(page, texts.url)
    page.goto("/")
    page.get_by_label("Ask about a text").fill(f"{SIGNS}\nplease reset my password")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#text-answer .answer")).to_be_visible()
    expect(page.locator("#text-answer")).not_to_have_attribute("aria-busy", "true")
    page.locator("#text-answer .wrong").click()
    page.locator("#text-answer").get_by_label("or something else").fill("security")
    page.get_by_role("button", name="Learn it").click()
    expect(page.locator("#text-answer .learned")).to_contain_text("Learned")
    assert "security" in [c["name"] for one in texts.about()["lessons"] for c in one["classes"]]
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#table-choose"), [texts.folder / "first.csv"])
    expect(page.locator("#tally")).to_have_text("2 classes, 12 texts")
    page.get_by_role("tab", name="Ask").click()
    drop(page.locator("#ask-zone"), [texts.folder / "first.csv"])
    expect(page.locator(".result .answer")).to_have_count(12)
    page.close()
    watch.check()


def test_only_the_network_says_what_is_read() -> None:
    """The issue asks for it: nothing here knows the kinds, but for what `reads` tells of one."""
    package = Path(ovor.web.__file__).parents[1]
    web, scripts = (package / "web").glob("*.py"), (package / "web/static").rglob("*.js")
    others = (path for part in ("classifier", "report") for path in (package / part).glob("*.py"))
    for path in (*web, *scripts, *others):
        content = path.read_text()
        assert not re.search(r"(Text|Image)Modality", content), path.name
        assert not re.search(r"[!=]==? *\"(texts|images?)\"", content), path.name
        assert path.parent.name != "web" or "data.tokens" not in content, path.name
