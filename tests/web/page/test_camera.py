"""The camera, in the page itself: a canvas takes its place, and a stub that of the model."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .conftest import Open
from .stub import GARDEN, calls, row

PHOTOS = {**GARDEN, "drawing": False, "backbone": "photos"}
FILM = """() => Object.defineProperty(navigator, "mediaDevices", { value: { async getUserMedia() {
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d");
  setInterval(() => pen.fillRect(0, 0, 100, (Date.now() / 10) % 100), 30);
  window.film = canvas.captureStream(20);
  return window.film;
} } })"""
UNTIL = "async () => { while (!%s) await new Promise((done) => setTimeout(done, 20)); }"
UNTIL_ASKED = UNTIL % "window.calls.some((call) => call.name === 'predict')"
UNTIL_ENDED = UNTIL % "(window.film.getTracks()[0].readyState === 'ended')"
REFUSED = """(name) => Object.defineProperty(navigator, "mediaDevices", { value: name
  ? { getUserMedia: () => Promise.reject(new DOMException("no", name)) } : undefined })"""


def live(page: Page, _: Path) -> None:
    """Let the camera look, until there is an answer."""
    page.evaluate(FILM)
    page.get_by_role("button", name="Start the camera").click()
    expect(page.locator(".camera-answer .answer")).to_be_visible()


def held(page: Page, _: Path) -> None:
    """Open the camera of a class, until pictures can be taken."""
    page.evaluate(FILM)
    page.get_by_role("button", name="Camera", exact=True).first.click()
    expect(page.get_by_role("button", name="Hold to take pictures")).to_be_enabled()


def test_it_answers_again_and_again_and_keeps_nothing(show: Open, tmp_path: Path) -> None:
    page = show(model=PHOTOS, rows=[row("train"), row("fish")], delay=50)
    live(page, tmp_path)
    expect(page.locator(".camera-answer .answer strong")).to_have_text("fish")
    assert not any(call["keep"] for call in calls(page, "predict"))
    assert page.locator(".camera-answer button").count() == 0  # the next answer comes at once
    page.get_by_role("button", name="Take a picture").click()
    expect(page.locator(".result .answer strong")).to_have_text("fish")
    expect(page.locator(".result .wrong")).to_be_visible()
    page.get_by_role("button", name="Stop the camera").click()
    expect(page.get_by_role("button", name="Start the camera")).to_be_focused()
    assert page.evaluate("window.film.getTracks()[0].readyState") == "ended"


def test_no_second_question_before_the_first_is_answered(show: Open, tmp_path: Path) -> None:
    page = show(model=PHOTOS)
    page.evaluate("window.stub.delay = 1e6")
    page.evaluate(FILM)
    page.get_by_role("button", name="Start the camera").click()
    page.evaluate(UNTIL_ASKED)
    page.evaluate("new Promise((done) => setTimeout(done, 700))")  # time for more of them
    assert len(calls(page, "predict")) == 1


def test_holding_a_key_takes_pictures_of_a_class(show: Open, tmp_path: Path) -> None:
    page = show(model=PHOTOS, view="teach")
    held(page, tmp_path)
    page.get_by_role("button", name="Hold to take pictures").focus()
    page.keyboard.down(" ")
    expect(page.locator(".thumbs li").nth(2)).to_be_visible()
    page.keyboard.up(" ")
    page.get_by_role("button", name="Stop the camera").click()
    taken = page.locator(".thumbs li").count()
    expect(page.locator(".class .buttons .hint").first).to_have_text(f"{taken} pictures taken")
    expect(page.locator("#tally")).to_contain_text(f"{taken} images")


def test_it_stops_when_nobody_looks_at_it(show: Open, tmp_path: Path) -> None:
    page = show(model=PHOTOS)
    live(page, tmp_path)
    page.get_by_role("tab", name="Memory").click()
    page.evaluate(UNTIL_ENDED)
    page.get_by_role("tab", name="Ask").click()
    expect(page.get_by_role("button", name="Start the camera")).to_be_visible()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NotAllowedError", "This page may not use the camera: allow it beside the address"),
        ("NotFoundError", "There is no camera here: choose photographs instead."),
        ("NotReadableError", "The camera does not answer: another program may use it"),
        (None, "Browsers give the camera to pages over https or from this machine alone"),
    ],
)
def test_without_a_camera_it_says_so(show: Open, error: str | None, words: str) -> None:
    page = show(model=PHOTOS)
    page.evaluate(REFUSED, error)
    page.get_by_role("button", name="Start the camera").click()
    expect(page.locator("#camera .error")).to_contain_text(words)
    expect(page.get_by_role("button", name="Start the camera")).to_be_visible()


def test_a_camera_makes_no_drawings(show: Open) -> None:
    page = show(model=GARDEN)
    expect(page.locator("#sketch")).to_be_visible()
    expect(page.locator("#camera-card")).to_be_hidden()
    page.get_by_role("tab", name="Teach").click()
    expect(page.get_by_role("button", name="Camera", exact=True)).to_have_count(0)
