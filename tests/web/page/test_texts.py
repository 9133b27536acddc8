"""The page with a model of texts: a box to type in, lines and tables to teach, and quotes."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ..browser import drop
from .conftest import Open
from .stub import DESK, PHONE, an_inbox, calls, done, lesson, of_texts, row, unknown

TICKETS = of_texts(lesson(1, account=12, billing=12), lesson(2, delivery=12))
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> \u202eevil\u202c"
VIEWS = ("ask", "inbox", "teach", "memory")


def tickets(show: Open, size: dict[str, int] = DESK, view: str = "", **stub: Any) -> Page:
    told = {"model": TICKETS, "rows": [row("delivery", other="billing")], **stub}
    return show(size, view, **told)


def typed(page: Page, text: str = "where is my parcel") -> None:
    page.get_by_label("Ask about a text").fill(text)
    expect(page.locator("#text-answer .answer")).to_be_visible()
    expect(page.locator("#text-answer")).not_to_have_attribute("aria-busy", "true")


def fits(page: Page) -> bool:
    """Tell whether nothing stands out to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


# --- asking


def test_a_text_is_answered_when_one_pauses(show: Open) -> None:
    page = tickets(show)
    expect(page.locator("#text-answer")).to_contain_text("comes when you pause")
    expect(page.locator("#text-ask")).to_be_disabled()
    typed(page)
    expect(page.locator("#text-answer strong")).to_have_text("delivery")
    expect(page.locator("#text-answer meter")).to_have_count(2)
    assert calls(page, "predict")[-1]["text"] == "where is my parcel"
    assert calls(page, "predict")[-1]["keep"] is False  # it may be half typed
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator("#text-answer .answer")).to_have_count(0)
    expect(page.get_by_label("Ask about a text")).to_be_focused()


def test_the_keyboard_asks_at_once_and_lets_it_wait(show: Open) -> None:
    page = tickets(show)
    page.get_by_label("Ask about a text").fill("where is it\nand when")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#text-answer strong")).to_have_text("delivery")
    assert calls(page, "predict")[-1]["keep"] is True
    assert calls(page, "predict")[-1]["text"] == "where is it\nand when"


def test_no_view_speaks_of_images_or_shows_what_is_for_them(show: Open) -> None:
    page = tickets(show, inbox=an_inbox(delivery=2, billing=1), texts=["a b", "c d", "e f"])
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        expect(page.locator(f"#{view}")).to_be_visible()
        words = page.locator("body").inner_text().lower()
        for word in ("image", "photograph", "picture", "draw", "camera"):
            assert word not in words, (view, word)
    for part in ("#sketch", "#camera-card"):
        expect(page.locator(part)).to_be_hidden()
    expect(page.get_by_role("button", name="Camera")).to_have_count(0)


def test_a_model_of_images_has_nothing_of_texts(show: Open) -> None:
    page = show()
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        expect(page.locator("textarea:visible")).to_have_count(0)
        expect(page.get_by_role("button", name="Choose a table")).to_have_count(0)


def test_a_wrong_answer_is_put_right(show: Open) -> None:
    page = tickets(show, rows=[unknown("billing")])
    typed(page)
    expect(page.locator("#write")).to_have_class(re.compile("is-unknown"))
    page.get_by_role("button", name="Tell it: it is a \u2026").click()
    page.locator("#text-answer").get_by_role("button", name="delivery").click()
    expect(page.locator("#text-answer .learned")).to_contain_text("Learned: it is")
    assert calls(page, "correct")[0]["label"] == "delivery"
    assert calls(page, "correct")[0]["file"] == "where is my parcel"
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator("#text-answer .learned")).to_contain_text("Undone")


def test_one_text_that_does_not_suffice_is_called_a_text(show: Open) -> None:
    page = tickets(show, corrected=row("billing"))
    typed(page)
    page.get_by_role("button", name="Wrong? It is a \u2026").click()
    page.locator("#text-answer").get_by_role("button", name="account").click()
    expect(page.locator("#text-answer .learned")).to_contain_text("one text is not enough")


def test_a_long_text_says_that_its_end_was_not_read(show: Open) -> None:
    page = tickets(show, rows=[{**row("delivery"), "shortened": True}])
    typed(page, "where is my parcel " * 60_000)
    expect(page.locator("#text-answer .note")).to_contain_text("the end of it was not read")


def test_so_does_a_file(show: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("where is my parcel " * 60_000)
    page = tickets(show, rows=[{**row("delivery"), "shortened": True}])
    drop(page.locator("#ask-zone"), [tmp_path / "a.txt"])
    expect(page.locator(".result .note")).to_contain_text("the end of it was not read")


def test_files_and_tables_are_asked_about(show: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"one {HOSTILE}")
    (tmp_path / "t.csv").write_text("text\nx\n")
    table = [{"text": HOSTILE, "label": None}, {"text": "the second", "label": None}]
    page = tickets(show, table=table)
    drop(page.locator("#ask-zone"), [tmp_path / "a.txt", tmp_path / "t.csv"])
    expect(page.locator(".result .answer")).to_have_count(3)
    expect(page.locator(".result .quote")).to_have_text([f"one {HOSTILE}", HOSTILE, "the second"])
    expect(page.locator(".result img, .result script")).to_have_count(0)
    assert calls(page, "table") == [{"name": "table", "file": "t.csv", "labelled": False}]


def test_a_table_that_cannot_be_read_is_a_sentence(show: Open, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n")
    wrong = {"status": 422, "error": "t.csv has no column of texts: give one the name 'text'."}
    page = tickets(show, refuse={"table": wrong})
    drop(page.locator("#ask-zone"), [tmp_path / "t.csv"])
    expect(page.locator("#told")).to_contain_text("t.csv has no column of texts")


# --- teaching


def test_lines_files_and_tables_are_taught(show: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the courier is late")
    (tmp_path / "t.csv").write_text("text,label\nx,y\n")
    table = [{"text": HOSTILE, "label": "garden"}, {"text": "a tree", "label": "garden"}]
    page = tickets(show, view="teach", table=table, lesson=done())
    page.get_by_label("Class name").first.fill("weather")
    page.get_by_label("Texts, one a line").first.fill("rain again\n\n  snow  \r\nwind")
    first = page.locator(".class").first
    expect(first).to_contain_text("3 texts")
    drop(first, [tmp_path / "a.txt"])
    expect(first).to_contain_text("4 texts")
    drop(page.locator("#table-choose"), [tmp_path / "t.csv"])
    expect(page.get_by_label("Class name").nth(1)).to_have_value("garden")
    expect(page.locator(".class").nth(1).locator(".quote")).to_have_text([HOSTILE, "a tree"])
    expect(page.locator("#tally")).to_have_text("2 classes, 6 texts")
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#outcome")).to_contain_text("Of new texts like these")
    [call] = calls(page, "teach")
    assert call["labels"] == "weather 4, garden 2"
    assert call["names"][:4] == ["rain again", "snow", "wind", "a.txt"]
    expect(page.get_by_label("Texts, one a line").first).to_have_value("")


def test_what_was_typed_can_be_mended(show: Open) -> None:
    page = tickets(show, view="teach")
    box = page.get_by_label("Texts, one a line").first
    box.fill("a b\nc d")
    expect(page.locator(".class").first).to_contain_text("2 texts")
    box.fill("a b")
    expect(page.locator(".class").first).to_contain_text("One text only")
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#problems")).to_contain_text("Give this class a name.")
    page.get_by_label("Class name").first.fill("delivery")
    expect(page.locator(".class").first).to_contain_text("learns these texts in addition")


def test_the_first_classes_of_an_empty_model(show: Open) -> None:
    page = tickets(show, model=of_texts())
    expect(page.locator("#empty")).to_contain_text("some texts of each thing")
    expect(page.locator("#write")).to_be_hidden()
    page.get_by_role("link", name="Teach it its first classes").click()
    expect(page.locator("#teach")).to_contain_text("Ten texts a class are a start.")


# --- the inbox


def test_the_inbox_shows_quotes_which_are_taught(show: Open) -> None:
    told = [HOSTILE, "rain and wind", "snow " * 500]
    inbox = an_inbox(delivery=2, billing=1)
    for one in inbox["images"]:
        one["text"] = f"{one.pop('image')} quoted"
    page = tickets(show, view="inbox", inbox=inbox, texts=told, lesson=done())
    expect(page.locator(".waiting .quote")).to_have_count(3)
    expect(page.locator(".waiting .quote").first).to_have_text(HOSTILE)
    expect(page.locator(".waiting img, .waiting script")).to_have_count(0)
    expect(page.locator(".group").first).to_contain_text("2 that are alike")
    page.locator(".group .check input").first.check()
    expect(page.locator("#inbox-count")).to_have_text("2 texts selected")
    page.get_by_label("They are a").fill("weather")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.locator("#outcome")).to_be_visible()
    assert calls(page, "inboxTeach")[0]["ids"] == ["0", "1"]


# --- how it looks


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_view_fits(show: Open, size: dict[str, int], scheme: Any) -> None:
    inbox = an_inbox(delivery=2, billing=1)
    texts = ["W" * 500, HOSTILE, "a b"]
    page = tickets(show, size, inbox=inbox, texts=texts)
    page.emulate_media(color_scheme=scheme)
    typed(page, "unbroken" * 200)
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        if view == "inbox":
            expect(page.locator(".waiting .quote")).to_have_count(3)
        if view == "teach":
            page.get_by_label("Texts, one a line").first.fill("x" * 300)
        assert fits(page), view


def test_on_a_phone_box_and_answer_are_in_sight_together(show: Open) -> None:
    page = tickets(show, PHONE)
    typed(page)
    for part in ("#text", "#text-answer .answer", "#text-answer .bars", "#text-answer .wrong"):
        box = page.locator(part).bounding_box()
        assert box
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= PHONE["height"], part
