"""A day with an exported page, all of it after the network was cut, and with Python in between."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, expect

from drawings import draw
from ovor import Classifier

from ..browser import TRIANGLE, drop, sketch
from .conftest import ready, visited

pytestmark = pytest.mark.xdist_group("exported")

LESSON = 60_000  # milliseconds that a lesson may take on a busy machine
FIRST = ["banana", "fish", "sun"]
BUSY = """() => {
  const send = Worker.prototype.postMessage;
  const kept = [];
  Worker.prototype.postMessage = function (...args) { kept.push([this, args]); };
  window.free = () => {
    Worker.prototype.postMessage = send;
    for (const [worker, args] of kept) send.apply(worker, args);
  };
}"""
LEARNING = """async () => {
  const { backend } = await import(new URL("static/backend.js", location.href));
  return (await backend.model()).learning;
}"""


def teach(page: Page, folder: Path, words: str) -> None:
    """Drop a folder of class folders on the form, and learn it."""
    page.get_by_role("tab", name="Teach").click()
    drop(page.locator("#folder-choose"), [folder])
    names = sorted(path.name for path in folder.iterdir())
    expect(page.get_by_label("Class name").nth(len(names) - 1)).to_have_value(names[-1])
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator("#outcome")).to_contain_text(words, timeout=LESSON)


def asked(page: Page, path: Path) -> str:
    """Return what the page says of an image file."""
    page.get_by_role("tab", name="Ask").click()
    drop(page.locator("#ask-zone"), [path])
    row = page.locator(".result").first
    expect(row.locator(".file")).to_have_text(path.name)
    expect(row.locator(".answer strong")).to_be_visible(timeout=LESSON)
    said = row.locator(".answer strong").inner_text()
    page.get_by_role("button", name="Clear the list").click()
    expect(page.locator(".result")).to_have_count(0)
    return said


def downloaded(page: Page, place: Path) -> Classifier:
    """Save the model from the page, and load it in Python."""
    with page.expect_download() as found:
        page.locator("#device-save").click()
    found.value.save_as(place)
    expect(page.locator("#device-unsaved")).to_be_hidden()
    return Classifier.load(place, device="cpu")


def noise(path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def test_a_day_without_a_network(browser: Browser, drawings_page: Path, tmp_path: Path) -> None:
    first = draw(tmp_path / "first", FIRST, 16)
    new = draw(tmp_path / "new", [*FIRST, "owl"], 3, first=60)
    strange = noise(tmp_path / "noise.png")
    with visited(browser, drawings_page) as page:
        ready(page)
        page.context.set_offline(True)
        page.reload()
        ready(page)
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        expect(page.locator(".device")).to_contain_text("Images stay on this device")

        teach(page, first, "banana (16), fish (16) and sun (16).")
        expect(page.locator("#outcome")).to_contain_text("Of new images like these expect")
        expect(page.locator("#device-unsaved")).to_be_visible()
        assert asked(page, new / "fish/060.png") == "fish"
        assert asked(page, strange) == "unknown"

        sketch(page.locator("#pad"), TRIANGLE)
        page.locator("#sketch .wrong").click()
        page.locator(".correct input").fill("triangle")
        page.get_by_role("button", name="Learn it").click()
        expect(page.locator(".learned")).to_contain_text("triangle")
        page.get_by_role("button", name="Undo", exact=True).last.click()
        expect(page.locator(".learned")).to_contain_text("Undone")
        expect(page.locator("#about")).to_have_text("Knows 3 classes: banana, fish, sun")

        model = downloaded(page, tmp_path / "pond.ovor")
        assert list(model.classes_) == FIRST
        assert list(model.predict([new / f"{name}/061.png" for name in FIRST])) == [
            asked(page, new / f"{name}/061.png") for name in FIRST
        ]
        model.learn(draw(tmp_path / "owls", ["owl"], 16)).save(tmp_path / "pond.ovor")

        page.get_by_role("tab", name="Memory").click()
        page.get_by_label("Model file to open").set_input_files(tmp_path / "pond.ovor")
        page.get_by_role("dialog").get_by_role("button", name="Open").click()
        expect(page.locator("#about")).to_have_text("Knows 4 classes: banana, fish, sun, owl")
        expect(page.locator("#name")).to_have_text("pond.ovor")
        expect(page.locator("#device-unsaved")).to_be_hidden()
        assert asked(page, new / "owl/062.png") == str(model.predict([new / "owl/062.png"])[0])


def test_changes_the_inbox_and_a_merge(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    """Names, forgetting, what waits, and another's model, with the sentences of the served page."""
    other = Classifier("embedded", device="cpu").learn(draw(tmp_path / "other", ["train"], 8))
    other.save(tmp_path / "other.ovor")
    (tmp_path / "bad.ovor").write_bytes((tmp_path / "other.ovor").read_bytes()[:-100])
    with visited(browser, drawings_page) as page:
        teach(page, draw(tmp_path / "first", FIRST, 8), "banana (8), fish (8) and sun (8).")
        told, dialog = page.locator("#told"), page.get_by_role("dialog")

        page.get_by_role("tab", name="Memory").click()
        page.get_by_role("button", name="Rename fish").click()
        dialog.get_by_label("New name").fill("Sun")
        dialog.get_by_role("button", name="Rename").click()
        expect(dialog).to_contain_text("Go on with names that look alike?")
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Rename fish").click()
        dialog.get_by_label("New name").fill("trout")
        dialog.get_by_role("button", name="Rename").click()
        expect(told).to_contain_text("“fish” is called “trout” from now on.")
        page.get_by_role("button", name="Undo the last change").click()
        dialog.get_by_role("button", name="Undo").click()
        expect(page.locator("#about")).to_contain_text("fish")

        page.get_by_label("Model file to merge").set_input_files(tmp_path / "bad.ovor")
        dialog.get_by_role("button", name="Merge").click()
        expect(page.locator("#told.bad")).to_contain_text("This file")
        page.get_by_label("Model file to merge").set_input_files(tmp_path / "other.ovor")
        dialog.get_by_role("button", name="Merge").click()
        expect(told).to_contain_text("other.ovor is merged. “train” is there with 8 images.")
        page.get_by_role("button", name="Forget banana").click()
        dialog.get_by_role("button", name="Forget").click()
        expect(page.locator("#about")).to_have_text("Knows 3 classes: fish, sun, train")

        page.get_by_role("tab", name="Ask").click()
        owls = draw(tmp_path / "owls", ["owl"], 10)
        drop(page.locator("#ask-zone"), sorted(owls.glob("owl/*")))
        expect(page.locator(".result .answer")).to_have_count(10, timeout=LESSON)
        page.get_by_role("tab", name="Inbox").click()
        expect(page.locator("#inbox-where")).to_have_text(
            "They are in this tab alone, and gone when it is closed."
        )
        page.get_by_role("button", name="Select all").click()
        waiting = page.locator(".waiting").count()
        assert waiting
        page.get_by_label("They are a").fill("owl")
        page.get_by_role("button", name="Teach", exact=True).click()
        expect(page.locator("#outcome")).to_contain_text(f"owl ({waiting})", timeout=LESSON)
        expect(page.locator(".waiting")).to_have_count(0)


def test_images_that_cannot_be_read_are_marked(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    folder = draw(tmp_path / "first", ["fish", "owl"], 3)
    (folder / "fish/999.png").write_bytes(b"no image")
    with visited(browser, drawings_page) as page:
        teach_words = "fish (3) and owl (3)."
        page.get_by_role("tab", name="Teach").click()
        drop(page.locator("#folder-choose"), [folder])
        expect(page.get_by_label("Class name").nth(1)).to_have_value("owl")
        page.get_by_role("button", name="Learn", exact=True).click()
        expect(page.locator(".thumb-error", has_text="999.png is not an image")).to_be_visible(
            timeout=LESSON
        )
        page.get_by_role("button", name="Remove 1 bad image and try again").click()
        expect(page.locator("#outcome")).to_contain_text(teach_words, timeout=LESSON)


def test_closing_with_something_unsaved_is_asked_about(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    with visited(browser, drawings_page) as page:
        teach(page, draw(tmp_path / "first", ["fish", "owl"], 4), "fish (4) and owl (4).")
        page.on("dialog", lambda dialog: dialog.dismiss())
        with page.expect_event("dialog") as found:
            page.close(run_before_unload=True)
        assert found.value.type == "beforeunload"
        downloaded(page, tmp_path / "m.ovor")


def test_a_lesson_can_be_cancelled(browser: Browser, drawings_page: Path, tmp_path: Path) -> None:
    """While it waits for the engine, which never comes."""
    held: list[Route] = []
    with visited(browser, drawings_page, service_workers="block", hold=held) as page:
        page.watch.allow("blocked by Playwright")
        page.get_by_role("tab", name="Teach").click()
        expect(page.locator("#device-engine")).to_contain_text("Loading what looks at images")
        drop(page.locator("#folder-choose"), [draw(tmp_path / "first", FIRST, 6)])
        expect(page.get_by_label("Class name").nth(2)).to_have_value("sun")
        page.get_by_role("button", name="Learn", exact=True).click()
        expect(page.locator("#lesson-doing")).to_contain_text("Waiting for the rest of this page")
        expect(page.locator("#lesson-meanwhile")).to_be_hidden()  # it answers nothing yet
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.locator("#outcome")).to_contain_text("Cancelled.")
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        expect(page.get_by_label("Class name").nth(2)).to_have_value("sun")
        for route in held:
            route.continue_()
        page.get_by_role("button", name="Learn", exact=True).click()
        expect(page.locator("#outcome")).to_contain_text("sun (6).", timeout=LESSON)


def test_a_lesson_can_be_cancelled_before_it_has_begun(
    browser: Browser, drawings_page: Path, tmp_path: Path
) -> None:
    """A click on Cancel is not lost while the worker is busy, and nothing begins afterwards."""
    with visited(browser, drawings_page, service_workers="block") as page:
        page.watch.allow("blocked by Playwright")
        expect(page.locator("#about")).to_have_text("Knows nothing yet")
        page.get_by_role("tab", name="Teach").click()
        drop(page.locator("#folder-choose"), [draw(tmp_path / "first", FIRST, 6)])
        expect(page.get_by_label("Class name").nth(2)).to_have_value("sun")
        page.evaluate(BUSY)
        page.get_by_role("button", name="Learn", exact=True).click()
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.locator("#lesson")).to_be_hidden()
        expect(page.get_by_label("Class name").nth(2)).to_have_value("sun")
        page.evaluate("window.free()")
        expect(page.locator("#device-engine")).to_contain_text("Computes", timeout=LESSON)
        assert page.evaluate(LEARNING) is None
