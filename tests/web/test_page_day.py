"""A day with the page and its server: from no model at all to one that was put right and undone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from drawings import draw
from ovor import Classifier

from .browser import TRIANGLE, Watch, drop, sketch
from .live import serving

LESSON = 60_000  # milliseconds that a lesson may take on a busy machine
FIRST = ["banana", "fish", "sun"]


@contextmanager
def visited(browser: Browser, address: str) -> Iterator[Page]:
    """Open the page of a server, and close it before the server is gone."""
    page = browser.new_page(base_url=address, viewport={"width": 1100, "height": 900})
    watch = page.watch = Watch(page, address)
    page.goto("/")
    yield page
    page.close()
    watch.check()


def test_first_classes_a_correction_the_inbox_and_an_undo(browser: Browser, tmp_path: Path) -> None:
    options = ("--backbone", "embedded")
    with (
        serving(tmp_path, *options, model="new.ovor") as live,
        visited(browser, live.url) as page,
    ):
        page.get_by_role("link", name="Teach it its first classes").click()
        drop(page.locator("#folder-choose"), [draw(tmp_path / "first", FIRST, 20)])
        expect(page.get_by_label("Class name").nth(2)).to_have_value("sun")
        page.get_by_role("button", name="Learn", exact=True).click()
        outcome = page.locator("#outcome")
        expect(outcome).to_contain_text("banana (20), fish (20) and sun (20).", timeout=LESSON)
        page.get_by_role("link", name="Try it").click()

        sketch(page.locator("#pad"), TRIANGLE)
        page.locator("#sketch .wrong").click()
        page.locator(".correct input").fill("triangle")
        page.get_by_role("button", name="Learn it").click()
        expect(page.locator(".learned")).to_contain_text("triangle")
        expect(page.locator("#about")).to_contain_text("triangle")

        owls = draw(tmp_path / "ask", ["owl"], 16)
        drop(page.locator("#ask-zone"), sorted(owls.glob("owl/*")))
        expect(page.locator(".result .answer")).to_have_count(16, timeout=LESSON)
        page.get_by_role("tab", name="Inbox").click()
        boxes = page.locator(".waiting input")
        expect(boxes.nth(4)).to_be_visible()
        for number in range(5):
            boxes.nth(number).check()
        page.get_by_label("They are a").fill("owl")
        page.get_by_role("button", name="Teach", exact=True).click()
        expect(outcome).to_contain_text(": owl (5).", timeout=LESSON)
        expect(page.locator("#about")).to_contain_text("owl")

        page.get_by_role("button", name="Undo this lesson").click()
        page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        expect(page.locator("#told")).to_contain_text("Undone. \u201cowl\u201d is gone.")
        expect(page.locator("#about")).to_have_text("Knows 4 classes: banana, fish, sun, triangle")


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    Classifier("embedded").learn(draw(tmp_path / "a", ["banana", "fish"], 12)).save(
        tmp_path / "garden.ovor"
    )
    return tmp_path


def test_the_model_is_renamed_merged_forgotten_and_taken_along(
    browser: Browser, garden: Path
) -> None:
    Classifier("embedded").learn(draw(garden / "b", ["fish", "owl"], 12)).save(
        garden / "south.ovor"
    )
    with serving(garden, model="garden.ovor") as live, visited(browser, live.url) as page:
        page.watch.allow(409)
        page.get_by_role("tab", name="Memory").click()
        drop(page.locator("#model-card"), [garden / "south.ovor"])
        page.get_by_role("dialog").get_by_role("button", name="Merge").click()
        expect(page.locator("#told")).to_contain_text("\u201cfish\u201d has 24 images")
        page.get_by_role("button", name="Rename owl").click()
        page.get_by_label("New name").fill("Fish")
        page.keyboard.press("Enter")
        page.get_by_role("dialog", name="look alike").get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Rename owl").click()
        page.get_by_label("New name").fill("bird")
        page.keyboard.press("Enter")
        expect(page.locator("#about")).to_have_text("Knows 3 classes: banana, fish, bird")
        page.get_by_role("button", name="Forget banana").click()
        page.get_by_role("dialog").get_by_role("button", name=re.compile("^Forget")).click()
        expect(page.locator("#about")).to_have_text("Knows 2 classes: fish, bird")
        expect(page.get_by_role("button", name="Undo the last change")).to_be_disabled()
        with page.expect_download() as found:
            page.get_by_role("button", name="Download the model").click()
        found.value.save_as(garden / "copy.ovor")
    assert Classifier.load(garden / "copy.ovor").classes_.tolist() == ["fish", "bird"]


def test_a_token_that_may_only_ask_shows_nothing_that_teaches(
    browser: Browser, garden: Path
) -> None:
    tokens = {"OVOR_TOKEN": "who-teaches", "OVOR_ASK_TOKEN": "who-asks"}
    with (
        serving(garden, model="garden.ovor", **tokens) as live,
        visited(browser, live.url) as page,
    ):
        page.watch.allow(401)
        page.locator("#token-value").fill("who-asks")
        page.keyboard.press("Enter")
        expect(page.get_by_role("tab")).to_have_text(["Ask", "Memory"])
        drop(page.locator("#ask-zone"), [garden / "a/fish/000.png"])
        expect(page.locator(".result .answer")).to_be_visible()
        expect(page.locator(".wrong")).to_have_count(0)
        page.evaluate("sessionStorage.clear()")
        page.reload()
        page.locator("#token-value").fill("who-teaches")
        page.keyboard.press("Enter")
        expect(page.get_by_role("tab")).to_have_text(["Ask", "Inbox", "Teach", "Memory"])


def test_images_are_kept_in_a_folder_where_that_is_wanted(browser: Browser, garden: Path) -> None:
    with (
        serving(garden, "--inbox", "waiting", model="garden.ovor") as live,
        visited(browser, live.url) as page,
    ):
        drop(page.locator("#ask-zone"), sorted(draw(garden / "c", ["owl"], 12).glob("owl/*")))
        expect(page.locator(".result .answer")).to_have_count(12, timeout=LESSON)
        page.get_by_role("tab", name="Inbox").click()
        expect(page.locator("#inbox-where")).to_contain_text("kept in the folder")
        expect(page.locator(".waiting img").first).to_be_visible()


def test_a_lesson_that_learned_nothing_is_not_green(browser: Browser, garden: Path) -> None:
    """The same drawings under two names cannot be told apart."""
    same = draw(garden / "same", ["owl"], 8)
    (same / "bird").mkdir()
    for path in (same / "owl").iterdir():
        (same / "bird" / path.name).write_bytes(path.read_bytes())
    with serving(garden, model="garden.ovor") as live, visited(browser, live.url) as page:
        page.get_by_role("tab", name="Teach").click()
        drop(page.locator("#folder-choose"), [same])
        expect(page.get_by_label("Class name").nth(1)).to_have_value("owl")
        page.get_by_role("button", name="Learn", exact=True).click()
        card = page.locator("#outcome")
        expect(card).to_contain_text("bird (8) and owl (8).", timeout=LESSON)
        expect(card).to_have_class(re.compile(r"\bpoor\b"))
        expect(card.locator(".advice li").first).to_be_visible()
